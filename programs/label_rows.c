/* Rows of labelled texts; see label_rows.h. */
#include "label_rows.h"
#include "common.h"
#include "text_ids.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- documents ---- */

/* The number of ids at the end that the tokenizer has added, such as [SEP]. */
static int64_t added_behind(const int64_t *offsets, int64_t n) {
    int64_t k = 0;
    while (k < n && offsets[2 * (n - 1 - k) + 1] == 0) k++;
    return k < n ? k : 0;
}

/* The target of the first token of each word is its tag. */
static void tag_targets(const labelled_text *text, const int64_t *offsets, int64_t *targets,
                        int64_t n) {
    int64_t word = 0;
    for (int64_t t = 0; t < n; t++) {
        targets[t] = NO_TARGET;
        if (offsets[2 * t + 1] == 0 || word == text->words) continue;
        /* a token may begin with the space before its word */
        if (offsets[2 * t + 1] <= text->word[word]) continue;
        targets[t] = text->ids[word];
        while (word < text->words && text->word[word] < offsets[2 * t + 1]) word++;
    }
}

/* Adds a text whose ids are known. */
static void text_add(documents *d, text_ids *of, const labelled_text *text, bool tags,
                     int64_t length) {
    int64_t n = of->n, *ids = of->ids, *offsets = of->offsets;
    int64_t *targets = room_for(NULL, (size_t)n, sizeof *targets);
    const int64_t behind = added_behind(offsets, n);
    for (int64_t k = 0; n > length && k < behind && behind < length; k++) {
        ids[length - behind + k] = ids[n - behind + k];
        offsets[2 * (length - behind + k) + 1] = 0;
    }
    if (n > length) n = length;
    for (int64_t t = 0; t < n; t++) targets[t] = t ? NO_TARGET : 0;
    if (tags) tag_targets(text, offsets, targets, n);
    documents_add(d, ids, targets, n);
    free(targets);
}

documents label_documents(const ct_tokenizer *tokenizer, const labelled *l, int64_t length,
                          bool plain) {
    documents d = {0};
    text_ids of = {0};
    for (int64_t i = 0; i < l->n; i++) {
        const char *text = l->texts[i].text;
        text_encode(&of, tokenizer, text, strlen(text), (ct_encode_opts){.plain = plain}, true);
        text_add(&d, &of, &l->texts[i], l->task == LABELLED_TOKENS, length);
    }
    text_ids_free(&of);
    return d;
}

/* ---- batches ---- */

/* The text of a row: the last document that begins at its first token or before it. Documents
 * without a token begin where the next one does. */
static int64_t text_of(const rows *r, int64_t row) {
    const documents *d = r->documents;
    const int64_t begin = r->pieces[r->first[row]].begin;
    int64_t low = 0, high = d->count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (d->begin[middle] <= begin) low = middle;
        else high = middle;
    }
    return low;
}

label_batch label_batch_make(ct_context *context, const labelled *l, const rows *r,
                             const int64_t *which, int64_t n, int64_t labels) {
    const row_batch b = rows_batch(context, r, which, n);
    const int64_t T = b.ids ? ct_dim(b.ids, 1) : 0;
    label_batch out = {.ids = b.ids, .targets = b.targets};
    out.call.key_mask = ct_zeros(context, CT_BOOL, CT_SHAPE(n, T));
    bool *mask = out.call.key_mask ? ct_data_bool(out.call.key_mask) : NULL;
    for (int64_t i = 0; mask && i < n; i++)
        memset(mask + i * T, 1, (size_t)row_length(r, which[i]));
    if (l->task == LABELLED_TOKENS) return out;
    const bool one = l->kind == LABELLED_ONE;
    out.targets = one ? ct_zeros(context, CT_I64, CT_SHAPE(n))
                      : ct_zeros(context, CT_F32, CT_SHAPE(n, labels));
    for (int64_t i = 0; out.targets && i < n; i++) {
        const labelled_text *text = &l->texts[text_of(r, which[i])];
        if (one) {
            ct_data_i64(out.targets)[i] = text->ids[0];
            continue;
        }
        float *to = ct_data_f32(out.targets) + i * labels;
        if (l->kind == LABELLED_REAL) *to = (float)text->real;
        for (int64_t k = 0; l->kind == LABELLED_SEVERAL && k < text->n_labels; k++)
            to[text->ids[k]] = 1;
    }
    return out;
}

/* ---- scores ---- */

label_scores label_scores_new(ct_context *context, const labelled *l, int64_t labels) {
    label_scores s = {.context = context, .n = l->n, .labels = labels};
    s.answer = room_for(NULL, (size_t)l->n, sizeof *s.answer);
    memset(s.answer, 0, (size_t)l->n * sizeof *s.answer);
    s.right = room_for(NULL, (size_t)labels, 3 * sizeof *s.right);
    memset(s.right, 0, (size_t)labels * 3 * sizeof *s.right);
    s.said = s.right + labels, s.real = s.said + labels;
    return s;
}

void label_scores_free(label_scores *s) {
    free(s->answer);
    free(s->right);
    *s = (label_scores){0};
}

static int64_t largest(const float *x, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return at;
}

static void decide(label_scores *s, label_answer *answer, bool right) {
    answer->decisions++, answer->right += right;
    s->decisions++, s->all_right += right;
}

/* One label of all. */
static void add_one(label_scores *s, label_answer *answer, const float *logit, int64_t target) {
    const int64_t said = largest(logit, s->labels);
    s->said[said]++, s->real[target]++, s->right[target] += said == target;
    decide(s, answer, said == target);
}

static void add_several(label_scores *s, label_answer *answer, const float *logit,
                        const float *target) {
    bool equal = true;
    for (int64_t k = 0; k < s->labels; k++) {
        const bool said = logit[k] > 0, real = target[k] > 0.5F;
        s->said[k] += said, s->real[k] += real, s->right[k] += said && real;
        equal &= said == real;
    }
    decide(s, answer, equal);
}

static void add_real(label_scores *s, label_answer *answer, double value, double target) {
    answer->value = value;
    s->squares += (value - target) * (value - target);
    decide(s, answer, value == target);
}

void label_scores_add(label_scores *s, ct_module *lm, const labelled *l, const rows *r,
                      const int64_t *which, int64_t n) {
    ct_scope scope = ct_scope_open_no_grad(s->context);
    const label_batch b = label_batch_make(s->context, l, r, which, n, s->labels);
    ct_tensor *logits = ct_contiguous(ct_lm_forward(lm, b.ids, b.call));
    const float *logit = logits ? ct_data_f32(logits) : NULL;
    check(s->context, EXIT_FAILED);
    const int64_t T = l->task == LABELLED_TOKENS ? ct_dim(b.ids, 1) : 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t text = text_of(r, which[i]);
        label_answer *answer = &s->answer[text];
        const float *of = logit + i * T * s->labels;
        if (l->kind == LABELLED_REAL) add_real(s, answer, *of, l->texts[text].real);
        else if (l->kind == LABELLED_SEVERAL)
            add_several(s, answer, of, ct_data_f32(b.targets) + i * s->labels);
        for (int64_t t = 0; l->kind == LABELLED_ONE && t < T; t++) {
            const int64_t target = ct_data_i64(b.targets)[i * T + t];
            if (target != NO_TARGET) add_one(s, answer, of + t * s->labels, target);
        }
    }
    ct_scope_close(scope);
}

double label_f1(const label_scores *s, int64_t label) {
    const double of = s->said[label] + s->real[label];
    return of > 0 ? 2 * s->right[label] / of : NAN;
}

label_f1s label_f1s_of(const label_scores *s) {
    label_f1s f = {0};
    double right = 0, of = 0, real = 0;
    for (int64_t k = 0; k < s->labels; k++) {
        const double f1 = label_f1(s, k);
        if (isnan(f1)) continue;
        f.seen++;
        f.macro += f1, f.weighted += f1 * s->real[k];
        right += s->right[k], real += s->real[k], of += s->said[k] + s->real[k];
    }
    f.macro = f.seen ? f.macro / (double)f.seen : 0;
    f.micro = of > 0 ? 2 * right / of : 0;
    f.weighted = real > 0 ? f.weighted / real : 0;
    return f;
}
