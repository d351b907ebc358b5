/* What your file defines: attention of one head, with a causal mask and a mask of keys. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    bool causal; /* query i sees keys 0 ... i and no others */
} masked_attention_attrs;

/* Inputs, f64: q (B, T, d), k (B, S, d), v (B, S, e); and a fourth, key_mask: bool (B, S), true = a
 * real key, or NULL: all are. Output (B, T, e). The op has CT_OP_OPTIONAL among its flags, since an
 * input may be NULL. */
extern const ct_op masked_attention;

#endif
