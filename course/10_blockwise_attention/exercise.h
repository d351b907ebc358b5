/* Your file defines attention in blocks of keys. Its memory grows with the number of tokens, and
 * not with the square of this number. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* The state of one query after some of its keys. Before the first key max is -INFINITY, sum is 0,
 * and out is all zeros. */
typedef struct {
    double max;  /* the largest score so far */
    double sum;  /* the sum of e^(score - max) */
    double *out; /* e numbers: the sum of e^(score - max) v */
} attention_state;

/* Adds n more keys to the state. Their scores are finite; v has their values, n rows of e
 * numbers. */
extern void attend_block(attention_state *state, int64_t n, const double *score, int64_t e,
                         const double *v);

typedef struct {
    int64_t block; /* the number of keys in a block, at least 1; it may exceed the number of all
                    * keys */
    bool causal;   /* query i sees keys 0 ... i and no others */
} blockwise_attention_attrs;

/* f64: q (B, T, d), k (B, S, d), v (B, S, e) -> (B, T, e): softmax(q k^T / sqrt d) v. S is at
 * least 1. */
extern const ct_op blockwise_attention;

#endif
