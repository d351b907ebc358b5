/* Your file defines attention of one head, with a causal mask and a mask of keys. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    bool causal; /* query i sees keys 0 ... i and no others */
} masked_attention_attrs;

/* Inputs, f64: q (B, T, d), k (B, S, d), v (B, S, e); and a fourth, key_mask, bool (B, S), true for
 * a real key; if it is NULL all keys are real. Output (B, T, e). The flags of the op include
 * CT_OP_OPTIONAL, because an input may be NULL. */
extern const ct_op masked_attention;

#endif
