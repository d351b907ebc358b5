/* Labelled texts, which a classifier is asked about in rows of one text each, with the masks and
 * the padding that finetune --task measures with. */
#include "evaluate.h"
#include "system.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the model tells of a text, by its config.json; without problem_type, by the labels of the
 * data, as transformers decides it. */
static labelled_kind kind_of_model(const ct_lm_info *about, const labelled *l) {
    const char *problem = about->problem_type;
    if (about->head == CT_LM_HEAD_TOKEN) return LABELLED_ONE;
    if (problem && !strcmp(problem, "regression")) return LABELLED_REAL;
    if (problem && !strcmp(problem, "multi_label_classification")) return LABELLED_SEVERAL;
    if (problem) return LABELLED_ONE;
    if (about->labels == 1) return LABELLED_REAL;
    return l->kind == LABELLED_SEVERAL ? LABELLED_SEVERAL : LABELLED_ONE;
}

static void read_labelled(evaluation *e, const ct_lm_info *about) {
    static const char *const kinds[] = {"one label for each text", "lists of labels", "numbers"};
    static const char *const of_others[] = {"format",    "window", "stride",
                                            "separator", "bos",    "delimiter"};
    for (int i = 0; i < 6; i++)
        if (flag_was_read(of_others[i]))
            fail(EXIT_USAGE, "%s tells labels of texts, and --%s is about other data", e->path,
                 of_others[i]);
    e->labelled = labelled_read(option.data, about->head == CT_LM_HEAD_TOKEN ? LABELLED_TOKENS
                                                                             : LABELLED_SEQUENCES);
    const labelled_kind has = e->labelled.kind, wanted = kind_of_model(about, &e->labelled);
    if (!labelled_become(&e->labelled, wanted))
        fail(EXIT_USAGE, "%s has %s, and %s tells %s", option.data, kinds[has], e->path,
             kinds[wanted]);
    if (wanted == LABELLED_REAL && about->labels != 1)
        fail(EXIT_USAGE, "%s tells %" PRId64 " numbers of each text, and %s has one", e->path,
             about->labels, option.data);
    if (wanted == LABELLED_REAL) labelled_resolve(&e->labelled, NULL, 0);
    else labelled_resolve(&e->labelled, about->label_names, about->labels);
}

static void check_length(evaluation *e, int64_t most) {
    e->window = option.length ? option.length : most > 0 && most < 512 ? most : 512;
    if (most > 0 && e->window > most)
        fail(EXIT_USAGE, "--length %" PRId64 " is more than the model's %" PRId64 " tokens",
             e->window, most);
}

static void run_rows(evaluation *e, const rows *r) {
    progress p = {.total = r->n, .per_step = 1, .unit = "texts/s", .begun = now()};
    int64_t which[MOST_ROWS];
    catch_interrupts();
    for (int64_t at = 0, n = 0; at < r->n && !interrupted(); at += n) {
        for (n = 0; n < option.batch && at + n < r->n; n++) which[n] = at + n;
        label_scores_add(&e->scores, e->lm, &e->labelled, r, which, n);
        if (system_is_terminal()) progress_show(&p, at + n, "texts");
    }
    progress_end();
    e->seconds = now() - p.begun;
    if (interrupted()) exit(interrupt_exit());
}

void evaluate_labels(evaluation *e) {
    const ct_lm_info about = ct_lm_about(e->lm);
    read_labelled(e, &about);
    const labelled *l = &e->labelled;
    check_length(e, about.max_length);
    documents d = label_documents(e->tokenizer, l, e->window, option.plain);
    rows r = rows_make(&d, e->window, false);
    e->scores = label_scores_new(e->context, l, about.labels);
    run_rows(e, &r);
    for (int64_t i = 0; i < l->n; i++) {
        const label_answer *answer = &e->scores.answer[i];
        scored *unit = evaluation_add(e);
        const double error = answer->value - l->texts[i].real;
        unit->tokens = answer->decisions;
        unit->right = answer->right;
        if (answer->decisions) unit->squared_error = error * error;
        e->left_out += (l->task == LABELLED_TOKENS ? l->texts[i].words : 1) - answer->decisions;
    }
    if (!e->scores.decisions)
        fail(EXIT_USAGE, "%s has no %s that the model reads", option.data,
             l->task == LABELLED_TOKENS ? "word" : "text");
    rows_free(&r);
    documents_free(&d);
}
