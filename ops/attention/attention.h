/* The op attention: its attributes, its inputs and the functions that its files share.
 *
 * B batches, H query heads, H_kv key heads, T queries, S keys; a query or key has d numbers, a
 * value dv. G = H / H_kv query heads share one key head. Keys and values may be bf16 beside queries
 * of f32, as in a cache; then they have no gradient. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_H
#define CTI_OPS_ATTENTION_ATTENTION_H

#include "../support/op.h"
#include "../../src/kernels/random.h"

/* ---- a call ---- */

/* The way in which a call is computed; plan_of in attention.c chooses it. */
typedef enum {
    CTI_ATTENTION_TILES, /* a block of scores at a time, never all weights (attention_forward.c) */
    CTI_ATTENTION_ROWS,  /* a query at a time, as in decoding (attention_decode.c) */
    CTI_ATTENTION_WHOLE  /* with all weights in memory (attention_whole.c) */
} cti_attention_way;

typedef struct {
    cti_attention_way way;
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

/* Returns how many inputs a call has. */
static inline int cti_attention_input_count(ct_tensor *const in[CTI_ATTENTION_INPUTS]) {
    const bool few =
        !in[CTI_ATTENTION_BIAS] && !in[CTI_ATTENTION_LENGTHS] && !in[CTI_ATTENTION_SEGMENTS];
    return few ? CTI_ATTENTION_FEWEST_INPUTS : CTI_ATTENTION_INPUTS;
}

/* ---- the fused op ---- */

typedef struct cti_attention_params cti_attention_params; /* attention_tiles.h */

/* Returns out: (B, H, T, dv), or packed (B, T, E). If stats is not NULL, *stats is a second output,
 * (2, B, H, T), through which no gradient flows. NULL: an error. */
ct_tensor *cti_attention_fused(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                               const cti_attention_attrs *attrs, ct_tensor **stats);

/* Computes forward of the fused op a query at a time (CTI_ATTENTION_ROWS). False: out of memory,
 * recorded. */
bool cti_attention_decode(ct_context *context, const cti_attention_params *a);

bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad);

/* Returns the weights of the fused op, from its statistics: (B, H, T, S), or their mean over heads,
 * (B, T, S). The attention has no dropout. */
ct_tensor *cti_attention_weights(ct_tensor *const in[CTI_ATTENTION_INPUTS], ct_tensor *stats,
                                 const cti_attention_attrs *attrs);

/* ---- with the weights in memory ---- */

/* Returns out and the weights after dropout, (B, H, T, S), or their mean over heads. */
ct_attention_out cti_attention_whole(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                                     const cti_attention_attrs *attrs);

/* Backward of the fused op's weights has the weights in memory too. It uses these three, which
 * return NULL after an error. */

typedef struct cti_attention_tensors cti_attention_tensors; /* attention_tiles.h */

/* Returns the masks, the scale and the softcap of a call as ct_attention_opts. */
ct_attention_opts cti_attention_opts_of(const cti_attention_tensors *x,
                                        const cti_attention_attrs *attrs);
/* The weights before dropout, in memory, and what backward needs besides. */
typedef struct {
    ct_tensor *p;    /* (B, H, T, S) */
    ct_tensor *tanh; /* tanh(scale q k^T / softcap); NULL without a softcap */
    ct_tensor *k;    /* k, with zeros in the rows that the key mask or lengths hide */
} cti_attention_softmax;
bool cti_attention_softmax_of(const cti_attention_tensors *x, const ct_attention_opts *opts,
                              cti_attention_softmax *out);
/* From g, the cotangent of P, back to q, k and the bias of the inputs: sets those of grad that the
 * call wants. Of packed heads it sets q and k, which are views of one input. */
bool cti_attention_softmax_backward(const ct_call *c, const cti_attention_tensors *x,
                                    const cti_attention_softmax *s, ct_tensor *g,
                                    ct_tensor *grad[CTI_ATTENTION_INPUTS]);
/* Returns keys or values, or their gradient, x (B, H_kv, S, d), in this dtype, with zeros in the
 * rows that the key mask or lengths hide. Either may be NULL. */
ct_tensor *cti_attention_visible_rows(ct_tensor *x, ct_dtype dtype, ct_tensor *key_mask,
                                      ct_tensor *lengths);

#endif
