/* What is right, by plain loops in f64: the functions of which the judge's forwards, and those with
 * mistakes, are made. Each is its formula, a line or a few in reference.c, which anyone may read.
 * They have no gradient: the judge takes differences of them (course_gradient_as).
 *
 * Arguments and shapes are those of the library's function of the same name. Results are f64, bool
 * of comparisons, and dense. NULL gives NULL, and shapes that do not fit give an error. */
#ifndef COURSE_REFERENCE_H
#define COURSE_REFERENCE_H

#include <cotangent/cotangent.h>

/* ---- element by element; a and b broadcast ---- */

ct_tensor *ref_add(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_sub(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_mul(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_div(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_maximum(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_minimum(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_eq(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_lt(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_gt(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_logical_and(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_logical_or(ct_tensor *a, ct_tensor *b);
ct_tensor *ref_logical_not(ct_tensor *x);
ct_tensor *ref_where(ct_tensor *condition, ct_tensor *a, ct_tensor *b);
ct_tensor *ref_masked_fill(ct_tensor *x, ct_tensor *mask, double value);
ct_tensor *ref_expand(ct_tensor *x, ct_shape shape);

ct_tensor *ref_copy(ct_tensor *x);
ct_tensor *ref_scale(ct_tensor *x, double a);
ct_tensor *ref_add_scalar(ct_tensor *x, double a);
ct_tensor *ref_neg(ct_tensor *x);
ct_tensor *ref_abs(ct_tensor *x);
ct_tensor *ref_exp(ct_tensor *x);
ct_tensor *ref_log(ct_tensor *x);
ct_tensor *ref_sqrt(ct_tensor *x);
ct_tensor *ref_sin(ct_tensor *x);
ct_tensor *ref_cos(ct_tensor *x);
ct_tensor *ref_tanh(ct_tensor *x);
ct_tensor *ref_sigmoid(ct_tensor *x);
ct_tensor *ref_relu(ct_tensor *x);
ct_tensor *ref_silu(ct_tensor *x);
ct_tensor *ref_clamp(ct_tensor *x, double lo, double hi);

/* ---- over some dims, or along one ---- */

ct_tensor *ref_sum(ct_tensor *x, ct_shape dims, bool keepdim);
ct_tensor *ref_mean(ct_tensor *x, ct_shape dims, bool keepdim);
ct_tensor *ref_max(ct_tensor *x, ct_shape dims, bool keepdim);
ct_tensor *ref_any(ct_tensor *x, ct_shape dims, bool keepdim);
ct_tensor *ref_argmax(ct_tensor *x, int dim); /* i64 */
ct_tensor *ref_cumsum(ct_tensor *x, int dim);
ct_tensor *ref_logsumexp(ct_tensor *x, int dim);
ct_tensor *ref_softmax(ct_tensor *x, int dim);
ct_tensor *ref_log_softmax(ct_tensor *x, int dim);
/* The softmax of what mask is true for; 0 elsewhere, and all 0 where it is false for all. */
ct_tensor *ref_masked_softmax(ct_tensor *x, ct_tensor *mask, int dim);

/* ---- products ---- */

ct_tensor *ref_matmul(ct_tensor *a, ct_tensor *b); /* (..., n, m) by (..., m, p) */
ct_tensor *ref_linear(ct_tensor *x, ct_tensor *weight, ct_tensor *bias); /* x weight^T + bias */

/* ---- moving numbers; the library's views move none ---- */

ct_tensor *ref_cat(ct_tensor *const *parts, int n, int dim);
ct_tensor *ref_stack(ct_tensor *const *parts, int n, int dim);
ct_tensor *ref_pad(ct_tensor *x, int dim, int64_t before, int64_t after, double value);
ct_tensor *ref_roll(ct_tensor *x, int64_t shift, int dim);
ct_tensor *ref_index_select(ct_tensor *x, int dim, ct_tensor *index); /* of x's dtype */
ct_tensor *ref_one_hot(ct_tensor *ids, int64_t n);
ct_tensor *ref_causal_mask(ct_context *context, int64_t t, int64_t s);
ct_tensor *ref_split_heads(ct_tensor *x, int64_t heads); /* (B, T, E) -> (B, H, T, E / H) */
ct_tensor *ref_combine_heads(ct_tensor *x);              /* and back */

/* ---- layers ---- */

ct_tensor *ref_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps);
ct_tensor *ref_rms_norm(ct_tensor *x, ct_tensor *weight, double eps);
/* The mean of -log softmax(row)[target] over the rows whose target is not `ignored`;
 * 0 if there are none. */
ct_tensor *ref_cross_entropy(ct_tensor *logits, ct_tensor *targets, int64_t ignored);
/* The rows (..., T, d) turned by their positions offset, offset + 1, ... */
ct_tensor *ref_rope(ct_tensor *x, int64_t offset, double base, bool interleaved);
/* One head: q (B, T, d), k (B, S, d), v (B, S, e), key_mask (B, S), true for a key that is seen, or
 * NULL. A causal query i sees keys j <= i. A query that sees nothing has the result 0. */
ct_tensor *ref_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_tensor *key_mask,
                         bool causal);

#endif
