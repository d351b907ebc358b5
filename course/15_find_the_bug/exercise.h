/* Your file defines five ops. The backward of each has one mistake: you mend it, and define the
 * name of the mistake. All tensors are f64 unless a comment gives another dtype. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef enum {
    NOT_ANSWERED,
    WRONG_SIGN,           /* the gradient is -1 times what it must be */
    COTANGENT_IGNORED,    /* backward does not multiply by the cotangent */
    ASSIGNED,             /* only the last of several contributions to a number is kept */
    DERIVATIVE_AT_OUTPUT, /* f'(y) in place of f'(x) */
    TAKEN_FOR_CONSTANT,   /* a number that was computed from the input is differentiated as a
                           * constant */
    NOT_TRANSPOSED,       /* a product has a matrix in place of its transpose */
    WRONG_COUNT,          /* a mean is divided by a wrong count */
    SCALE_TWICE,          /* a factor is applied in two places */
    MASK_FORGOTTEN,       /* an element that a mask hides gets a gradient */
    LAST_ROW_MISSED       /* a loop ends one row too early */
} mistake;

extern const ct_op silu; /* y = x / (1 + e^-x), any shape */
extern const mistake silu_mistake;

/* weight (V, E), ids i64 (N), each below V -> rows ids[0], ids[1], ... of weight, (N, E) */
extern const ct_op embedding;
extern const mistake embedding_mistake;

/* x (N, E), weight (E) -> y_ij = weight_j x_ij / sqrt(mean of x_i^2 + 1e-6) */
extern const ct_op rms_norm;
extern const mistake rms_norm_mistake;

/* logits (N, C), targets i64 (N), from 0 to C - 1, or -100: the row is ignored -> (): the mean over
 * the rows that count of -log softmax(logits)[target]. At least one row counts. */
extern const ct_op cross_entropy;
extern const mistake cross_entropy_mistake;

/* q, k, v (T, d) -> (T, d): causal attention of one head, softmax(q k^T / sqrt d) v where query i
 * sees keys 0 ... i */
extern const ct_op causal_attention;
extern const mistake causal_attention_mistake;

#endif
