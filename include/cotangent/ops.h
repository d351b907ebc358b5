/* Operations on tensors. Names, argument order and conventions are torch's wherever torch has the
 * op.
 *
 * Unless stated otherwise, an op takes f32 or f64, any strides and dims of size 0; mixed dtypes are
 * CT_ERR_DTYPE; elementwise ops of two tensors broadcast; every input has a gradient; negative dims
 * count from the end; the result belongs to the innermost scope. Shapes that do not match are
 * CT_ERR_SHAPE, with both shapes in the message. Formulas, shapes and gradients of each are in
 * docs/ops.md. */
#ifndef CT_OPS_H
#define CT_OPS_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, two tensors that broadcast ---- */

/* add, sub, mul, maximum and minimum also take i64. */

CT_API ct_tensor *ct_add(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_sub(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_mul(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_div(ct_tensor *a, ct_tensor *b);
/* NaN if either is; equal elements get half of the gradient each */
CT_API ct_tensor *ct_maximum(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_minimum(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_pow(ct_tensor *x, double e);        /* x^e */
CT_API ct_tensor *ct_scale(ct_tensor *x, double a);      /* a x; also i64, for a whole a */
CT_API ct_tensor *ct_add_scalar(ct_tensor *x, double a); /* x + a; also i64, for a whole a */

/* ---- elementwise, one tensor ---- */
CT_API ct_tensor *ct_neg(ct_tensor *x); /* also i64 */
CT_API ct_tensor *ct_exp(ct_tensor *x);
CT_API ct_tensor *ct_log(ct_tensor *x);
CT_API ct_tensor *ct_sqrt(ct_tensor *x);
CT_API ct_tensor *ct_abs(ct_tensor *x); /* gradient 0 at 0; also i64 */
CT_API ct_tensor *ct_tanh(ct_tensor *x);
CT_API ct_tensor *ct_sigmoid(ct_tensor *x);
CT_API ct_tensor *ct_relu(ct_tensor *x);      /* gradient 0 at 0 */
CT_API ct_tensor *ct_silu(ct_tensor *x);      /* x sigmoid(x) */
CT_API ct_tensor *ct_gelu(ct_tensor *x);      /* x Phi(x), by erf */
CT_API ct_tensor *ct_gelu_tanh(ct_tensor *x); /* torch's gelu(approximate="tanh") */
CT_API ct_tensor *ct_sin(ct_tensor *x);       /* of any finite angle */
CT_API ct_tensor *ct_cos(ct_tensor *x);
/* 1, 0 or -1; of NaN 0; gradient 0; also i64 */
CT_API ct_tensor *ct_sign(ct_tensor *x);
CT_API ct_tensor *ct_floor(ct_tensor *x); /* gradient 0 */
/* min(max(x, lo), hi); bounds may be infinite; the gradient passes where lo <= x <= hi; also i64,
 * for whole bounds */
CT_API ct_tensor *ct_clamp(ct_tensor *x, double lo, double hi);

/* ---- choice and comparison ---- */

/* Conditions and masks are bool. */

/* all three broadcast; a, b of any one dtype */
CT_API ct_tensor *ct_where(ct_tensor *cond, ct_tensor *a, ct_tensor *b);
/* value where mask is true, else x; mask broadcasts to x; any dtype */
CT_API ct_tensor *ct_masked_fill(ct_tensor *x, ct_tensor *mask, double value);
/* comparisons: two tensors of the same dtype, any; result bool; no gradient */
CT_API ct_tensor *ct_eq(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_ne(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_lt(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_le(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_gt(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_ge(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_logical_and(ct_tensor *a, ct_tensor *b); /* bool, broadcast */
CT_API ct_tensor *ct_logical_or(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_logical_not(ct_tensor *a);
CT_API ct_tensor *ct_isnan(ct_tensor *x); /* bool; any dtype */
/* bool (t, s), true where key <= query */
CT_API ct_tensor *ct_causal_mask(ct_context *context, int64_t t, int64_t s);

/* ---- reductions ---- */

/* dims: the dims to reduce (CT_ALL: all of them); with keepdim they stay with size 1. */

/* also i64; of bool the number of true elements, i64 */
CT_API ct_tensor *ct_sum(ct_tensor *x, ct_shape dims, bool keepdim);
CT_API ct_tensor *ct_mean(ct_tensor *x, ct_shape dims, bool keepdim); /* of no elements: NaN */
/* torch's amax: equal maxima share the gradient; no elements: an error; also i64 */
CT_API ct_tensor *ct_max(ct_tensor *x, ct_shape dims, bool keepdim);
CT_API ct_tensor *ct_min(ct_tensor *x, ct_shape dims, bool keepdim); /* likewise */
/* sum (x - mean)^2 / (n - correction), n elements each: correction 1 is Bessel's, torch's default;
 * 0 the population's. For n <= correction a division by 0: NaN or infinite */
CT_API ct_tensor *ct_var(ct_tensor *x, ct_shape dims, double correction, bool keepdim);
/* bool; any dtype, true where not 0 (NaN is true); of no elements false and true; no gradient */
CT_API ct_tensor *ct_any(ct_tensor *x, ct_shape dims, bool keepdim);
CT_API ct_tensor *ct_all(ct_tensor *x, ct_shape dims, bool keepdim);
/* sums x to a shape that broadcasts to x's: the gradient of a broadcast */
CT_API ct_tensor *ct_sum_to(ct_tensor *x, ct_shape shape);
/* i64 index of the largest element, the first of equal ones (NaN counts as largest); removes dim;
 * no gradient; also i64 */
CT_API ct_tensor *ct_argmax(ct_tensor *x, int dim);
CT_API ct_tensor *ct_cumsum(ct_tensor *x, int dim);    /* running sums; also i64; of bool i64 */
CT_API ct_tensor *ct_logsumexp(ct_tensor *x, int dim); /* removes dim */
CT_API ct_tensor *ct_softmax(ct_tensor *x, int dim);
CT_API ct_tensor *ct_log_softmax(ct_tensor *x, int dim);
/* mask: bool, broadcasts to x, true = keep; NULL: keep all. A row with nothing to keep, or all
 * -inf, gives zeros and a zero gradient. Elements that are not kept are not read and may be NaN */
CT_API ct_tensor *ct_masked_softmax(ct_tensor *x, ct_tensor *mask, int dim);

/* ---- order ---- */

/* Of equals the first is first, NaN counts as largest. */

/* where the smallest along dim is, then the next, ..., i64; descending: from the largest; any
 * dtype; no gradient */
CT_API ct_tensor *ct_argsort(ct_tensor *x, int dim, bool descending);

typedef struct {
    ct_tensor *values;  /* along dim the k largest, the largest first; they have a gradient */
    ct_tensor *indices; /* where they are, i64 */
} ct_topk_out;
/* also i64; both NULL with an error, as where dim has fewer than k */
CT_API ct_topk_out ct_topk(ct_tensor *x, int64_t k, int dim);

/* ---- products ---- */
/* (..., M, K) @ (..., K, N) -> (..., M, N); batch dims broadcast; a 1-D side is a vector, as in
 * torch */
CT_API ct_tensor *ct_matmul(ct_tensor *a, ct_tensor *b);
/* (..., in) -> (..., out): x W^T + b; weight (out, in); bias (out) or NULL */
CT_API ct_tensor *ct_linear(ct_tensor *x, ct_tensor *weight, ct_tensor *bias);
/* "ab,bc->ac": letters name dims; the sum of products over the letters that the result lacks.
 * Without "->" the result has those that occur once, in alphabetical order. A dim of 1 repeats. No
 * ellipsis, and no letter twice in one operand. No operand is copied */
CT_API ct_tensor *ct_einsum(const char *equation, ct_tensor *a, ct_tensor *b);

/* residual + f(x) W^T + b: the end of a feed-forward as one op, which recomputes f(x) in backward
 * instead of saving it. x (..., in), residual (..., out); bias and residual may be NULL. dx = (g W)
 * f'(x), dW = g^T f(x) */
CT_API ct_tensor *ct_activated_linear(ct_tensor *x, ct_activation f, ct_tensor *weight,
                                      ct_tensor *bias, ct_tensor *residual);

/* ---- normalisation over the last dim (D) ---- */

/* weight and bias (D) may each be NULL. */

/* (x - mean) / sqrt(var + eps) w + b, var without Bessel */
CT_API ct_tensor *ct_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps);
/* x / sqrt(mean(x^2) + eps) w */
CT_API ct_tensor *ct_rms_norm(ct_tensor *x, ct_tensor *weight, double eps);

/* ---- look-ups and noise ---- */

/* Indices are i64; one out of range is CT_ERR_ARGUMENT, and the message has its position. */

/* ids (...), weight (V, D) -> (..., D) */
CT_API ct_tensor *ct_embedding(ct_tensor *ids, ct_tensor *weight);
/* out[i][j] = x[index[i][j]][j] for dim 0; in other dims index may be smaller than x */
CT_API ct_tensor *ct_gather(ct_tensor *x, int dim, ct_tensor *index);
/* rows of dim: out[i][j] = x[index[i]][j] for dim 0; index (n); any dtype */
CT_API ct_tensor *ct_index_select(ct_tensor *x, int dim, ct_tensor *index);
/* x with src[i] added to row index[i] of dim, for each i in order; a new tensor; also i64 */
CT_API ct_tensor *ct_index_add(ct_tensor *x, int dim, ct_tensor *index, ct_tensor *src);
/* ids (...) -> (..., n): 1 at the id, else 0 */
CT_API ct_tensor *ct_one_hot(ct_tensor *ids, int64_t n, ct_dtype dtype);
/* 0 ... n - 1 in random order, i64 (n); takes a stream of the generator */
CT_API ct_tensor *ct_randperm(ct_context *context, int64_t n);
/* (n): from start to end, both exact, in even steps; of 1: start. f32, f64 or, towards 0, i64 */
CT_API ct_tensor *ct_linspace(ct_context *context, ct_dtype dtype, double start, double end,
                              int64_t n);
/* zero with probability p, else x / (1 - p); not training: x itself */
CT_API ct_tensor *ct_dropout(ct_tensor *x, double p, bool training);

/* ---- losses ---- */
/* mean (x - target)^2; the same shape; gradients to both */
CT_API ct_tensor *ct_mse_loss(ct_tensor *x, ct_tensor *target);

/* What becomes of the losses: their mean, their sum, all of them, or (kl_div alone) their sum
 * divided by the size of dim 0. */
typedef enum { CT_MEAN = 0, CT_SUM, CT_NONE, CT_BATCH_MEAN } ct_reduction;

typedef struct {
    ct_reduction reduction;
    /* of the positives, broadcasts to x; NULL: 1; no gradient */
    ct_tensor *pos_weight;
} ct_bce_opts;
/* binary cross-entropy of target and sigmoid(x), of one shape; gradients to both */
CT_API ct_tensor *ct_bce_with_logits(ct_tensor *x, ct_tensor *target, ct_bce_opts opts);

typedef struct {
    ct_reduction reduction;
    bool log_target; /* the target is logarithms of probabilities, too */
} ct_kl_div_opts;
/* target (log target - input), input being logarithms of probabilities; they broadcast; gradients
 * to both, NaN for a target of 0 */
CT_API ct_tensor *ct_kl_div(ct_tensor *input, ct_tensor *target, ct_kl_div_opts opts);

typedef struct {
    double label_smoothing; /* in [0, 1]: (1 - s) on the target, s spread evenly over the classes */
    ct_reduction reduction;
    ct_tensor *weight; /* of the classes (C); NULL: 1; no gradient */
} ct_cross_entropy_opts;

/* logits (N, C), targets i64 (N): -log softmax(logits)[target], averaged over the rows that are not
 * ignored, weighted by their targets' weights. Rows with target -100 are ignored; any other target
 * outside [0, C) is CT_ERR_ARGUMENT. If all rows are ignored the loss is 0, with zero gradients. */
CT_API ct_tensor *ct_cross_entropy(ct_tensor *logits, ct_tensor *targets,
                                   ct_cross_entropy_opts opts);

/* cross_entropy of the logits x W^T, x (N, D), weight (C, D), computed in blocks of rows so that
 * the logits are never in memory as a whole. */
CT_API ct_tensor *ct_linear_cross_entropy(ct_tensor *x, ct_tensor *weight, ct_tensor *targets,
                                          ct_cross_entropy_opts opts);

/* ---- rotary positions ---- */

/* Su et al. 2021, arXiv:2104.09864. x (..., T, d), d even. Pair j of position p is rotated by the
 * angle (p + offset) base^(-2j/d). Pairs are (j, j + d/2), or with interleaved (2j, 2j + 1). */

typedef struct {
    double base;    /* 0: 10000 */
    int64_t offset; /* position of the first row */
    bool interleaved;
} ct_rope_opts;
CT_API ct_tensor *ct_rope(ct_tensor *x, ct_rope_opts opts);

/* ---- shapes ---- */

/* Any dtype. All are views that share memory, except contiguous, clone, cast, cat, stack, pad, roll
 * and tril, and reshape and combine_heads if no view is possible. */

/* one size may be -1 and is inferred; an error if x's strides do not allow it */
CT_API ct_tensor *ct_view(ct_tensor *x, ct_shape shape);
/* a view if possible, otherwise a copy */
CT_API ct_tensor *ct_reshape(ct_tensor *x, ct_shape shape);
CT_API ct_tensor *ct_transpose(ct_tensor *x, int dim0, int dim1);
CT_API ct_tensor *ct_permute(ct_tensor *x, ct_shape dims);
CT_API ct_tensor *ct_split_heads(ct_tensor *x, int64_t num_heads); /* (B, T, E) -> (B, H, T, E/H) */
/* (B, H, T, d) -> (B, T, H d), a view if the heads of a row are adjacent in memory, otherwise a
 * copy */
CT_API ct_tensor *ct_combine_heads(ct_tensor *x);
/* start may count from the end */
CT_API ct_tensor *ct_narrow(ct_tensor *x, int dim, int64_t start, int64_t length);
/* removes dim; index may count from the end */
CT_API ct_tensor *ct_select(ct_tensor *x, int dim, int64_t index);
/* sizes of 1 and new leading dims repeat; -1 keeps a size */
CT_API ct_tensor *ct_expand(ct_tensor *x, ct_shape shape);
/* removes a dim of size 1; of another size: x as it is */
CT_API ct_tensor *ct_squeeze(ct_tensor *x, int dim);
CT_API ct_tensor *ct_unsqueeze(ct_tensor *x, int dim);
/* x itself (another handle) if it is contiguous, otherwise a copy */
CT_API ct_tensor *ct_contiguous(ct_tensor *x);
/* a tensor of its own memory, whatever the strides of x; in place: ct_copy_into (tensor.h) */
CT_API ct_tensor *ct_clone(ct_tensor *x);
/* as a C cast; to bool by != 0. Differentiable between f32 and f64 */
CT_API ct_tensor *ct_cast(ct_tensor *x, ct_dtype dtype);
/* along an existing dim; the other sizes equal */
CT_API ct_tensor *ct_cat(ct_tensor *const *tensors, int n, int dim);
/* along a new dim; all sizes equal */
CT_API ct_tensor *ct_stack(ct_tensor *const *tensors, int n, int dim);
/* value before and behind x along dim; a negative number cuts off as many of x */
CT_API ct_tensor *ct_pad(ct_tensor *x, int dim, int64_t before, int64_t after, double value);
/* by shift along dim; what goes past the end comes back at the other */
CT_API ct_tensor *ct_roll(ct_tensor *x, int64_t shift, int dim);
/* of the last two dims (i, j) those with j <= i + diagonal, else 0 */
CT_API ct_tensor *ct_tril(ct_tensor *x, int64_t diagonal);
/* n = ceil(dim / size) views, the last one shorter */
CT_API bool ct_split(ct_tensor *x, int64_t size, int dim, ct_tensor **out, int n);

/* ---- attention ---- */

/* softmax(q k^T scale + mask) v (Vaswani et al. 2017, arXiv:1706.03762). q (B, H, T, d),
 * k (B, H_kv, S, d), v (B, H_kv, S, d_v); H_kv divides H. Every bool mask is true where a query may
 * attend; a float mask is added to the scores and has a gradient. All masks that are given apply
 * together. A query that may attend to no key gets zeros and a zero gradient. */

typedef struct {
    ct_tensor *mask;     /* (T, S), or any shape that broadcasts to (B, H, T, S) */
    ct_tensor *key_mask; /* bool (B, S), true = a real key */
    bool causal;         /* query i may attend to keys 0 ... i, also if there are more keys than
                            queries: see ct_kv_cache_append for keys of earlier calls */
    double dropout;      /* of the weights; applied whenever it is not 0 */
    double scale;        /* 0: 1 / sqrt(d); or CT_ZERO */
    bool need_weights;   /* also return the weights (B, H, T, S) ... */
    bool mean_weights;   /* ... or with this too, their mean over heads (B, T, S) */
} ct_attention_opts;

typedef struct {
    /* (B, H, T, d_v); if q is ct_split_heads of a tensor, out has its layout, so that
     * ct_combine_heads is a view */
    ct_tensor *out;
    ct_tensor *weights; /* after dropout; NULL unless need_weights */
} ct_attention_out;

CT_API ct_attention_out ct_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                     ct_attention_opts opts);
/* Attention with q, k and v in one tensor, the result of one projection: x (B, T, 3E) = [q | k |
 * v], each with its heads side by side; out (B, T, E). */
CT_API ct_attention_out ct_packed_attention(ct_tensor *x, int64_t num_heads,
                                            ct_attention_opts opts);

/* ---- drawing from logits (n, V) ---- */

/* out[i] is an index drawn from row i. Uses a stream of the generator, unless greedy. */

typedef struct {
    double temperature; /* 0: greedy, the largest */
    int64_t top_k;      /* only the k largest; 0: all */
    double top_p;       /* only the smallest set whose probabilities sum to at least p; 0: all */
} ct_sample_opts;
CT_API bool ct_sample(ct_tensor *logits, ct_sample_opts opts, int64_t *out, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
