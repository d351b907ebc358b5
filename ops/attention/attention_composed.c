/* attention as a composition of public ops, whose gradients it uses; the weights (B, H, T, S) are
 * in memory. Query heads h G ... h G + G - 1 share key head h: the product takes their queries as
 * one matrix (G T, d), so that keys and values need not be repeated. */
#include <math.h>

#include "../../src/autograd/debug.h"
#include "attention_masks.h"

/* ---- products of weights that are 0 for hidden pairs ---- */

static bool contains_nan(const ct_tensor *x) {
    return x && x->numel > 0 && x->context->isa->of[x->dtype]->has_nan(x->numel, x->data);
}

/* y (M, N) += A B for the rows of B (K, N) that are bad, where A (M, K) is not 0. */
static void add_bad_rows(int64_t m, int64_t k, int64_t n, const ct_tensor *like, const char *a,
                         const char *b, const bool *bad, char *y) {
    const cti_kernels *f = like->context->isa->of[like->dtype];
    const int64_t size = (int64_t)cti_dtype_size(like->dtype);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < m && bad[j]; i++) {
            const double x = cti_real_get(like->dtype, a, i * k + j);
            if (x != 0) f->axpy(n, x, b + j * n * size, y + i * n * size);
        }
}

/* A product of 0 and a NaN or an infinity shows as a NaN in y. Rows of B that are not finite are
 * then zeros in the product, and are added afterwards where A is not 0. */
ct_tensor *cti_attention_seen_product(ct_tensor *a, ct_tensor *b) {
    ct_tensor *y = ct_matmul(a, b);
    if (!contains_nan(y)) return y;
    ct_tensor *zero = ct_zeros(y->context, y->dtype, CT_SCALAR);
    ct_tensor *bad = ct_any(ct_isnan(ct_mul(b, zero)), CT_DIMS(-1), true);
    a = ct_contiguous(a);
    b = ct_contiguous(b);
    y = ct_matmul(a, ct_where(bad, zero, b));
    if (!y || !b || !bad) return NULL;
    const int64_t m = y->shape.dim[2], n = y->shape.dim[3], k = b->shape.dim[2];
    const int64_t size = (int64_t)cti_dtype_size(y->dtype);
    for (int64_t i = 0; i < y->shape.dim[0] * y->shape.dim[1]; i++)
        add_bad_rows(m, k, n, y, a->data + i * m * k * size, b->data + i * k * n * size,
                     (const bool *)bad->data + i * k, y->data + i * m * n * size);
    return y;
}

/* An infinity in ds would be a NaN in the product with a weight of 0. */
ct_tensor *cti_attention_zero_hidden(ct_tensor *p, ct_tensor *ds) {
    if (!ds || ds->context->isa->of[ds->dtype]->is_finite(ds->numel, ds->data)) return ds;
    return ct_where(ct_eq_scalar(p, 0), ct_zeros(p->context, p->dtype, CT_SCALAR), ds);
}

/* The third input of both ops, y, is the result of unrecorded ops, and their forward returns a view
 * of it. Their backward keeps numbers that are not finite from hidden pairs. */
static ct_tensor *view_of_product(ct_call *c) {
    c->drop = CT_DROP_OUT | CT_DROP_IN(2);
    return cti_tensor_view(c->in[2], c->in[2]->data, c->in[2]->shape, NULL);
}

/* y = P v, P being 0 for hidden pairs: dP = g v^T, 0 where P is 0; dv = P^T g. */
static bool values_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *p = c->in[0], *v = c->in[1];
    if (c->wants[0]) {
        grad[0] = ct_matmul(g[0], ct_transpose(v, 2, 3));
        grad[0] = cti_attention_zero_hidden(p, grad[0]);
        if (!grad[0]) return false;
    }
    if (c->wants[1]) grad[1] = cti_attention_seen_product(ct_transpose(p, 2, 3), g[0]);
    return !c->wants[1] || grad[1];
}

/* y = q k^T. The cotangent g is 0 for hidden pairs: dq = g k, dk = g^T q. */
static bool scores_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    if (c->wants[0]) grad[0] = cti_attention_seen_product(g[0], c->in[1]);
    if (c->wants[0] && !grad[0]) return false;
    if (c->wants[1]) grad[1] = cti_attention_seen_product(ct_transpose(g[0], 2, 3), c->in[0]);
    return !c->wants[1] || grad[1];
}

static const ct_op values_op = {.name = "attention_values",
                                .forward = view_of_product,
                                .backward = values_backward,
                                .flags = CT_OP_STRIDED};
static const ct_op scores_op = {.name = "attention_scores",
                                .forward = view_of_product,
                                .backward = scores_backward,
                                .flags = CT_OP_STRIDED};

static ct_tensor *weighted_values(ct_tensor *p, ct_tensor *v) {
    ct_tensor *y = cti_attention_seen_product(ct_detach(p), ct_detach(v));
    return y ? ct_apply(&values_op, (ct_tensor *[]){p, v, y}, 3, NULL) : NULL;
}

static ct_tensor *recorded_scores(ct_tensor *q, ct_tensor *k) {
    ct_tensor *y = ct_matmul(ct_detach(q), ct_transpose(ct_detach(k), 2, 3));
    return y ? ct_apply(&scores_op, (ct_tensor *[]){q, k, y}, 3, NULL) : NULL;
}

/* ---- masks ---- */

/* The diagonals, lengths and segments as a definition; the fused passes use attention_masks.c. */
static bool sees(const ct_attention_opts *o, int64_t i, int64_t j, int64_t length) {
    const ct_window w = o->window;
    if (j >= length || (o->causal && j > i)) return false;
    return (!w.left || w.left > i - j) && (!w.right || w.right > j - i);
}

ct_tensor *cti_attention_visible(ct_context *context, const ct_attention_opts *opts,
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
    if (cti_attention_is_limited(opts)) limits = cti_attention_visible(context, opts, scores);
    else if (opts->causal) limits = ct_causal_mask(context, scores.dim[2], scores.dim[3]);
    if (limits) *keep = *keep ? ct_logical_and(*keep, limits) : limits;
    if (opts->key_mask) {
        ct_tensor *keys =
            ct_unsqueeze(ct_unsqueeze(opts->key_mask, 1), 1); /* (B, S) -> (B, 1, 1, S) */
        *keep = *keep ? ct_logical_and(*keep, keys) : keys;
    }
    return cti_ready(context);
}

/* Returns (B, S), true for the keys that key mask and lengths leave visible. */
static ct_tensor *visible_keys(ct_context *context, const ct_attention_opts *opts, int64_t s) {
    if (!opts->lengths) return opts->key_mask;
    const int64_t b = opts->lengths->shape.dim[0];
    const ct_attention_opts only = {.lengths = opts->lengths};
    ct_tensor *keys = cti_attention_visible(context, &only, CT_SHAPE(b, 1, 1, s));
    keys = keys ? ct_view(keys, CT_SHAPE(b, s)) : NULL;
    return opts->key_mask ? ct_logical_and(keys, opts->key_mask) : keys;
}

ct_tensor *cti_attention_zero_masked(ct_tensor *x, const ct_attention_opts *opts) {
    if (!opts->key_mask && !opts->lengths) return x;
    const int64_t b = x->shape.dim[0], s = x->shape.dim[2];
    ct_tensor *keep = visible_keys(x->context, opts, s);
    keep = ct_view(ct_contiguous(keep), CT_SHAPE(b, 1, s, 1));
    return ct_where(keep, x, ct_zeros(x->context, x->dtype, CT_SCALAR));
}

/* A bias of -inf hides a score that is NaN or +inf too: if a score is NaN, returns keep, which may
 * be NULL, and where the bias is not -inf. */
static ct_tensor *without_minus_infinity(ct_tensor *keep, ct_tensor *bias,
                                         const ct_tensor *scores) {
    if (!contains_nan(scores)) return keep;
    ct_tensor *seen = ct_ne_scalar(ct_detach(bias), -INFINITY);
    return keep ? ct_logical_and(keep, seen) : seen;
}

ct_tensor *cti_attention_softmax(ct_tensor *q, ct_tensor *k, const ct_attention_opts *opts,
                                 ct_tensor **tanh) {
    const int64_t *nq = q->shape.dim, *nk = k->shape.dim;
    const int64_t b = nq[0], h = nq[1], t = nq[2], d = nq[3], h_kv = nk[1], s = nk[2];
    const int64_t rows = h_kv > 0 ? h / h_kv * t : t; /* G T */
    const double scale = opts->softcap > 0 ? opts->scale / opts->softcap : opts->scale;
    ct_tensor *keep;
    if (!join_masks(q->context, opts, CT_SHAPE(b, h, t, s), &keep)) return NULL;
    k = cti_attention_zero_masked(k, opts);
    q = ct_reshape(ct_scale(q, scale), CT_SHAPE(b, h_kv, rows, d));
    ct_tensor *scores = recorded_scores(q, k); /* (B, H_kv, G T, S) */
    scores = ct_view(scores, CT_SHAPE(b, h, t, s));
    if (opts->softcap > 0) {
        /* the slope of a hidden pair's tanh must not be NaN */
        if (opts->bias) keep = without_minus_infinity(keep, opts->bias, scores);
        if (keep && scores)
            scores = ct_where(keep, scores, ct_zeros(scores->context, scores->dtype, CT_SCALAR));
        ct_tensor *capped = ct_tanh(scores);
        scores = ct_scale(capped, opts->softcap);
        if (tanh) *tanh = capped;
    }
    if (opts->bias) {
        scores = ct_add(scores, opts->bias);
        keep = without_minus_infinity(keep, opts->bias, scores);
    }
    return ct_masked_softmax(scores, keep, -1);
}

static ct_attention_out attend_composed(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                        const ct_attention_opts *opts) {
    const int64_t *nq = q->shape.dim, *nv = v->shape.dim;
    const int64_t b = nq[0], h = nq[1], t = nq[2], h_kv = nv[1], s = nv[2], dv = nv[3];
    const int64_t rows = h_kv > 0 ? h / h_kv * t : t;             /* G T */
    ct_tensor *weights = cti_attention_softmax(q, k, opts, NULL); /* (B, H, T, S) */
    if (opts->dropout > 0) weights = ct_dropout(weights, opts->dropout, true);
    v = cti_attention_zero_masked(v, opts);
    ct_tensor *out =
        weighted_values(ct_view(weights, CT_SHAPE(b, h_kv, rows, s)), v); /* (B, H_kv, G T, dv) */
    out = ct_view(out, CT_SHAPE(b, h, t, dv));
    return (ct_attention_out){
        .out = out, .weights = opts->mean_weights ? ct_mean(weights, CT_DIMS(1), false) : weights};
}

/* In debug mode a NaN that masks hide, in scores or in a first product, is no error. */
ct_attention_out cti_attention_composed(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                        const ct_attention_opts *opts) {
    ct_tensor *const given[] = {q, k, v, opts->bias};
    cti_running composition;
    cti_composition_begin(q->context, &composition, "attention", given, 4);
    const ct_attention_out y = attend_composed(q, k, v, opts);
    ct_tensor *const results[] = {y.out, y.weights};
    return cti_composition_end(q->context, &composition, results, 2) ? y : (ct_attention_out){0};
}
