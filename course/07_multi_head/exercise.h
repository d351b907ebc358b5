/* Your file defines two ops that move numbers, and a function that makes multi-head attention
 * of them. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    int64_t heads;
} split_heads_attrs;

extern const ct_op split_heads;   /* f64 (B, T, E) -> (B, H, T, E / H) */
extern const ct_op combine_heads; /* f64 (B, H, T, d) -> (B, T, H d); no attributes */

typedef struct {
    /* (3 E, E) and (3 E): the first E rows make queries, the next E keys, the last E values */
    ct_tensor *in_weight, *in_bias;
    ct_tensor *out_weight, *out_bias; /* (E, E) and (E) */
} multi_head_params;

/* x (B, T, E) -> (B, T, E). This is not an op but a function that calls ops, and the tape
 * differentiates it. */
extern ct_tensor *multi_head(ct_tensor *x, const multi_head_params *params, int64_t heads,
                             bool causal);

#endif
