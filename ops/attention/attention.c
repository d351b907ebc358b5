/* attention: out = softmax(q k^T scale + mask) v, over the keys that every mask leaves.   Vaswani et al. 2017, arXiv:1706.03762
 *
 * Query heads h G ... h G + G - 1 share key head h. Their queries are one matrix (G T, d) against its keys, which so are never
 * repeated. */
#include "attention.h"

#include <inttypes.h>
#include <math.h>

static bool check(ct_context *context, ct_tensor *q, ct_tensor *k, ct_tensor *v, const ct_attention_opts *opts) {
    if (!q || !k || !v) return ct_fail(context, CT_ERR_ARGUMENT, "attention: %s is NULL", !q ? "q" : !k ? "k" : "v");
    const ct_tensor *const given[] = {q, k, v, opts->mask, opts->key_mask};
    for (int i = 0; i < COUNT(given); i++)
        if (given[i] && !cti_same_context(context, given[i]->context, "attention")) return false;
    const int64_t *a = q->shape.dim, *b = k->shape.dim, *e = v->shape.dim;
    if (q->shape.ndim != 4 || k->shape.ndim != 4 || v->shape.ndim != 4)
        return ct_fail(context, CT_ERR_SHAPE, "attention: q %s, k %s, v %s are not (B, H, T, d), (B, H_kv, S, d), (B, H_kv, S, d_v)",
                       SHAPE(q->shape), SHAPE(k->shape), SHAPE(v->shape));
    if (a[0] != b[0] || a[3] != b[3] || b[0] != e[0] || b[1] != e[1] || b[2] != e[2])
        return ct_fail(context, CT_ERR_SHAPE, "attention: q %s, k %s and v %s do not fit together", SHAPE(q->shape), SHAPE(k->shape),
                       SHAPE(v->shape));
    if (b[1] == 0 ? a[1] != 0 : a[1] % b[1] != 0)
        return ct_fail(context, CT_ERR_SHAPE, "attention: the key heads of %s do not divide the query heads of %s", SHAPE(k->shape),
                       SHAPE(q->shape));
    if (!cti_is_real(q->dtype) || q->dtype != k->dtype || q->dtype != v->dtype)
        return ct_fail(context, CT_ERR_DTYPE, "attention: q %s, k %s, v %s are not all f32 or all f64", cti_dtype_name(q->dtype),
                       cti_dtype_name(k->dtype), cti_dtype_name(v->dtype));
    const ct_tensor *mask = opts->mask, *keys = opts->key_mask;
    const ct_shape scores = CT_SHAPE(a[0], a[1], a[2], b[2]);
    if (mask && mask->dtype != CT_BOOL && mask->dtype != q->dtype)
        return ct_fail(context, CT_ERR_DTYPE, "attention: the mask is %s, not bool or %s", cti_dtype_name(mask->dtype),
                       cti_dtype_name(q->dtype));
    if (mask && !cti_shape_broadcasts_to(mask->shape, scores))
        return ct_fail(context, CT_ERR_SHAPE, "attention: the mask %s does not broadcast to the scores %s", SHAPE(mask->shape),
                       SHAPE(scores));
    if (keys && keys->dtype != CT_BOOL)
        return ct_fail(context, CT_ERR_DTYPE, "attention: the key mask is %s, not bool", cti_dtype_name(keys->dtype));
    if (keys && !cti_shape_equal(keys->shape, CT_SHAPE(b[0], b[2])))
        return ct_fail(context, CT_ERR_SHAPE, "attention: the key mask %s is not (B, S) = %s", SHAPE(keys->shape),
                       SHAPE(CT_SHAPE(b[0], b[2])));
    if (!(opts->dropout >= 0 && opts->dropout <= 1))
        return ct_fail(context, CT_ERR_ARGUMENT, "attention: the dropout is %g, not in [0, 1]", opts->dropout);
    if (isnan(opts->scale)) return ct_fail(context, CT_ERR_ARGUMENT, "attention: the scale is NaN");
    return true;
}

/* What every bool mask leaves, of a shape that broadcasts to (B, H, T, S), in *keep; NULL where there is none. False: an error. */
static bool kept(ct_context *context, ct_tensor *mask, ct_tensor *keys, bool causal, int64_t t, int64_t s, ct_tensor **keep) {
    *keep = mask && mask->dtype == CT_BOOL ? mask : NULL;
    if (causal) {
        ct_tensor *past = ct_causal_mask(context, t, s);
        *keep = *keep ? ct_logical_and(*keep, past) : past;
    }
    if (keys) {
        ct_tensor *real = ct_unsqueeze(ct_unsqueeze(keys, 1), 1); /* (B, S) -> (B, 1, 1, S) */
        *keep = *keep ? ct_logical_and(*keep, real) : real;
    }
    return cti_ready(context);
}

ct_tensor *cti_attention_unhidden(ct_tensor *x, ct_tensor *keys) {
    return ct_where(ct_view(ct_contiguous(keys), CT_SHAPE(keys->shape.dim[0], 1, keys->shape.dim[1], 1)), x,
                    ct_zeros(x->context, x->dtype, CT_SCALAR));
}

ct_tensor *cti_attention_softmax(ct_tensor *q, ct_tensor *k, ct_tensor *mask, ct_tensor *keys, bool causal, double scale) {
    const int64_t b = q->shape.dim[0], h = q->shape.dim[1], t = q->shape.dim[2], d = q->shape.dim[3];
    const int64_t h_kv = k->shape.dim[1], s = k->shape.dim[2], group = h_kv > 0 ? h / h_kv : 1;
    ct_tensor *keep;
    if (!kept(q->context, mask, keys, causal, t, s, &keep)) return NULL;
    if (keys) k = cti_attention_unhidden(k, keys);
    q = ct_reshape(ct_scale(q, scale), CT_SHAPE(b, h_kv, group * t, d));
    ct_tensor *scores = ct_view(ct_matmul(q, ct_transpose(k, -1, -2)), CT_SHAPE(b, h, t, s)); /* (B, H_kv, G T, S) -> (B, H, T, S) */
    if (mask && mask->dtype != CT_BOOL) scores = ct_add(scores, mask);
    return ct_masked_softmax(scores, keep, -1);
}

/* Written out in primitive ops, with the weights whole. */
static ct_attention_out composed(ct_tensor *q, ct_tensor *k, ct_tensor *v, const ct_attention_opts *opts) {
    const int64_t b = q->shape.dim[0], h = q->shape.dim[1], t = q->shape.dim[2];
    const int64_t h_kv = k->shape.dim[1], s = k->shape.dim[2], d_v = v->shape.dim[3], group = h_kv > 0 ? h / h_kv : 1;
    ct_tensor *weights = cti_attention_softmax(q, k, opts->mask, opts->key_mask, opts->causal, opts->scale);
    if (opts->dropout > 0) weights = ct_dropout(weights, opts->dropout, true);
    if (opts->key_mask) v = cti_attention_unhidden(v, opts->key_mask);
    ct_tensor *out = ct_matmul(ct_view(weights, CT_SHAPE(b, h_kv, group * t, s)), v);
    return (ct_attention_out){ct_view(out, CT_SHAPE(b, h, t, d_v)), opts->mean_weights ? ct_mean(weights, CT_DIMS(1), false) : weights};
}

static double scale_of(const ct_attention_opts *opts, int64_t d) {
    return opts->scale != 0 ? opts->scale : d > 0 ? 1 / sqrt((double)d) : 1;
}

/* In blocks, of q (B, H, T, d), or of all three packed in q; k and v are then NULL. */
static ct_attention_out fused(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_shape shape, bool packed, const ct_attention_opts *opts) {
    const int64_t b = shape.dim[0], h = shape.dim[1], t = shape.dim[2];
    cti_attention_attrs set = {
        .causal = opts->causal, .scale = opts->scale, .dropout = opts->dropout, .heads = packed ? h : 0, .mean = opts->mean_weights};
    if (opts->dropout > 0) {
        const ct_rng next = cti_rng_next(q->context);
        set.random = (cti_random){next.seed, next.stream};
    }
    ct_tensor *in[CTI_ATTENTION_INPUTS] = {q, k, v, opts->mask, opts->key_mask, NULL};
    if (!opts->need_weights) return (ct_attention_out){cti_attention_fused(in, &set), NULL};
    if (!(in[5] = cti_tensor_new(q->context, q->dtype, CT_SHAPE(2, b, h, t)))) return (ct_attention_out){0};
    ct_attention_out y = {.out = cti_attention_fused(in, &set)};
    in[2] = NULL;
    if (y.out) y.weights = cti_attention_weights_of(in, &set);
    return y;
}

/* Are the weights that are asked for those that v is multiplied by? Dropout's factors are theirs too; and a few are made as quickly whole,
 * and their gradient and that of the result are then summed before they are rounded. */
static bool is_composed(const ct_attention_opts *opts, int64_t t, int64_t s) {
    enum { FEW = 128 * 128 };
    return opts->dropout > 0 || t <= CTI_ATTENTION_FEW || s <= FEW / t;
}

/* What is handed out of a scope. */
static ct_attention_out hand_out(ct_scope scope, ct_attention_out y) {
    y.out = ct_scope_keep(scope, y.weights ? y.out : NULL);
    y.weights = y.out ? ct_scope_keep(scope, y.weights) : NULL;
    ct_scope_close(scope);
    return y;
}

ct_attention_out ct_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_attention_opts opts) {
    ct_context *context = ct_context_of(q ? q : k ? k : v);
    if (!cti_ready(context) || !check(context, q, k, v, &opts)) return (ct_attention_out){0};
    opts.scale = scale_of(&opts, q->shape.dim[3]);
    if (!opts.need_weights) return fused(q, k, v, q->shape, false, &opts);
    const bool whole = is_composed(&opts, q->shape.dim[2], k->shape.dim[2]);
    const ct_scope scope = ct_scope_open(context);
    return hand_out(scope, whole ? composed(q, k, v, &opts) : fused(q, k, v, q->shape, false, &opts));
}

ct_attention_out ct_packed_attention(ct_tensor *x, int64_t num_heads, ct_attention_opts opts) {
    const ct_attention_out none = {0};
    ct_context *context = ct_context_of(x ? x : opts.mask ? opts.mask : opts.key_mask);
    if (!cti_ready(context)) return none;
    if (!x) {
        ct_fail(context, CT_ERR_ARGUMENT, "packed_attention: x is NULL");
        return none;
    }
    const int64_t *n = x->shape.dim, e = x->shape.ndim == 3 ? n[2] / 3 : 0;
    if (x->shape.ndim != 3 || num_heads < 1 || n[2] % 3 || e % num_heads) {
        ct_fail(context, CT_ERR_SHAPE, "packed_attention: expected (B, T, 3E) with E divisible by %" PRId64 " heads, got %s", num_heads,
                SHAPE(x->shape));
        return none;
    }
    const int64_t d = e / num_heads;
    ct_tensor part = {.context = context, .dtype = x->dtype, .shape = CT_SHAPE(n[0], num_heads, n[1], d)};
    if (!check(context, &part, &part, &part, &opts)) return none;
    opts.scale = scale_of(&opts, d);
    if (!opts.need_weights) return fused(x, NULL, NULL, part.shape, true, &opts);
    const ct_scope scope = ct_scope_open(context);
    if (!is_composed(&opts, n[1], n[1])) return hand_out(scope, fused(x, NULL, NULL, part.shape, true, &opts));
    ct_tensor *third[3];
    for (int i = 0; i < 3; i++) third[i] = ct_split_heads(ct_narrow(x, 2, i * e, e), num_heads);
    ct_attention_out y = cti_ready(context) ? composed(third[0], third[1], third[2], &opts) : none;
    y.out = ct_combine_heads(y.out);
    return hand_out(scope, y);
}
