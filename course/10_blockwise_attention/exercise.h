/* What your file defines: attention in blocks of keys, whose memory grows with the number of tokens
 * and not with its square. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* What is known of one query after some of its keys. Before the first: max is -INFINITY, sum 0, and
 * out all zeros. */
typedef struct {
    double max;  /* the largest score so far */
    double sum;  /* of e^(score - max) */
    double *out; /* e numbers: the sum of e^(score - max) v */
} attention_state;

/* n more keys: their scores, finite, and their values, n rows of e numbers. */
extern void attend_block(attention_state *state, int64_t n, const double *score, int64_t e,
                         const double *v);

typedef struct {
    int64_t block; /* keys at a time, at least 1; may be more than there are */
    bool causal;   /* query i sees keys 0 ... i and no others */
} blockwise_attention_attrs;

/* f64: q (B, T, d), k (B, S, d), v (B, S, e) -> (B, T, e): softmax(q k^T / sqrt d) v. S is at
 * least 1. */
extern const ct_op blockwise_attention;

#endif
