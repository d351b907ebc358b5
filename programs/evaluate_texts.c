/* Perplexity: documents are read in windows that overlap, as the Hugging Face page "Perplexity of
 * fixed-length models" has it. A window begins every `stride` tokens, and of its tokens those are
 * predicted that no window before it has predicted. So each token but the first of a document is
 * predicted once, with up to `window` - 1 tokens before it; if the windows do not overlap, the
 * first token of each is predicted by none. */
#include "evaluate.h"

#include <stdlib.h>

static documents read_documents(const evaluation *e) {
    const ct_lm_info about = ct_lm_about(e->lm);
    documents_opts opts = {.tokenizer = e->tokenizer,
                           .end_id = ct_token_role(e->tokenizer, "eos_token"),
                           .separator = option.separator,
                           .plain = option.plain,
                           .format = (int)option.format,
                           .chat = e->form.opts,
                           .open_texts = true};
    if (opts.end_id < 0 && about.n_eos) opts.end_id = about.eos[0];
    return documents_read(e->context, option.data, &opts);
}

/* Divides document i into windows. */
static void add_windows(score_rows *set, const evaluation *e, const documents *d, int64_t i) {
    const int64_t first = d->begin[i], n = d->begin[i + 1] - first;
    for (int64_t begin = 0, done = 0, end; done < n; begin += e->stride, done = end) {
        end = begin + e->window < n ? begin + e->window : n;
        /* id `done` is predicted at the place before it, unless it is the window's first */
        const int64_t from = done > begin ? done - 1 - begin : 0;
        score_rows_add(set, (score_row){first + begin, end - begin, from, 0, 0});
    }
}

void evaluate_texts(evaluation *e) {
    documents d = read_documents(e);
    score_rows set = {.ids = d.ids, .targets = d.targets};
    const int64_t most = ct_lm_about(e->lm).max_length;
    e->documents = d.count;
    e->window = option.window ? option.window : most > 0 && most < 1024 ? most : 1024;
    e->stride = option.stride ? option.stride : e->window > 1 ? e->window / 2 : 1;
    if (most > 0 && e->window > most)
        fail(EXIT_USAGE, "--window %lld is more than the model's %lld tokens", (long long)e->window,
             (long long)most);
    if (e->stride > e->window)
        fail(EXIT_USAGE, "--stride %lld leaves out tokens between windows of %lld",
             (long long)e->stride, (long long)e->window);
    e->of_windows = d.count == 1;
    int64_t *row_end = room_for(NULL, (size_t)d.count, sizeof *row_end); /* of each document */
    for (int64_t i = 0; i < d.count; i++) {
        add_windows(&set, e, &d, i);
        row_end[i] = set.n;
    }
    evaluation_run(e, &set);
    for (int64_t i = 0, row = 0; i < d.count; i++) {
        scored *unit = NULL;
        for (; row < row_end[i]; row++) {
            if (!unit || e->of_windows) unit = evaluation_add(e);
            unit->nats += set.row[row].nats;
            unit->tokens += set.row[row].tokens;
        }
        if (unit && !e->of_windows) unit->bytes = d.bytes[i];
        e->bytes += d.bytes[i];
    }
    int64_t tokens = 0;
    for (int64_t i = 0; i < e->n; i++) tokens += e->unit[i].tokens;
    if (!tokens) fail(EXIT_USAGE, "%s has no token that could be predicted", option.data);
    free(row_end);
    free(set.row);
    documents_free(&d);
}
