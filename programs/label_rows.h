/* Rows of labelled texts, and what a classifier says about them: what finetune --task trains on and
 * measures, and what evaluate scores. */
#ifndef PROGRAMS_LABEL_ROWS_H
#define PROGRAMS_LABEL_ROWS_H

#include "documents.h"
#include "labelled.h"

/* Makes a document of each text, in their order, of at most `length` tokens: what is longer loses
 * its end, but for the tokens that the tokenizer adds behind. A text of one or several labels, or
 * of a number, counts as one target, at its first token. Of tags the first token of each word has
 * the word's. `plain` is that of documents_opts. */
documents label_documents(const ct_tokenizer *tokenizer, const labelled *l, int64_t length,
                          bool plain);

/* A batch of rows, of which each has one document, with targets as ct_lm_loss takes them. */
typedef struct {
    ct_tensor *ids, *targets;
    ct_lm_call call;
} label_batch;
label_batch label_batch_make(ct_context *context, const labelled *l, const rows *r,
                             const int64_t *which, int64_t n, int64_t labels);

/* Decisions: one for each text or, of tags, for each word. */
typedef struct {
    int64_t decisions, right;
    double value; /* of LABELLED_REAL: what the model says */
} label_answer;

/* What a model has said so far. A label of several is said if its logit is positive, which is a
 * probability above one half; all labels of a text together are one decision. */
typedef struct {
    ct_context *context;
    label_answer *answer; /* [n] of each text; 0 decisions: it has no row */
    int64_t n;
    /* [labels] how often a label was said rightly, said, and true */
    double *right, *said, *real;
    int64_t labels;
    double decisions, all_right, squares; /* squares of errors, of LABELLED_REAL */
} label_scores;

label_scores label_scores_new(ct_context *context, const labelled *l, int64_t labels);
/* Runs a batch of rows and adds what the model says. */
void label_scores_add(label_scores *s, ct_module *lm, const labelled *l, const rows *r,
                      const int64_t *which, int64_t n);
void label_scores_free(label_scores *s);

/* F1 = 2 right / (said + real), which is NaN for a label that is neither said nor true. */
double label_f1(const label_scores *s, int64_t label);
/* Means of F1: `macro` over the labels that are said or true (how many is `seen`), `weighted` by
 * how often each is true; `micro` is F1 of the sums over all labels. */
typedef struct {
    double macro, micro, weighted;
    int64_t seen;
} label_f1s;
label_f1s label_f1s_of(const label_scores *s);

#endif
