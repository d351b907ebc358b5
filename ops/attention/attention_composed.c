/* attention as a composition of public ops, whose gradients it uses; the weights (B, H, T, S) are
 * in memory. Query heads h G ... h G + G - 1 share key head h: the product takes their queries as
 * one matrix (G T, d), so that keys and values need not be repeated. */
#include "attention.h"

/* Sets *keep to the conjunction of all bool masks, which broadcasts to (B, H, T, S), or to NULL if
 * there are none. False: an error. */
static bool join_masks(ct_context *context, const ct_attention_opts *opts, int64_t t, int64_t s,
                       ct_tensor **keep) {
    *keep = opts->mask && opts->mask->dtype == CT_BOOL ? opts->mask : NULL;
    if (opts->causal) {
        ct_tensor *causal = ct_causal_mask(context, t, s);
        *keep = *keep ? ct_logical_and(*keep, causal) : causal;
    }
    if (opts->key_mask) {
        ct_tensor *keys =
            ct_unsqueeze(ct_unsqueeze(opts->key_mask, 1), 1); /* (B, S) -> (B, 1, 1, S) */
        *keep = *keep ? ct_logical_and(*keep, keys) : keys;
    }
    return cti_ready(context);
}

ct_tensor *cti_attention_zero_masked(ct_tensor *x, ct_tensor *key_mask) {
    const int64_t *n = key_mask->shape.dim;
    ct_tensor *keep =
        ct_view(ct_contiguous(key_mask), CT_SHAPE(n[0], 1, n[1], 1)); /* (B, 1, S, 1) */
    return ct_where(keep, x, ct_zeros(x->context, x->dtype, CT_SCALAR));
}

ct_tensor *cti_attention_softmax(ct_tensor *q, ct_tensor *k, const ct_attention_opts *opts) {
    const int64_t *nq = q->shape.dim, *nk = k->shape.dim;
    const int64_t b = nq[0], h = nq[1], t = nq[2], d = nq[3], h_kv = nk[1], s = nk[2];
    const int64_t rows = h_kv > 0 ? h / h_kv * t : t; /* G T */
    ct_tensor *keep;
    if (!join_masks(q->context, opts, t, s, &keep)) return NULL;
    if (opts->key_mask) k = cti_attention_zero_masked(k, opts->key_mask);
    q = ct_reshape(ct_scale(q, opts->scale), CT_SHAPE(b, h_kv, rows, d));
    ct_tensor *scores = ct_matmul(q, ct_transpose(k, -1, -2)); /* (B, H_kv, G T, S) */
    scores = ct_view(scores, CT_SHAPE(b, h, t, s));
    if (opts->mask && opts->mask->dtype != CT_BOOL) scores = ct_add(scores, opts->mask);
    return ct_masked_softmax(scores, keep, -1);
}

ct_attention_out cti_attention_composed(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                        const ct_attention_opts *opts) {
    const int64_t *nq = q->shape.dim, *nv = v->shape.dim;
    const int64_t b = nq[0], h = nq[1], t = nq[2], h_kv = nv[1], s = nv[2], dv = nv[3];
    const int64_t rows = h_kv > 0 ? h / h_kv * t : t;       /* G T */
    ct_tensor *weights = cti_attention_softmax(q, k, opts); /* (B, H, T, S) */
    if (opts->dropout > 0) weights = ct_dropout(weights, opts->dropout, true);
    if (opts->key_mask) v = cti_attention_zero_masked(v, opts->key_mask);
    ct_tensor *out =
        ct_matmul(ct_view(weights, CT_SHAPE(b, h_kv, rows, s)), v); /* (B, H_kv, G T, dv) */
    out = ct_view(out, CT_SHAPE(b, h, t, dv));
    return (ct_attention_out){
        .out = out, .weights = opts->mean_weights ? ct_mean(weights, CT_DIMS(1), false) : weights};
}
