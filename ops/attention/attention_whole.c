/* attention with the weights of all pairs in memory, which the call returns. It is two ops:
 *
 *     forward     q' = scale q,  S = q' k^T,  P = softmax(S + bias)       W v
 *     backward    dS = P (dP - <P, dP>),  dbias = dS,                     dW = g v^T,  dv = W^T g
 *                 dq' = dS k,  dk = dS^T q',  dq = scale dq'
 *
 * (with a softcap c: q' = scale q / c, and c tanh S in place of S). Dropout, W = P dropped, and the
 * mean over heads stand between them as ops of their own. Query heads h G ... h G + G - 1 share key
 * head h: a product takes their queries as one matrix (G T, d), so that keys and values need not be
 * repeated. Hidden pairs: attention_hidden.h. */
#include <math.h>

#include "attention_hidden.h"
#include "attention_masks.h"
#include "../../src/kernels/rows.h"
#include "../../src/kernels/unary.h"

/* ---- masks ---- */

/* The diagonals, lengths and segments as a definition; the fused passes use attention_masks.c. */
static bool sees(const ct_attention_opts *o, int64_t i, int64_t j, int64_t length) {
    const ct_window w = o->window;
    if (j >= length || (o->causal && j > i)) return false;
    return (!w.left || w.left > i - j) && (!w.right || w.right > j - i);
}

/* Returns the mask (B, 1, T, S) of a call with its weights in memory: true if lengths, diagonals
 * and segments leave the pair visible. NULL: an error. */
static ct_tensor *whole_visible(ct_context *context, const ct_attention_opts *opts,
                                ct_shape scores) {
    const int64_t batch = scores.dim[0], n = scores.dim[2], s = scores.dim[3];
    ct_tensor *y = cti_tensor_new(context, CT_BOOL, CT_SHAPE(batch, 1, n, s));
    const ct_tensor *ids = opts->segments;
    if (!y) return NULL;
    bool *to = (bool *)y->data;
    for (int64_t b = 0; b < batch && y->numel > 0; b++) {
        const int64_t length =
            opts->lengths ? ((const int64_t *)opts->lengths->data)[b * opts->lengths->stride[0]]
                          : s;
        for (int64_t t = 0; t < n; t++)
            for (int64_t j = 0; j < s; j++) {
                const int64_t i = opts->lower_right ? length - n + t : t;
                const int64_t *id = ids ? (const int64_t *)ids->data + b * ids->stride[0] : NULL;
                *to++ = sees(opts, i, j, length) &&
                        (!id || id[t * ids->stride[1]] == id[j * ids->stride[1]]);
            }
    }
    return y;
}

/* Sets *keep to the conjunction of all bool masks, which broadcasts to (B, H, T, S), or to NULL if
 * there are none. False: an error. */
static bool join_masks(ct_context *context, const ct_attention_opts *opts, ct_shape scores,
                       ct_tensor **keep) {
    ct_tensor *limits = NULL;
    *keep = opts->mask;
    if (cti_attention_is_limited(opts)) limits = whole_visible(context, opts, scores);
    else if (opts->causal) limits = ct_causal_mask(context, scores.dim[2], scores.dim[3]);
    if (limits) *keep = *keep ? ct_logical_and(*keep, limits) : limits;
    if (opts->key_mask) {
        ct_tensor *keys =
            ct_unsqueeze(ct_unsqueeze(opts->key_mask, 1), 1); /* (B, S) -> (B, 1, 1, S) */
        *keep = *keep ? ct_logical_and(*keep, keys) : keys;
    }
    return cti_ready(context);
}

ct_tensor *cti_attention_visible_rows(ct_tensor *x, ct_dtype dtype, ct_tensor *key_mask,
                                      ct_tensor *lengths) {
    ct_tensor *keys = key_mask;
    if (x->dtype != dtype) x = ct_cast(x, dtype);
    if (x && lengths) {
        const ct_attention_opts only = {.lengths = lengths};
        const int64_t b = x->shape.dim[0], s = x->shape.dim[2];
        keys = whole_visible(x->context, &only, CT_SHAPE(b, 1, 1, s));
        keys = keys ? ct_view(keys, CT_SHAPE(b, s)) : NULL;
        if (keys && key_mask) keys = ct_logical_and(keys, key_mask);
        if (!keys) return NULL;
    }
    return keys ? cti_hidden_zero_rows(x, keys) : x;
}

/* ---- the weights ---- */

/* Returns q' as (B, H_kv, G T, d). */
static ct_tensor *scaled_queries(const cti_attention_tensors *x, const ct_attention_opts *opts) {
    const int64_t *q = x->q->shape.dim, h_kv = x->k->shape.dim[1];
    const double scale = opts->softcap > 0 ? opts->scale / opts->softcap : opts->scale;
    const int64_t rows = h_kv > 0 ? q[1] / h_kv * q[2] : q[2];
    return ct_reshape(ct_scale(x->q, scale), CT_SHAPE(q[0], h_kv, rows, q[3]));
}

ct_attention_opts cti_attention_opts_of(const cti_attention_tensors *x,
                                        const cti_attention_attrs *attrs) {
    return (ct_attention_opts){.mask = x->mask,
                               .bias = x->bias,
                               .key_mask = x->key_mask,
                               .lengths = x->lengths,
                               .segments = x->segments,
                               .window = attrs->window,
                               .causal = attrs->causal,
                               .lower_right = attrs->lower_right,
                               .scale = attrs->scale,
                               .softcap = attrs->softcap};
}

bool cti_attention_softmax_of(const cti_attention_tensors *x, const ct_attention_opts *opts,
                              cti_attention_softmax *out) {
    const int64_t *q = x->q->shape.dim, s = x->k->shape.dim[2];
    const ct_shape shape = CT_SHAPE(q[0], q[1], q[2], s);
    ct_tensor *keep;
    *out = (cti_attention_softmax){0};
    if (!join_masks(x->q->context, opts, shape, &keep)) return false;
    out->k = cti_attention_visible_rows(x->k, x->q->dtype, opts->key_mask, opts->lengths);
    if (!out->k) return false;
    ct_tensor *scores = ct_matmul(scaled_queries(x, opts), ct_transpose(out->k, 2, 3));
    scores = ct_view(scores, shape); /* (B, H_kv, G T, S) -> (B, H, T, S) */
    if (opts->softcap > 0) {
        /* the slope of a hidden pair's tanh must not be NaN */
        if (opts->bias) keep = cti_hidden_by_bias(keep, opts->bias, scores);
        if (keep && scores)
            scores = ct_where(keep, scores, ct_zeros(scores->context, scores->dtype, CT_SCALAR));
        out->tanh = ct_tanh(scores);
        scores = ct_scale(out->tanh, opts->softcap);
    }
    if (opts->bias) {
        scores = ct_add(scores, opts->bias);
        keep = cti_hidden_by_bias(keep, opts->bias, scores);
    }
    out->p = ct_masked_softmax(scores, keep, -1);
    return out->p != NULL;
}

static ct_tensor *softmax_forward_of_scores(ct_call *c) {
    cti_attention_tensors x;
    cti_attention_softmax s;
    if (!cti_attention_tensors_of(c, &x)) return NULL;
    c->drop = CT_DROP_IN(CTI_ATTENTION_MASK);
    if (c->n > CTI_ATTENTION_FEWEST_INPUTS)
        c->drop |= CT_DROP_IN(CTI_ATTENTION_BIAS) | CT_DROP_IN(CTI_ATTENTION_SEGMENTS);
    const ct_attention_opts opts = cti_attention_opts_of(&x, c->attrs);
    if (!cti_attention_softmax_of(&x, &opts, &s)) return NULL;
    c->saved[0] = s.tanh;
    if (s.k != x.k) c->saved[1] = s.k;
    return s.p;
}

bool cti_attention_softmax_backward(const ct_call *c, const cti_attention_tensors *x,
                                    const cti_attention_softmax *s, ct_tensor *g,
                                    ct_tensor *grad[CTI_ATTENTION_INPUTS]) {
    const cti_attention_attrs *attrs = c->attrs;
    const ct_attention_opts o = cti_attention_opts_of(x, attrs);
    const bool packed = attrs->packed_heads > 0;
    const double scale = o.softcap > 0 ? o.scale / o.softcap : o.scale;
    ct_tensor *ds = cti_tensor_dense(g);
    /* P was the softmax of the scores and the bias */
    if (!ds || !cti_op_rows_backward(c, s->p, ds, kernels(c)->rows->masked_softmax_backward, &ds))
        return false;
    if (c->n > CTI_ATTENTION_BIAS && c->wants[CTI_ATTENTION_BIAS] &&
        !cti_op_sum_to_input(c, CTI_ATTENTION_BIAS, ds, &grad[CTI_ATTENTION_BIAS]))
        return false;
    /* a score was c tanh S */
    if (s->tanh) {
        ds = ct_scale(ds, o.softcap);
        if (!ds || !cti_op_unary_backward(c, s->tanh, ds, kernels(c)->unary->tanh_backward, &ds))
            return false;
    }
    /* S was q' k^T, and q' was scale q */
    ct_tensor *q = scaled_queries(x, &o);
    if (!q) return false;
    const int64_t *dim = q->shape.dim;
    ds = ct_view(ds, CT_SHAPE(dim[0], dim[1], dim[2], x->k->shape.dim[2]));
    if (packed || c->wants[CTI_ATTENTION_Q])
        grad[CTI_ATTENTION_Q] = ct_scale(ct_view(cti_hidden_product(ds, s->k), x->q->shape), scale);
    if (!packed && !c->wants[CTI_ATTENTION_K]) return cti_ready(c->context);
    ct_tensor *dk = cti_hidden_product(ct_transpose(ds, 2, 3), q);
    if (!dk) return false;
    grad[CTI_ATTENTION_K] = cti_attention_visible_rows(dk, dk->dtype, o.key_mask, o.lengths);
    return cti_ready(c->context);
}

static bool softmax_backward_of_scores(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    cti_attention_tensors x;
    if (!cti_attention_tensors_of(c, &x)) return false;
    const cti_attention_softmax s = {
        .p = c->out, .tanh = c->saved[0], .k = c->saved[1] ? c->saved[1] : x.k};
    return cti_attention_softmax_backward(c, &x, &s, g[0], grad);
}

/* ---- the weighted values ---- */

enum { VALUES_W, VALUES_V, VALUES_KEY_MASK, VALUES_LENGTHS, VALUES_INPUTS };

static ct_tensor *visible_values(const ct_call *c) {
    return cti_attention_visible_rows(c->in[VALUES_V], c->in[VALUES_W]->dtype,
                                      c->in[VALUES_KEY_MASK], c->in[VALUES_LENGTHS]);
}

/* Returns x (B, H, T, n) as (B, H_kv, G T, n). */
static ct_tensor *by_key_heads(ct_tensor *x, const ct_tensor *v) {
    const int64_t *dim = x->shape.dim, h_kv = v->shape.dim[1];
    return ct_reshape(x,
                      CT_SHAPE(dim[0], h_kv, h_kv > 0 ? dim[1] / h_kv * dim[2] : dim[2], dim[3]));
}

static ct_tensor *values_forward(ct_call *c) {
    ct_tensor *w = c->in[VALUES_W], *v = visible_values(c);
    c->drop = CT_DROP_OUT;
    const int64_t *dim = w->shape.dim;
    if (!v) return NULL;
    if (v != c->in[VALUES_V]) c->saved[0] = v;
    return ct_view(cti_hidden_product(by_key_heads(w, v), v),
                   CT_SHAPE(dim[0], dim[1], dim[2], v->shape.dim[3]));
}

static bool values_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *v = c->saved[0] ? c->saved[0] : c->in[VALUES_V];
    ct_tensor *w = by_key_heads(c->in[VALUES_W], v), *dout = by_key_heads(g[0], v);
    if (c->wants[VALUES_W])
        grad[VALUES_W] =
            ct_view(cti_hidden_clear_gradient(w, ct_matmul(dout, ct_transpose(v, 2, 3))),
                    c->in[VALUES_W]->shape);
    if (!cti_ready(c->context) || !c->wants[VALUES_V]) return cti_ready(c->context);
    ct_tensor *dv = cti_hidden_product(ct_transpose(w, 2, 3), dout);
    if (!dv) return false;
    grad[VALUES_V] =
        cti_attention_visible_rows(dv, dv->dtype, c->in[VALUES_KEY_MASK], c->in[VALUES_LENGTHS]);
    return grad[VALUES_V] != NULL;
}

/* ---- the call ---- */

static const ct_op softmax_of_scores = {.name = "attention",
                                        .attrs_size = sizeof(cti_attention_attrs),
                                        .forward = softmax_forward_of_scores,
                                        .backward = softmax_backward_of_scores,
                                        .flags = CT_OP_STRIDED | CT_OP_OPTIONAL};
static const ct_op weighted_values = {.name = "attention",
                                      .forward = values_forward,
                                      .backward = values_backward,
                                      .flags = CT_OP_STRIDED | CT_OP_OPTIONAL};

/* Attention of q (B, H, T, d), k and v in `in`. */
static ct_attention_out attend_heads(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                                     const cti_attention_attrs *attrs) {
    ct_tensor *inputs[CTI_ATTENTION_INPUTS], *values[VALUES_INPUTS];
    for (int i = 0; i < CTI_ATTENTION_INPUTS; i++) inputs[i] = in[i];
    inputs[CTI_ATTENTION_V] = NULL;
    ct_tensor *w = ct_apply(&softmax_of_scores, inputs, cti_attention_input_count(inputs), attrs);
    if (w && attrs->dropout > 0) w = cti_op_dropout(w, attrs->dropout, attrs->random);
    values[VALUES_W] = w;
    values[VALUES_V] = in[CTI_ATTENTION_V];
    values[VALUES_KEY_MASK] = in[CTI_ATTENTION_KEY_MASK];
    values[VALUES_LENGTHS] = in[CTI_ATTENTION_LENGTHS];
    ct_attention_out y = {.out =
                              w ? ct_apply(&weighted_values, values, VALUES_INPUTS, NULL) : NULL};
    if (y.out) y.weights = attrs->mean_weights ? ct_mean(w, CT_DIMS(1), false) : w;
    return y;
}

ct_attention_out cti_attention_whole(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                                     const cti_attention_attrs *attrs) {
    const int64_t heads = attrs->packed_heads;
    ct_tensor *x = in[CTI_ATTENTION_Q], *parts[CTI_ATTENTION_INPUTS];
    if (!heads) return attend_heads(in, attrs);
    const int64_t e = x->shape.dim[2] / 3;
    cti_attention_attrs of_parts = *attrs;
    of_parts.packed_heads = 0;
    for (int i = 0; i < CTI_ATTENTION_INPUTS; i++)
        parts[i] = i < 3 ? ct_split_heads(ct_narrow(x, 2, i * e, e), heads) : in[i];
    if (!cti_ready(x->context)) return (ct_attention_out){0};
    ct_attention_out y = attend_heads(parts, &of_parts);
    y.out = y.out ? ct_combine_heads(y.out) : NULL;
    return y;
}
