/* Labelled texts (programs/labelled.h) and what a classifier says about them (label_rows.h), beside
 * counts by hand of the logits of one text at a time. */
#include "byte_documents.h"
#include "programs/label_rows.h"
#include "programs/text_ids.h"

#include <math.h>

#define SIZES                                                                                      \
    "\"vocab_size\": 257, \"hidden_size\": 16, \"intermediate_size\": 24, "                        \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 32}"
static const char *const configs[] = {"{\"model_type\": \"bert\", " SIZES,
                                      "{\"model_type\": \"llama\", \"pad_token_id\": 0, " SIZES};
enum { TEXTS = 5, LABELS = 3, LENGTH = 10 };

static ct_module *new_classifier(int i, ct_lm_head head) {
    const ct_lm_opts opts = {.head = head, .labels = LABELS};
    ct_module *lm = ct_lm_new(context, configs[i], opts);
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    for (ct_param p = {0}; ct_module_next(lm, &p);) ct_init_normal(p.tensor, 0.1, 0.6);
    ct_module_train(lm, false);
    return lm;
}

/* Logits of one text without padding: (LABELS), or of a head of tokens (n, LABELS). */
static const float *logits_of(ct_module *lm, const documents *d, int64_t text) {
    const int64_t n = d->begin[text + 1] - d->begin[text];
    int64_t ids[LENGTH];
    for (int64_t t = 0; t < n; t++) ids[t] = d->ids[d->begin[text] + t];
    ct_tensor *y = ct_lm_forward(lm, ct_from_i64(context, CT_SHAPE(1, n), ids), (ct_lm_call){0});
    ck_assert_msg(y != NULL, "%s", ct_error_message(context));
    return ct_data_f32(ct_contiguous(ct_detach(y)));
}

static int64_t best_of(const float *logit) {
    int64_t at = logit[1] > logit[0] ? 1 : 0;
    return logit[2] > logit[at] ? 2 : at;
}

/* Runs all rows in batches of 2, which pads them. */
static label_scores scores_of(ct_module *lm, const labelled *l, const rows *r) {
    label_scores s = label_scores_new(context, l, LABELS);
    for (int64_t i = 0; i < r->n; i += 2) {
        const int64_t which[] = {i, i + 1};
        label_scores_add(&s, lm, l, r, which, r->n - i < 2 ? 1 : 2);
    }
    return s;
}

/* Text 2 has no token, and so no row and no answer. */
static const char one[] = "{\"text\": \"a\", \"label\": 0}\n"
                          "{\"text\": \"some words\", \"label\": 2}\n"
                          "{\"text\": \"\", \"label\": 1}\n"
                          "{\"text\": \"more words than the length\", \"label\": 1}\n"
                          "{\"text\": \"xyz\", \"label\": 2}\n";

START_TEST(one_label) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    ct_module *lm = new_classifier(_i, CT_LM_HEAD_SEQUENCE);
    labelled l = labelled_read(put_text("a.jsonl", one), LABELLED_SEQUENCES);
    labelled_resolve(&l, ct_lm_about(lm).label_names, LABELS);
    documents d = label_documents(tokenizer, &l, LENGTH, false);
    rows r = rows_make(&d, LENGTH, false);
    ck_assert(d.count == TEXTS && r.n == TEXTS - 1 && r.longest == LENGTH);
    label_scores s = scores_of(lm, &l, &r);
    double right[LABELS] = {0}, said[LABELS] = {0}, real[LABELS] = {0}, all = 0;
    for (int64_t i = 0; i < TEXTS; i++) {
        const int64_t target = (const int64_t[]){0, 2, 1, 1, 2}[i];
        ck_assert_int_eq(s.answer[i].decisions, i != 2);
        if (i == 2) continue;
        const int64_t best = best_of(logits_of(lm, &d, i));
        said[best]++, real[target]++, right[best] += best == target, all += best == target;
        ck_assert_int_eq(s.answer[i].right, best == target);
    }
    ck_assert(s.decisions == TEXTS - 1 && s.all_right == all);
    for (int k = 0; k < LABELS; k++)
        ck_assert(s.right[k] == right[k] && s.said[k] == said[k] && s.real[k] == real[k]);
    label_scores_free(&s);
    rows_free(&r);
    documents_free(&d);
    labelled_free(&l);
}
END_TEST

START_TEST(several_labels) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    ct_module *lm = new_classifier(_i, CT_LM_HEAD_SEQUENCE);
    labelled l = labelled_read(put_text("a.jsonl", "{\"text\": \"a\", \"label\": [2, 0]}\n"
                                                   "{\"text\": \"ab cd\", \"label\": []}\n"
                                                   "{\"text\": \"ef\", \"label\": [1]}\n"),
                               LABELLED_SEQUENCES);
    labelled_resolve(&l, ct_lm_about(lm).label_names, LABELS);
    documents d = label_documents(tokenizer, &l, LENGTH, false);
    rows r = rows_make(&d, LENGTH, false);
    label_scores s = scores_of(lm, &l, &r);
    static const bool targets[][LABELS] = {{true, false, true}, {false}, {false, true, false}};
    double right = 0, said = 0;
    for (int64_t i = 0; i < 3; i++) {
        const float *logit = logits_of(lm, &d, i);
        int equal = 0;
        for (int k = 0; k < LABELS; k++) {
            const bool says = 1 / (1 + exp(-(double)logit[k])) > 0.5;
            equal += says == targets[i][k];
            said += says, right += says && targets[i][k];
        }
        ck_assert_int_eq(s.answer[i].right, equal == LABELS);
    }
    ck_assert(s.said[0] + s.said[1] + s.said[2] == said);
    ck_assert(s.right[0] + s.right[1] + s.right[2] == right);
    ck_assert(s.real[0] == 1 && s.real[1] == 1 && s.real[2] == 1 && s.decisions == 3);
    label_scores_free(&s);
    rows_free(&r);
    documents_free(&d);
    labelled_free(&l);
}
END_TEST

/* The tag of a word is told at its first token; words behind the length are not told. */
START_TEST(tags) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    ct_module *lm = new_classifier(_i, CT_LM_HEAD_TOKEN);
    labelled l = labelled_read(
        put_text("a.jsonl", "{\"tokens\": [\"ab\", \"c\", \"d\"], \"tags\": [0, 1, 2]}\n"
                            "{\"tokens\": [], \"tags\": []}\n"
                            "{\"tokens\": [\"abcdefgh\", \"i\", \"j\"], \"tags\": [2, 2, 1]}\n"),
        LABELLED_TOKENS);
    labelled_resolve(&l, ct_lm_about(lm).label_names, LABELS);
    documents d = label_documents(tokenizer, &l, LENGTH, false);
    rows r = rows_make(&d, LENGTH, false);
    label_scores s = scores_of(lm, &l, &r);
    ck_assert(r.n == 2 && s.decisions == 5);
    static const int64_t decisions[] = {3, 0, 2};
    int64_t right[3] = {0};
    /* bytes are tokens, also the spaces: "ab c d" and "abcdefgh i" */
    static const int64_t place[] = {0, 3, 5, 0, 9}, target[] = {0, 1, 2, 2, 2};
    for (int i = 0; i < 5; i++) {
        const int64_t text = i < 3 ? 0 : 2;
        right[text] += best_of(logits_of(lm, &d, text) + place[i] * LABELS) == target[i];
    }
    for (int i = 0; i < 3; i++)
        ck_assert(s.answer[i].decisions == decisions[i] && s.answer[i].right == right[i]);
    label_scores_free(&s);
    rows_free(&r);
    documents_free(&d);
    labelled_free(&l);
}
END_TEST

/* A text of more ids than are expected at first, and then a shorter one in the same memory. */
START_TEST(ids_of_texts) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    char text[301];
    text_ids t = {0};
    for (int i = 0; i < 300; i++) text[i] = (char)('a' + i % 26);
    for (int turn = 0; turn < 4; turn++) { /* with and without offsets */
        const int64_t n = turn < 2 ? 300 : 7;
        text_encode(&t, tokenizer, text, (size_t)n, (ct_encode_opts){0}, turn % 2);
        ck_assert_int_eq(t.n, n);
        for (int64_t i = 0; i < n; i++) ck_assert_int_eq(t.ids[i], t.ids[0] + i % 26);
        for (int64_t i = 0; i < n && turn % 2; i++)
            ck_assert(t.offsets[2 * i] == i && t.offsets[2 * i + 1] == i + 1);
        ck_assert(t.ids_room > n && (turn % 2 == 0 || t.offsets_room >= 2 * (n + 1)));
    }
    text_ids_free(&t);
}
END_TEST

/* A label that is neither said nor true has no F1 and does not count in the mean. */
START_TEST(f1) {
    double counts[] = {3, 0, 1, 0, /* right */ 4, 2, 1, 0, /* said */ 6, 0, 1, 0 /* true */};
    const label_scores s = {.right = counts, .said = counts + 4, .real = counts + 8, .labels = 4};
    ck_assert_double_eq_tol(label_f1(&s, 0), 0.6, 1e-15);
    ck_assert(label_f1(&s, 1) == 0 && label_f1(&s, 2) == 1 && isnan(label_f1(&s, 3)));
    const label_f1s f = label_f1s_of(&s);
    ck_assert_int_eq(f.seen, 3);
    ck_assert_double_eq_tol(f.macro, 1.6 / 3, 1e-15);
    ck_assert_double_eq_tol(f.micro, 8.0 / 14, 1e-15);
    ck_assert_double_eq_tol(f.weighted, (0.6 * 6 + 1) / 7, 1e-15);
}
END_TEST

START_TEST(kinds) {
    labelled l = labelled_read(put_text("a.jsonl", one), LABELLED_SEQUENCES);
    ck_assert(l.kind == LABELLED_ONE && labelled_become(&l, LABELLED_ONE));
    ck_assert(labelled_become(&l, LABELLED_REAL) && l.kind == LABELLED_REAL);
    ck_assert(l.texts[1].real == 2 && !labelled_become(&l, LABELLED_ONE));
    labelled_free(&l);
    l = labelled_read(put_text("b.csv", "text,label\na,1\nb,x\n"), LABELLED_SEQUENCES);
    ck_assert(!labelled_become(&l, LABELLED_REAL) && l.kind == LABELLED_ONE);
    ck_assert(labelled_become(&l, LABELLED_SEVERAL) && l.texts[1].n_labels == 1);
    labelled_free(&l);
    l = labelled_read(put_text("c.csv", "text,label\na,1\nb,1.5\n"), LABELLED_SEQUENCES);
    ck_assert(l.kind == LABELLED_REAL && l.texts[0].real == 1 && l.texts[1].real == 1.5);
    labelled_free(&l);
    l = labelled_read(put_text("d.jsonl", "{\"tokens\": [\"a\"], \"tags\": [1]}\n"),
                      LABELLED_TOKENS);
    ck_assert(!labelled_become(&l, LABELLED_REAL) && !labelled_become(&l, LABELLED_SEVERAL));
    labelled_free(&l);
}
END_TEST

int main(void) {
    return run_tests("labels", setup, teardown,
                     TESTS(LOOP(one_label, 2), LOOP(several_labels, 2), LOOP(tags, 2),
                           TEST(ids_of_texts), TEST(f1), TEST(kinds)));
}
