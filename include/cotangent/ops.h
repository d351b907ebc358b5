/* Operations on tensors. Names, argument order and conventions are torch's if torch has the op.
 * docs/ops.md has the formula, the shapes and the gradient of each op.
 *
 * Unless its comment says otherwise:
 *
 * - an op takes f32 or f64, any strides, and dims of size 0; mixed dtypes are CT_ERR_DTYPE;
 * - elementwise ops of two tensors broadcast;
 * - gradients flow to every input;
 * - negative dims count from the end;
 * - the result belongs to the innermost scope;
 * - shapes that do not match are CT_ERR_SHAPE, with both shapes in the message. */
#ifndef CT_OPS_H
#define CT_OPS_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, two tensors that broadcast ---- */

/* ct_add, ct_sub, ct_mul, ct_maximum and ct_minimum also take i64. */

CT_API ct_tensor *ct_add(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_sub(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_mul(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_div(ct_tensor *a, ct_tensor *b);
/* An element is NaN if either operand is NaN. Two equal operands get half of the gradient each. */
CT_API ct_tensor *ct_maximum(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_minimum(ct_tensor *a, ct_tensor *b); /* NaN and gradient as in ct_maximum */
CT_API ct_tensor *ct_pow(ct_tensor *x, double e);         /* x^e */
CT_API ct_tensor *ct_scale(ct_tensor *x, double a); /* a x; x may be i64 if a is a whole number */
CT_API ct_tensor *ct_add_scalar(ct_tensor *x,
                                double a); /* x + a; x may be i64 if a is a whole number */

/* ---- elementwise, one tensor ---- */
CT_API ct_tensor *ct_neg(ct_tensor *x); /* takes i64 too */
CT_API ct_tensor *ct_exp(ct_tensor *x);
CT_API ct_tensor *ct_log(ct_tensor *x);
CT_API ct_tensor *ct_sqrt(ct_tensor *x);
CT_API ct_tensor *ct_abs(ct_tensor *x); /* the gradient is 0 at 0; takes i64 too */
CT_API ct_tensor *ct_tanh(ct_tensor *x);
CT_API ct_tensor *ct_sigmoid(ct_tensor *x);
CT_API ct_tensor *ct_relu(ct_tensor *x);      /* max(x, 0); the gradient is 0 at 0 */
CT_API ct_tensor *ct_silu(ct_tensor *x);      /* x sigmoid(x) */
CT_API ct_tensor *ct_gelu(ct_tensor *x);      /* x Phi(x), with Phi computed by erf */
CT_API ct_tensor *ct_gelu_tanh(ct_tensor *x); /* torch's gelu(approximate="tanh") */
CT_API ct_tensor *ct_softplus(ct_tensor *x);  /* log(1 + e^x); x if x > 20 */
/* max(x, 0)^2, as transformers' relu2 */
CT_API ct_tensor *ct_relu_squared(ct_tensor *x);
/* x sigmoid(1.702 x), as transformers' quick_gelu */
CT_API ct_tensor *ct_quick_gelu(ct_tensor *x);
CT_API ct_tensor *ct_sin(ct_tensor *x); /* accurate at every finite angle */
CT_API ct_tensor *ct_cos(ct_tensor *x); /* accurate at every finite angle */
/* The sign, 1, 0 or -1; the sign of NaN is 0. The gradient is 0. Takes i64 too. */
CT_API ct_tensor *ct_sign(ct_tensor *x);
CT_API ct_tensor *ct_floor(ct_tensor *x); /* the gradient is 0 */
/* x if x > 0, otherwise alpha (e^x - 1); the gradient is alpha at 0 */
CT_API ct_tensor *ct_elu(ct_tensor *x, double alpha);
/* x if x > 0, otherwise slope x; the gradient is slope at 0 */
CT_API ct_tensor *ct_leaky_relu(ct_tensor *x, double slope);
/* min(max(x, lo), hi). A bound may be infinite. The gradient passes if lo <= x <= hi and is 0
 * otherwise. Takes i64 too, with whole bounds. */
CT_API ct_tensor *ct_clamp(ct_tensor *x, double lo, double hi);

/* ---- choice and comparison ---- */

/* Conditions and masks are bool. */

/* cond ? a : b. All three broadcast; a and b have one dtype, which may be any. */
CT_API ct_tensor *ct_where(ct_tensor *cond, ct_tensor *a, ct_tensor *b);
/* mask ? value : x. Both broadcast; x has any dtype. */
CT_API ct_tensor *ct_masked_fill(ct_tensor *x, ct_tensor *mask, double value);
/* Comparisons take two tensors of one dtype, which may be any but bf16. The result is bool and has
 * no gradient. */
CT_API ct_tensor *ct_eq(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_ne(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_lt(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_le(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_gt(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_ge(ct_tensor *a, ct_tensor *b);
/* Comparisons of a tensor of any dtype but bf16 with a number. For f32 the number is rounded to
 * f32, as in torch. The elements of i64, and 0 and 1 of bool, are compared exactly, also with a
 * fraction, an infinity or NaN. */
CT_API ct_tensor *ct_eq_scalar(ct_tensor *x, double a);
CT_API ct_tensor *ct_ne_scalar(ct_tensor *x, double a);
CT_API ct_tensor *ct_lt_scalar(ct_tensor *x, double a);
CT_API ct_tensor *ct_le_scalar(ct_tensor *x, double a);
CT_API ct_tensor *ct_gt_scalar(ct_tensor *x, double a);
CT_API ct_tensor *ct_ge_scalar(ct_tensor *x, double a);
/* Logical ops take bool and return bool. */
CT_API ct_tensor *ct_logical_and(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_logical_or(ct_tensor *a, ct_tensor *b);
CT_API ct_tensor *ct_logical_not(ct_tensor *a);
CT_API ct_tensor *ct_isnan(ct_tensor *x); /* takes any dtype but bf16 and returns bool */
/* Returns bool (t, s) with m[i][j] = (j <= i): query i may attend to keys 0 ... i. */
CT_API ct_tensor *ct_causal_mask(ct_context *context, int64_t t, int64_t s);

/* ---- reductions ---- */

/* The argument dims lists the dims that are reduced (CT_ALL: all dims). With keepdim they stay, as
 * dims of size 1. */

/* The sum. Takes i64 too. The sum of a bool tensor is the number of true elements, i64. */
CT_API ct_tensor *ct_sum(ct_tensor *x, ct_shape dims, bool keepdim);
CT_API ct_tensor *ct_mean(ct_tensor *x, ct_shape dims,
                          bool keepdim); /* a mean of no elements is NaN */
/* The maximum, as torch's amax: equal maxima share the gradient equally. A reduction over no
 * elements is an error. Takes i64 too. */
CT_API ct_tensor *ct_max(ct_tensor *x, ct_shape dims, bool keepdim);
CT_API ct_tensor *ct_min(ct_tensor *x, ct_shape dims, bool keepdim); /* the same for the minimum */
/* sum (x - mean)^2 / (n - correction), the variance of n elements. correction 1 is Bessel's,
 * torch's default; with 0 it is the variance of the population. If n <= correction, the result of
 * the division is NaN or infinite. */
CT_API ct_tensor *ct_var(ct_tensor *x, ct_shape dims, double correction, bool keepdim);
/* ct_any and ct_all take any dtype and return bool without a gradient. An element is true if it is
 * not 0, so NaN is true. For no elements ct_any is false and ct_all is true. */
CT_API ct_tensor *ct_any(ct_tensor *x, ct_shape dims, bool keepdim);
CT_API ct_tensor *ct_all(ct_tensor *x, ct_shape dims, bool keepdim);
/* Sums x to a shape that broadcasts to the shape of x. (The gradient of a broadcast is this sum.)
 * If the two shapes are equal, the result is a view of x. */
CT_API ct_tensor *ct_sum_to(ct_tensor *x, ct_shape shape);
/* Returns the i64 index of the largest element along dim, without that dim and without a gradient.
 * The first of equal elements wins; NaN counts as the largest. Takes i64 too. */
CT_API ct_tensor *ct_argmax(ct_tensor *x, int dim);
/* Running sums along dim. Takes i64 too; for bool it returns running counts, i64. */
CT_API ct_tensor *ct_cumsum(ct_tensor *x, int dim);
CT_API ct_tensor *ct_logsumexp(ct_tensor *x, int dim); /* returns x's shape without dim */
CT_API ct_tensor *ct_softmax(ct_tensor *x, int dim);
CT_API ct_tensor *ct_log_softmax(ct_tensor *x, int dim);
/* Softmax along dim over the elements at which the mask is true. The other elements become 0; they
 * are not read and may be NaN. The mask is bool and broadcasts to x; NULL keeps all elements. A row
 * in which no element is kept, or all kept elements are -inf, gives zeros and a zero gradient. */
CT_API ct_tensor *ct_masked_softmax(ct_tensor *x, ct_tensor *mask, int dim);

/* ---- order ---- */

/* The order is stable: of equal elements the first comes first. NaN counts as the largest. */

/* Returns the i64 indices that sort x along dim, ascending or descending, without a gradient. Takes
 * any dtype but bf16. */
CT_API ct_tensor *ct_argsort(ct_tensor *x, int dim, bool descending);

typedef struct {
    ct_tensor *values;  /* the k largest elements along dim, the largest first; gradients flow */
    ct_tensor *indices; /* their indices along dim, i64 */
} ct_topk_out;
/* Takes i64 too. After an error, such as a k larger than dim, both results are NULL. */
CT_API ct_topk_out ct_topk(ct_tensor *x, int64_t k, int dim);

/* ---- products ---- */
/* (..., M, K) @ (..., K, N) -> (..., M, N). Batch dims broadcast; an argument of one dim is a
 * vector, as in torch. */
CT_API ct_tensor *ct_matmul(ct_tensor *a, ct_tensor *b);
/* x W^T + b: x (..., in) -> (..., out), weight (out, in), bias (out) or NULL. */
CT_API ct_tensor *ct_linear(ct_tensor *x, ct_tensor *weight, ct_tensor *bias);
/* In an equation such as "ab,bc->ac" letters name dims. The products of elements are summed over
 * the letters that do not occur after "->". Without "->" the result has the letters that occur
 * once, in alphabetical order. A dim of size 1 is repeated. "..." are the dims of an operand that
 * have no letter; those of two operands broadcast. They come first in a result without "->". With
 * one operand, "ba" or "ab->a", b is NULL. A letter that occurs twice in one operand is not
 * supported. No operand is copied. */
CT_API ct_tensor *ct_einsum(const char *equation, ct_tensor *a, ct_tensor *b);

/* f(x), by the op of the activation: ct_relu, ct_gelu, .... */
CT_API ct_tensor *ct_activate(ct_tensor *x, ct_activation f);
/* f(a) b of two tensors of one shape, the middle of a gated feed-forward as one op. Backward
 * computes f(a) again, which is not saved. */
CT_API ct_tensor *ct_activated_mul(ct_tensor *a, ct_activation f, ct_tensor *b);

/* residual + f(x) W^T + b, the end of a feed-forward layer as one op. Backward recomputes f(x),
 * which is not saved: dx = (g W) f'(x), dW = g^T f(x). x (..., in), weight (out, in), residual
 * (..., out); bias and residual may be NULL. */
CT_API ct_tensor *ct_activated_linear(ct_tensor *x, ct_activation f, ct_tensor *weight,
                                      ct_tensor *bias, ct_tensor *residual);

/* ---- normalisation over the last dim (D) ---- */

/* weight (D) and bias (D) may each be NULL. */

/* (x - mean) / sqrt(var + eps) w + b; var is the mean of (x - mean)^2. */
CT_API ct_tensor *ct_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps);
/* x / sqrt(mean(x^2) + eps) w */
CT_API ct_tensor *ct_rms_norm(ct_tensor *x, ct_tensor *weight, double eps);
/* x / sqrt(mean(x^2) + eps) (offset + w); Gemma's norms have an offset of 1. If w is NULL there is
 * no factor. */
CT_API ct_tensor *ct_rms_norm_offset(ct_tensor *x, ct_tensor *weight, double eps, double offset);
/* x / max(||x||_p, eps), the norms along dim, as torch's F.normalize; torch's defaults are p = 2
 * and eps = 1e-12. p may be 0 (the number of elements that are not 0) and +-INFINITY. A vector of
 * zeros stays, with the gradient g / eps. A scalar counts as a tensor of one dim. */
CT_API ct_tensor *ct_normalize(ct_tensor *x, double p, int dim, double eps);

/* ---- look-ups and noise ---- */

/* Indices are i64. An index out of range is CT_ERR_ARGUMENT, and the message has its position. */

/* ids (...), weight (V, D) -> (..., D): row ids[i] of the weight for each id. */
CT_API ct_tensor *ct_embedding(ct_tensor *ids, ct_tensor *weight);
/* For dim 0, out[i][j] = x[index[i][j]][j]. In the other dims index may be smaller than x. An index
 * without elements may have any shape, and a scalar counts as a tensor of one dim. x has any
 * dtype. */
CT_API ct_tensor *ct_gather(ct_tensor *x, int dim, ct_tensor *index);
/* For dim 0, out[i][j] = x[index[i]][j]; index has shape (n). x has any dtype. */
CT_API ct_tensor *ct_index_select(ct_tensor *x, int dim, ct_tensor *index);
/* Returns a copy of x in which src[i] is added to row index[i] of dim, for each i in order. Takes
 * i64 too. */
CT_API ct_tensor *ct_index_add(ct_tensor *x, int dim, ct_tensor *index, ct_tensor *src);
/* ids (...) -> (..., n): 1 at the position of the id and 0 at the others. */
CT_API ct_tensor *ct_one_hot(ct_tensor *ids, int64_t n, ct_dtype dtype);
/* Returns 0 ... n - 1 in random order, i64 (n). It takes a stream of the generator. */
CT_API ct_tensor *ct_randperm(ct_context *context, int64_t n);
/* Returns n numbers in equal steps from start to end; the first is exactly start and the last is
 * exactly end. For n = 1 the result is start. dtype is f32, f64 or i64; for i64 numbers are rounded
 * towards 0. */
CT_API ct_tensor *ct_linspace(ct_context *context, ct_dtype dtype, double start, double end,
                              int64_t n);
/* In training an element becomes 0 with probability p, and x / (1 - p) otherwise. Without training
 * the result is x itself. */
CT_API ct_tensor *ct_dropout(ct_tensor *x, double p, bool training);

/* ---- losses ---- */
/* mean (x - target)^2 of two tensors of one shape. Gradients flow to both. */
CT_API ct_tensor *ct_mse_loss(ct_tensor *x, ct_tensor *target);

/* The reduction of a loss over its elements. CT_MEAN returns their mean, CT_SUM their sum, CT_NONE
 * all of them, and CT_BATCH_MEAN (only for ct_kl_div) their sum divided by the size of dim 0 of the
 * input. */
typedef enum { CT_MEAN = 0, CT_SUM, CT_NONE, CT_BATCH_MEAN } ct_reduction;

typedef struct {
    ct_reduction reduction;
    /* the weight of the positive term, which broadcasts to x; NULL: 1. It gets no gradient */
    ct_tensor *pos_weight;
} ct_bce_opts;
/* The binary cross-entropy of target and sigmoid(x), of one shape. Gradients flow to both. */
CT_API ct_tensor *ct_bce_with_logits(ct_tensor *x, ct_tensor *target, ct_bce_opts opts);

typedef struct {
    ct_reduction reduction;
    bool log_target; /* target contains logarithms of probabilities, as input does */
} ct_kl_div_opts;
/* target (log target - input), where input contains logarithms of probabilities. input and target
 * broadcast. Gradients flow to both; the gradient of target is NaN at a target of 0. */
CT_API ct_tensor *ct_kl_div(ct_tensor *input, ct_tensor *target, ct_kl_div_opts opts);

typedef struct {
    /* a number s in [0, 1]: the target class has probability 1 - s + s / C, each other s / C */
    double label_smoothing;
    ct_reduction reduction;
    ct_tensor *weight; /* the weights of the classes (C); NULL: 1. They get no gradient */
    /* a number z >= 0: z logsumexp(logits)^2 is added to the loss of each row that is not ignored,
     * without the weight of its class. CT_MEAN divides it as the rest of the loss */
    double z_loss;
} ct_cross_entropy_opts;

/* The cross-entropy -log softmax(logits)[target] of logits (..., C) and targets i64 (...). The
 * classes are the last dim; in torch, dim 1. CT_MEAN is the mean over the rows that are not
 * ignored, weighted by the weights of their targets; CT_NONE gives losses (...). Rows with target
 * -100 are ignored; any other target outside [0, C) is CT_ERR_ARGUMENT. If all rows are ignored,
 * the loss and the gradients are 0. A row with NaN, with +inf or with -inf only has a loss and
 * gradients of NaN. */
CT_API ct_tensor *ct_cross_entropy(ct_tensor *logits, ct_tensor *targets,
                                   ct_cross_entropy_opts opts);

/* The cross-entropy of the logits x W^T, with x (..., D) and weight (C, D). The logits are computed
 * in blocks of rows and are never in memory as a whole. */
CT_API ct_tensor *ct_linear_cross_entropy(ct_tensor *x, ct_tensor *weight, ct_tensor *targets,
                                          ct_cross_entropy_opts opts);

/* ---- rotary positions ---- */

/* Rotary position embedding (Su et al. 2021, arXiv:2104.09864) of x (..., T, d). Pair j of a row at
 * position p is rotated by the angle p f_j, where f_j = base^(-2j/dims). Pair j is elements
 * (j, j + dims/2), or with interleaved (2j, 2j + 1). The elements from dims on are copied.
 *
 * positions, i64, is (T), or (B, T) with x (B, ..., T, d). A position may be any number, also a
 * negative one. If positions is NULL, the rows are at 0, 1, ..., T - 1. Angles are computed in f64
 * for both dtypes of x. */

typedef struct {
    double base; /* 0: 10000 */
    /* the number of elements of a row that are rotated, which are its first ones; even. 0: d, which
     * must be even */
    int64_t dims;
    bool interleaved; /* pairs (2j, 2j + 1) instead of (j, j + dims/2) */
    /* f_0, f_1, ..., dims/2 finite numbers in place of the powers of base; NULL: those powers.
     * ct_rope_frequencies computes the frequencies of models with scaled positions */
    const double *frequencies;
    double attention_factor; /* a factor of every cosine and sine; 0: 1 */
} ct_rope_opts;
CT_API ct_tensor *ct_rope(ct_tensor *x, ct_tensor *positions, ct_rope_opts opts);

/* How a model's frequencies f_j were changed for longer sequences: "rope_type" in config.json. In
 * the formulas r_j is base^(-2j/dims), and n_j = original_length r_j / (2 pi) is the number of
 * rotations of pair j in the original length. */
typedef enum {
    CT_ROPE_DEFAULT, /* f_j = r_j */
    CT_ROPE_LINEAR,  /* f_j = r_j / factor */
    /* f_j = r_j / factor if n_j < low, r_j if n_j > high, and (1 - s) r_j / factor + s r_j with
     * s = (n_j - low) / (high - low) between them */
    CT_ROPE_LLAMA3,
    /* f_j = s r_j / factor + (1 - s) r_j, with s = (j - a) / (b - a) limited to [0, 1]. a is the
     * real j with n_j = high, rounded down, but at least 0; b is the j with n_j = low, rounded up,
     * but at most dims - 1. With no_truncate neither is rounded. If b = a, then b = a + 0.001 */
    CT_ROPE_YARN,
    CT_ROPE_LONGROPE /* f_j = r_j / factors[j] */
} ct_rope_scaling;

/* Options that the formulas of the kind do not have must be 0. */
typedef struct {
    ct_rope_scaling kind;
    double base;             /* rope_theta; 0: 10000. CT_ROPE_YARN needs more than 1 */
    int64_t dims;            /* the turned dims of a row: even, at least 2 */
    double factor;           /* greater than 0 */
    int64_t original_length; /* original_max_position_embeddings */
    /* CT_ROPE_LLAMA3: low_freq_factor (0: 1) and high_freq_factor (0: 4); CT_ROPE_YARN: beta_slow
     * (0: 1) and beta_fast (0: 32) */
    double low, high;
    /* a factor of cosines and sines, of CT_ROPE_YARN and CT_ROPE_LONGROPE; the factor of the other
     * kinds is 1. 0: CT_ROPE_YARN has M(1), or M(mscale) / M(mscale_all_dim) if both are set, where
     * M(m) = 0.1 m ln(factor) + 1, or 1 if factor <= 1. CT_ROPE_LONGROPE has
     * sqrt(1 + ln(factor) / ln(original_length)), or 1 if factor <= 1; with an attention_factor
     * it needs neither factor nor original_length */
    double attention_factor;
    double mscale, mscale_all_dim; /* numbers of CT_ROPE_YARN's attention factor */
    bool no_truncate;              /* config.json has "truncate": false */
    const double *factors;         /* short_factor or long_factor: dims/2 numbers greater than 0 */
} ct_rope_scaling_opts;

/* Computes the fields `frequencies` (dims/2 numbers) and attention_factor of ct_rope_opts, in f64,
 * by the formulas of transformers. attention_factor may be NULL. If the function returns false,
 * nothing was written. */
CT_API bool ct_rope_frequencies(ct_context *context, ct_rope_scaling_opts opts, double *frequencies,
                                double *attention_factor);

/* ---- shapes ---- */

/* These ops take any dtype. They return views, which share the memory of x, with these exceptions:
 * ct_clone, ct_cast, ct_cat, ct_stack, ct_pad, ct_roll and ct_tril copy, and ct_contiguous,
 * ct_reshape and ct_combine_heads copy if no view is possible. */

/* Returns a view of x with another shape. One size of the shape may be -1; it is inferred. If the
 * strides of x do not allow a view, that is CT_ERR_SHAPE. */
CT_API ct_tensor *ct_view(ct_tensor *x, ct_shape shape);
/* Returns a view if the strides of x allow it, otherwise a copy. */
CT_API ct_tensor *ct_reshape(ct_tensor *x, ct_shape shape);
CT_API ct_tensor *ct_transpose(ct_tensor *x, int dim0, int dim1);
CT_API ct_tensor *ct_permute(ct_tensor *x, ct_shape dims);
CT_API ct_tensor *ct_split_heads(ct_tensor *x, int64_t num_heads); /* (B, T, E) -> (B, H, T, E/H) */
/* (B, H, T, d) -> (B, T, H d). The result is a view if the heads of a row are adjacent in memory.
 */
CT_API ct_tensor *ct_combine_heads(ct_tensor *x);
/* Elements start ... start + length - 1 of dim. A negative start counts from the end. */
CT_API ct_tensor *ct_narrow(ct_tensor *x, int dim, int64_t start, int64_t length);
/* The slice at one index of dim, without that dim. A negative index counts from the end. */
CT_API ct_tensor *ct_select(ct_tensor *x, int dim, int64_t index);
/* Repeats dims of size 1, and adds leading dims. A size of -1 in the shape keeps the size of x. */
CT_API ct_tensor *ct_expand(ct_tensor *x, ct_shape shape);
/* Removes dim if its size is 1; otherwise the result has the shape of x. */
CT_API ct_tensor *ct_squeeze(ct_tensor *x, int dim);
CT_API ct_tensor *ct_unsqueeze(ct_tensor *x, int dim); /* adds a dim of size 1 */
/* Returns a new handle of the same memory if x is contiguous, otherwise a row-major copy. */
CT_API ct_tensor *ct_contiguous(ct_tensor *x);
/* Returns a row-major copy. To copy into an existing tensor there is ct_copy_into (tensor.h). */
CT_API ct_tensor *ct_clone(ct_tensor *x);
/* Converts each element as a C cast does, to bool by != 0, to bf16 by rounding to nearest even. The
 * gradient flows only between f32 and f64. */
CT_API ct_tensor *ct_cast(ct_tensor *x, ct_dtype dtype);
/* Concatenates n tensors along an existing dim. The sizes of their other dims must be equal. */
CT_API ct_tensor *ct_cat(ct_tensor *const *tensors, int n, int dim);
/* Concatenates n tensors of one shape along a new dim. */
CT_API ct_tensor *ct_stack(ct_tensor *const *tensors, int n, int dim);
/* Adds `before` elements of this value before x along dim, and `after` such elements behind x. A
 * negative number removes elements of x instead. */
CT_API ct_tensor *ct_pad(ct_tensor *x, int dim, int64_t before, int64_t after, double value);
/* Shifts elements along dim. Elements that pass one end come back at the other end. */
CT_API ct_tensor *ct_roll(ct_tensor *x, int64_t shift, int dim);
/* Keeps element (i, j) of the last two dims if j <= i + diagonal, and sets the others to 0. */
CT_API ct_tensor *ct_tril(ct_tensor *x, int64_t diagonal);
/* Splits dim into n = ceil(s / size) views, where s is the size of dim, and stores them in out. The
 * last view may be shorter. */
CT_API bool ct_split(ct_tensor *x, int64_t size, int dim, ct_tensor **out, int n);

/* ---- attention ---- */

/* softmax(score + bias) v (Vaswani et al. 2017, arXiv:1706.03762), with q (B, H, T, d),
 * k (B, H_kv, S, d) and v (B, H_kv, S, d_v); H_kv divides H, and each group of H / H_kv query heads
 * shares a key head. Three dims (B, T, d) are one head, and two (T, d) one row of it; masks and
 * results then lack the same dims. The score is scale q k^T, or softcap tanh(scale q k^T /
 * softcap). All three have one dtype, or k and v are bf16 beside a q of f32, as in a cache of bf16
 * (ct_kv_cache_to_bf16). Results are then f32, with the bits that k and v cast to f32 give.
 *
 * A query sees a key if all fields that are given allow it: mask, key_mask, lengths, causal, window
 * and segments. Query t of batch b has the index i = t among the keys; with lower_right it is
 * i = n - T + t, n = lengths[b] or S, so that the last query has the index of the last key. A query
 * that sees no key gets zeros and a zero gradient. A NaN or an infinity in a key, a value or a bias
 * reaches no query that does not see the key. Tiles of queries and keys that causal, window,
 * lengths or segments hide are not computed: with a window time grows with T, not with T^2. */

/* A query sees `left` keys up to and with its own, and `right` keys from its own on: keys j with
 * i - left < j < i + right. 0: no limit on that side. A sliding window of w is {w}; 64 keys on each
 * side and the query's own are {65, 65}. */
typedef struct {
    int64_t left, right;
} ct_window;

typedef struct {
    /* bool, true if the query may see the key; (T, S), or a shape that broadcasts to
     * (B, H, T, S). A float mask is a bias; a bias beside it is CT_ERR_ARGUMENT */
    ct_tensor *mask;
    /* the number that is added to a score; float, (T, S) or a shape that broadcasts to
     * (B, H, T, S). -inf hides. It has a gradient */
    ct_tensor *bias;
    ct_tensor *key_mask; /* bool (B, S), false for padding */
    /* i64 (B): only keys j < lengths[b] are seen. A length outside [0, S] is CT_ERR_ARGUMENT */
    ct_tensor *lengths;
    /* i64 (B, T), S = T: a query sees only the keys that have its own number. Any numbers will do.
     * Tokens of one number need not be neighbours, but tiles are left out only if they are */
    ct_tensor *segments;
    ct_window window;
    bool causal;       /* query i sees keys 0 ... i, even if there are more keys than queries; for
                          keys of earlier calls see ct_kv_cache_append */
    bool lower_right;  /* the last query has the index of the last key, as above */
    double dropout;    /* the dropout of the weights, which is not limited to training */
    double scale;      /* 0: 1 / sqrt(d); or CT_ZERO */
    double softcap;    /* 0: none; otherwise a finite positive number */
    bool need_weights; /* the weights (B, H, T, S) are returned too */
    bool mean_weights; /* with need_weights, their mean over heads (B, T, S) is returned instead */
} ct_attention_opts;

typedef struct {
    /* the result (B, H, T, d_v). If q is the result of ct_split_heads, out has the same layout, and
     * ct_combine_heads of out is a view */
    ct_tensor *out;
    ct_tensor *weights; /* the weights after dropout; NULL unless need_weights */
} ct_attention_out;

CT_API ct_attention_out ct_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                     ct_attention_opts opts);
/* The attention of q, k and v that lie in one tensor, the result of one projection: x (B, T, 3E) =
 * [q | k | v], each with its heads side by side. The result is out (B, T, E). */
CT_API ct_attention_out ct_packed_attention(ct_tensor *x, int64_t num_heads,
                                            ct_attention_opts opts);

/* ---- drawing from logits (n, V) ---- */

/* ct_sample sets out[i] to an index that is drawn from row i of the logits. It takes a stream of
 * the generator, unless temperature is 0. The options apply in the order of transformers'
 * generate: temperature, top_k, top_p, min_p. */

typedef struct {
    double temperature; /* the divisor of the logits; 0: the index of the largest logit is chosen */
    int64_t top_k;      /* only the k largest logits are candidates; 0: all */
    /* only the smallest set of candidates whose probabilities sum to at least p is kept; 0: all */
    double top_p;
    /* only candidates whose probability is at least min_p times the largest are kept; 0: all */
    double min_p;
} ct_sample_opts;
CT_API bool ct_sample(ct_tensor *logits, ct_sample_opts opts, int64_t *out, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
