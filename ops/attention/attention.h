/* The op attention: its attributes, its inputs and the functions that its files share.
 *
 * B batches, H query heads, H_kv key heads, T queries, S keys; a query or key has d numbers, a
 * value dv. G = H / H_kv query heads share one key head. Keys and values may be bf16 beside queries
 * of f32, as in a cache; then they have no gradient. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_H
#define CTI_OPS_ATTENTION_ATTENTION_H

#include "../support/op.h"

/* ---- a call ---- */

typedef struct {
    bool causal;       /* query i attends to keys 0 ... i */
    bool lower_right;  /* the last query has the index of the last key */
    bool mean_weights; /* attention_weights.c returns the mean over heads */
    bool rounded;      /* forward's products are rounded; then backward's are too: equal scores */
    double scale;      /* the factor of q k^T */
    double softcap;    /* 0: none */
    ct_window window;
    double dropout;
    cti_random random;    /* the seed and stream of dropout */
    int64_t packed_heads; /* H if q, k and v are one tensor (B, T, 3E); otherwise 0 */
} cti_attention_attrs;

/* Inputs of the fused op. All but q may be NULL: k and v are NULL if q has all three, packed. A
 * call has only the first CTI_ATTENTION_FEWEST_INPUTS if all others are NULL. */
enum {
    CTI_ATTENTION_Q,
    CTI_ATTENTION_K,
    CTI_ATTENTION_V,
    CTI_ATTENTION_MASK,
    CTI_ATTENTION_KEY_MASK,
    CTI_ATTENTION_BIAS,
    CTI_ATTENTION_LENGTHS,
    CTI_ATTENTION_SEGMENTS,
    CTI_ATTENTION_INPUTS,
    CTI_ATTENTION_FEWEST_INPUTS = CTI_ATTENTION_KEY_MASK + 1
};

/* ---- the fused op ---- */

enum { CTI_ATTENTION_DECODE_QUERIES = 2 };

typedef struct cti_attention_params cti_attention_params; /* attention_tiles.h */

/* Returns out: (B, H, T, dv), or packed (B, T, E). If stats is not NULL, *stats is a second output,
 * (2, B, H, T), through which no gradient flows. NULL: an error. */
ct_tensor *cti_attention_fused(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                               const cti_attention_attrs *attrs, ct_tensor **stats);

/* Computes forward of the fused op for few queries: up to CTI_ATTENTION_DECODE_QUERIES, or any
 * number with CTI_ROWS_ONE (../../src/core/row_rule.h). False: out of memory, recorded. */
bool cti_attention_decode(ct_context *context, const cti_attention_params *a);

bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad);

/* Returns the weights of the fused op, from its statistics: (B, H, T, S), or their mean over heads,
 * (B, T, S). The attention has no dropout. */
ct_tensor *cti_attention_weights(ct_tensor *const in[CTI_ATTENTION_INPUTS], ct_tensor *stats,
                                 const cti_attention_attrs *attrs);

/* ---- the composition of public ops ---- */

/* These take opts of which mask is bool or NULL, and scale is used as it is: 0 is not the default
 * here. Keys and values have the dtype of q. */

/* Returns keys or values in the dtype of q: x, or a copy of x if it is bf16. NULL: an error. */
static inline ct_tensor *cti_attention_widened(ct_tensor *x, ct_dtype dtype) {
    return x->dtype == dtype ? x : ct_cast(x, dtype);
}

/* Computes attention with the weights (B, H, T, S) in memory. */
ct_attention_out cti_attention_composed(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                        const ct_attention_opts *opts);
/* Returns the weights of the composition: softmax(score + bias), (B, H, T, S). If tanh is not NULL
 * and there is a softcap, *tanh is tanh(scale q k^T / softcap). */
ct_tensor *cti_attention_softmax(ct_tensor *q, ct_tensor *k, const ct_attention_opts *opts,
                                 ct_tensor **tanh);
/* Returns x (B, H_kv, S, d) with zeros in place of keys that the key mask or lengths hide, so that
 * their values reach no product and their gradients are zeros. */
ct_tensor *cti_attention_zero_masked(ct_tensor *x, const ct_attention_opts *opts);
/* Returns A B of A (b, h, M, K) and B (b, h, K, N). A NaN or an infinity in a row of B reaches a
 * row of the result only if its element of A is not 0. The product is not recorded. */
ct_tensor *cti_attention_seen_product(ct_tensor *a, ct_tensor *b);
/* Returns ds (B, H, T, S), with zeros where p is 0 if a number in ds is not finite. */
ct_tensor *cti_attention_zero_hidden(ct_tensor *p, ct_tensor *ds);

#endif
