/* attention: out = softmax(score + bias) v, over the keys that a query sees; the score is scale q
 * k^T, or softcap tanh(scale q k^T / softcap). Vaswani et al. 2017, arXiv:1706.03762
 *
 * q (B, H, T, d), k (B, H_kv, S, d), v (B, H_kv, S, dv); query heads h G ... h G + G - 1 share key
 * head h. This file has the public functions, their checks, and the plan of a call, which chooses
 * one of the ways to compute it. attention_reference.h is the whole of it in scalar code. */
#include "attention.h"
#include "../../src/kernels/random.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "attention_masks.h"
#include "attention_products.h"

/* ---- checks; false: an error ---- */

static bool check_qkv(ct_context *context, const ct_tensor *q, const ct_tensor *k,
                      const ct_tensor *v) {
    const int64_t *nq = q->shape.dim, *nk = k->shape.dim, *nv = v->shape.dim;
    if (!cti_tensor_no_blocks(q, "attention") || !cti_tensor_no_blocks(k, "attention") ||
        !cti_tensor_no_blocks(v, "attention"))
        return false;
    if (q->shape.ndim != 4 || k->shape.ndim != 4 || v->shape.ndim != 4)
        return ct_fail(
            context, CT_ERR_SHAPE,
            "attention: q %s, k %s, v %s are not (B, H, T, d), (B, H_kv, S, d), (B, H_kv, S, d_v)",
            SHAPE(q->shape), SHAPE(k->shape), SHAPE(v->shape));
    if (nq[0] != nk[0] || nq[3] != nk[3] || nk[0] != nv[0] || nk[1] != nv[1] || nk[2] != nv[2])
        return ct_fail(context, CT_ERR_SHAPE, "attention: q %s, k %s and v %s do not fit together",
                       SHAPE(q->shape), SHAPE(k->shape), SHAPE(v->shape));
    if (nk[1] == 0 ? nq[1] != 0 : nq[1] % nk[1] != 0)
        return ct_fail(context, CT_ERR_SHAPE,
                       "attention: the key heads of %s do not divide the query heads of %s",
                       SHAPE(k->shape), SHAPE(q->shape));
    const bool bf16 = k->dtype == CT_BF16 && q->dtype == CT_F32;
    if (!cti_is_real(q->dtype) || (q->dtype != k->dtype && !bf16) || k->dtype != v->dtype)
        return ct_fail(context, CT_ERR_DTYPE,
                       "attention: q %s, k %s, v %s are not all f32 or all f64, nor k and v both "
                       "bf16 beside a q of f32",
                       cti_dtype_name(q->dtype), cti_dtype_name(k->dtype),
                       cti_dtype_name(v->dtype));
    return true;
}

/* scores is (B, H, T, S); dtype is the dtype of q. */
static bool check_opts(ct_context *context, const ct_attention_opts *opts, ct_dtype dtype,
                       ct_shape scores) {
    if (!cti_attention_check_masks(context, "attention", opts->mask, opts->key_mask, dtype, scores))
        return false;
    if (!cti_attention_check_seen(context, opts, dtype, scores)) return false;
    if (!(opts->dropout >= 0 && opts->dropout <= 1))
        return ct_fail(context, CT_ERR_ARGUMENT, "attention: the dropout is %g, not in [0, 1]",
                       opts->dropout);
    if (isnan(opts->scale)) return ct_fail(context, CT_ERR_ARGUMENT, "attention: the scale is NaN");
    if (!(opts->softcap >= 0 && opts->softcap <= DBL_MAX))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "attention: the softcap is %g, not a finite number from 0 on",
                       opts->softcap);
    return true;
}

static bool check_packed(ct_context *context, const ct_tensor *x, int64_t heads) {
    const int64_t width = x->shape.ndim == 3 ? x->shape.dim[2] : 0;
    if (!cti_tensor_no_blocks(x, "packed_attention")) return false;
    if (x->shape.ndim != 3 || heads < 1 || width % 3 || width / 3 % heads)
        return ct_fail(context, CT_ERR_SHAPE,
                       "packed_attention: expected (B, T, 3E) with E divisible by %" PRId64
                       " heads, got %s",
                       heads, SHAPE(x->shape));
    if (!cti_is_real(x->dtype))
        return ct_fail(context, CT_ERR_DTYPE, "packed_attention: x is %s, not f32 or f64",
                       cti_dtype_name(x->dtype));
    return true;
}

/* ---- the plan ---- */

/* Gives the scale its default, and moves a float mask to the bias. */
static void complete_opts(ct_attention_opts *opts, int64_t d) {
    opts->scale = cti_option(opts->scale, d > 0 ? 1 / sqrt((double)d) : 1);
    if (!opts->mask || opts->mask->dtype == CT_BOOL) return;
    opts->bias = opts->mask;
    opts->mask = NULL;
}

/* The way of a call with t queries and s keys; `gradient` tells whether it is recorded.
 *
 * Few queries use each key once or twice, too rarely for tiles, which copy it first. With a softcap
 * a recorded call needs tiles nevertheless: backward needs tanh, which it cannot find from the
 * scores that a call by rows saves.
 *
 * If the weights are asked for, they are in memory at the end in any case. They are there from the
 * start if dropout applies to them, or if they are few: this takes no longer, and it rounds less,
 * because the two gradients of a weight, its own and the one through out, are added before
 * softmax's backward. But such sums depend on S, so only dropout is left if kernels are chosen for
 * a given number of rows (src/core/row_rule.h). */
static cti_attention_way choose_way(cti_rows rows, const ct_attention_opts *opts, int64_t t,
                                    int64_t s, bool gradient) {
    enum { FEW_QUERIES = 2, FEW_WEIGHTS = 128 * 128 };
    const bool few = rows == CTI_ROWS_ANY ? t <= FEW_QUERIES : rows == CTI_ROWS_ONE;
    if (opts->need_weights && opts->dropout > 0) return CTI_ATTENTION_WHOLE;
    if (opts->need_weights && rows == CTI_ROWS_ANY) {
        if (few) return CTI_ATTENTION_WHOLE;
        if (s <= FEW_WEIGHTS / t && !cti_attention_is_limited(opts)) return CTI_ATTENTION_WHOLE;
    }
    return few && !(opts->softcap > 0 && gradient) ? CTI_ATTENTION_ROWS : CTI_ATTENTION_TILES;
}

static bool inputs_want_gradient(const ct_context *context, ct_tensor *const *in) {
    bool wants = false;
    for (int i = 0; i < CTI_ATTENTION_INPUTS; i++) wants |= in[i] && in[i]->slot;
    return wants && !context->frame->no_grad;
}

/* Sets all that a call does not read from its inputs. scores is (B, H, T, S). */
static void plan_of(ct_tensor *const in[CTI_ATTENTION_INPUTS], ct_shape scores,
                    const ct_attention_opts *opts, cti_attention_attrs *plan) {
    const ct_tensor *q = in[CTI_ATTENTION_Q], *v = in[CTI_ATTENTION_V];
    ct_context *context = q->context;
    const int64_t t = scores.dim[2], s = scores.dim[3];
    const int64_t d = v ? q->shape.dim[3] : q->shape.dim[2] / 3 / scores.dim[1];
    *plan = (cti_attention_attrs){
        .way = choose_way(context->rows, opts, t, s, inputs_want_gradient(context, in)),
        .rounded = cti_attention_is_rounded(context, q->dtype, t, s, d, v ? v->shape.dim[3] : d),
        .causal = opts->causal,
        .lower_right = opts->lower_right,
        .window = opts->window,
        .scale = opts->scale,
        .softcap = opts->softcap,
        .dropout = opts->dropout,
        .packed_heads = v ? 0 : scores.dim[1],
        .mean_weights = opts->mean_weights};
    if (opts->dropout > 0) {
        const ct_rng next = cti_rng_next(context);
        plan->random = (cti_random){.seed = next.seed, .stream = next.stream};
    }
}

/* ---- the call ---- */

/* Returns whether there is memory for the weights. It is called if q has no elements: with d = 0, T
 * and S may be of any size, and tiles would loop over all of them before the allocation of the
 * weights fails. */
static bool weights_fit(ct_context *context, ct_dtype dtype, ct_shape scores,
                        const ct_attention_opts *opts) {
    if (opts->mean_weights) scores.dim[1] = 1;
    ct_tensor *weights = cti_tensor_new(context, dtype, scores);
    ct_release(weights);
    return weights != NULL;
}

/* By tiles or by rows the weights are a second op, which computes them from the statistics of the
 * first. */
static ct_attention_out attend_with_weights(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                                            const cti_attention_attrs *plan) {
    const ct_scope scope = ct_scope_open(in[0]->context);
    ct_attention_out y = {0};
    if (plan->way == CTI_ATTENTION_WHOLE) {
        y = cti_attention_whole(in, plan);
    } else {
        ct_tensor *stats = NULL;
        y.out = cti_attention_fused(in, plan, &stats);
        if (y.out) y.weights = cti_attention_weights(in, stats, plan);
    }
    y.out = ct_scope_keep(scope, y.weights ? y.out : NULL);
    y.weights = y.out ? ct_scope_keep(scope, y.weights) : NULL;
    ct_scope_close(scope);
    return y;
}

/* Attention of checked tensors. If k and v are NULL, q has all three, packed. */
static ct_attention_out attend_checked(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_shape scores,
                                       const ct_attention_opts *opts) {
    ct_tensor *in[CTI_ATTENTION_INPUTS] = {[CTI_ATTENTION_Q] = q,
                                           [CTI_ATTENTION_K] = k,
                                           [CTI_ATTENTION_V] = v,
                                           [CTI_ATTENTION_MASK] = opts->mask,
                                           [CTI_ATTENTION_KEY_MASK] = opts->key_mask,
                                           [CTI_ATTENTION_BIAS] = opts->bias,
                                           [CTI_ATTENTION_LENGTHS] = opts->lengths,
                                           [CTI_ATTENTION_SEGMENTS] = opts->segments};
    cti_attention_attrs plan;
    plan_of(in, scores, opts, &plan);
    if (!opts->need_weights) return (ct_attention_out){.out = cti_attention_fused(in, &plan, NULL)};
    if (plan.way != CTI_ATTENTION_WHOLE && q->numel == 0 &&
        !weights_fit(q->context, q->dtype, scores, opts))
        return (ct_attention_out){0};
    return attend_with_weights(in, &plan);
}

/* ---- fewer dims ---- */

/* Attention of (B, T, d), which has one head, or of (T, d): with one dim more at `dim`, which the
 * results do not have. */
static ct_attention_out attend_fewer_dims(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                          ct_attention_opts opts) {
    const int dim = q->shape.ndim == 3;
    const ct_scope scope = ct_scope_open(q->context);
    if (dim && opts.mask && opts.mask->shape.ndim == 3) opts.mask = ct_unsqueeze(opts.mask, 1);
    if (dim && opts.bias && opts.bias->shape.ndim == 3) opts.bias = ct_unsqueeze(opts.bias, 1);
    ct_attention_out y = {0};
    if (cti_ready(q->context))
        y = ct_attention(ct_unsqueeze(q, dim), ct_unsqueeze(k, dim), ct_unsqueeze(v, dim), opts);
    y.out = ct_scope_keep(scope, y.out ? ct_squeeze(y.out, dim) : NULL);
    if (y.weights && !(dim && opts.mean_weights)) y.weights = ct_squeeze(y.weights, dim);
    y.weights = y.out ? ct_scope_keep(scope, y.weights) : NULL;
    ct_scope_close(scope);
    return y;
}

/* ---- the public functions ---- */

ct_attention_out ct_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_attention_opts opts) {
    const ct_attention_out none = {0};
    ct_tensor *const given[] = {
        q, k, v, opts.mask, opts.bias, opts.key_mask, opts.lengths, opts.segments};
    ct_context *context = cti_tensors_context(given, COUNT(given));
    if (!context || !cti_tensors_in(given, COUNT(given), context, "attention") ||
        !cti_ready(context))
        return none;
    if (!q || !k || !v) {
        ct_fail(context, CT_ERR_ARGUMENT, "attention: %s is NULL", !q ? "q" : !k ? "k" : "v");
        return none;
    }
    const int dims = q->shape.ndim;
    if ((dims == 2 || dims == 3) && k->shape.ndim == dims && v->shape.ndim == dims)
        return attend_fewer_dims(q, k, v, opts);
    if (!check_qkv(context, q, k, v)) return none;
    const int64_t *n = q->shape.dim;
    const ct_shape scores = CT_SHAPE(n[0], n[1], n[2], k->shape.dim[2]);
    if (!check_opts(context, &opts, q->dtype, scores)) return none;
    complete_opts(&opts, n[3]);
    return attend_checked(q, k, v, scores, &opts);
}

ct_attention_out ct_packed_attention(ct_tensor *x, int64_t num_heads, ct_attention_opts opts) {
    const ct_attention_out none = {0};
    ct_tensor *const given[] = {
        x, opts.mask, opts.bias, opts.key_mask, opts.lengths, opts.segments};
    ct_context *context = cti_tensors_context(given, COUNT(given));
    if (!context || !cti_tensors_in(given, COUNT(given), context, "packed_attention") ||
        !cti_ready(context))
        return none;
    if (!x) {
        ct_fail(context, CT_ERR_ARGUMENT, "packed_attention: x is NULL");
        return none;
    }
    if (!check_packed(context, x, num_heads)) return none;
    const int64_t b = x->shape.dim[0], t = x->shape.dim[1];
    const ct_shape scores = CT_SHAPE(b, num_heads, t, t);
    if (!check_opts(context, &opts, x->dtype, scores)) return none;
    complete_opts(&opts, x->shape.dim[2] / 3 / num_heads);
    return attend_checked(x, NULL, NULL, scores, &opts);
}
