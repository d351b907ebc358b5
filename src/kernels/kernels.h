/* The table of kernels: loops over raw memory, one table for each ISA and dtype. A kernel knows no
 * tensor, no error and no thread. The same sources are compiled once for each ISA and each of f32
 * and f64 (real.c); the scalar tables are the specification that the others are tested against. i64
 * and bool have the kernels that make sense for them; the others are NULL, which an op reports as a
 * dtype that it does not take.
 *
 * Arrays are contiguous unless a stride is given; strides are in elements. An output may be one of
 * the inputs of the same dtype (the same address), else they do not overlap. void * points to the
 * table's dtype, `bool *` and `int64_t *` are themselves. n is any length, also 0. */
#ifndef CTI_KERNELS_KERNELS_H
#define CTI_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unary.h"

/* y[i] = f(x[i]) */
typedef void cti_unary(int64_t n, const void *x, void *y);
/* dx[i] = g[i] f'(...), from the op's input x or its output y, by the field's comment */
typedef void cti_unary_backward(int64_t n, const void *xy, const void *g, void *dx);
/* y[i] = f(x[i]) and dx[i] = g[i] f'(x[i]), the same bits as one by one; y or dx may be x or g */
typedef void cti_unary_both(int64_t n, const void *x, const void *g, void *y, void *dx);
/* y[i] = f(a[i sa], b[i sb]); sa and sb are 0 or 1. For the comparisons y is bool */
typedef void cti_binary(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y);
/* da[i] = g[i] df/da */
typedef void cti_binary_backward(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb,
                                 const void *g, void *da);
/* y[i] = f(x[i], a) */
typedef void cti_unary_scalar(int64_t n, const void *x, double a, void *y);
/* dx[i] = g[i] f'(x[i], a) */
typedef void cti_unary_scalar_backward(int64_t n, const void *x, double a, const void *g, void *dx);
/* y[i] = f(x[i], a) and dx[i] = g[i] f'(x[i], a), the same bits as one by one; y or dx may be x or
 * g */
typedef void cti_unary_scalar_both(int64_t n, const void *x, double a, const void *g, void *y,
                                   void *dx);
/* y[j] = reduction over i of x[i stride + j], i < n, j < inner. n = 0 gives 0 (sum). inner = 1 with
 * stride 1 is a row */
typedef void cti_reduce(int64_t n, int64_t inner, const void *x, int64_t stride, void *y);

typedef struct {
    uint64_t seed, stream;
} cti_random;

/* The arguments of layer_norm and rms_norm: rows of n elements, one behind the other. rms_norm
 * reads and writes neither b nor mean. */
typedef struct {
    int64_t rows, n;
    const void *x, *w, *b; /* w, b: n elements that all rows share, or NULL */
    double eps;
    void *y, *mean, *rstd; /* mean, rstd: one number for each row */
} cti_norm;

/* The arguments of their backward, for which rms_norm uses neither mean nor db. */
typedef struct {
    int64_t rows, n;
    const void *x, *w, *g, *mean, *rstd;
    const void *base; /* a gradient that dx is added to: NULL if none, or dx itself */
    void *dx, *dw,
        *db; /* dw, db: n elements, which the rows' sums are added to. Each may be NULL */
} cti_norm_backward;

/* The factors of cross_entropy_backward: scale of all; a and more of the softmax, b of the target's
 * 1, and c, which is subtracted from each element. */
typedef struct {
    double scale, softmax, more, target, each; /* scale, a, more, b, c */
} cti_loss_factors;

/* The arguments of bce_backward. The steps are 0 or 1; w NULL: 1; dx and dt may each be NULL. */
typedef struct {
    int64_t n;
    const void *x, *t, *w, *g;
    int64_t w_step, g_step;
    double scale; /* the factor of g */
    void *dx, *dt;
} cti_bce_backward;

/* One optimiser step's numbers. */
typedef struct {
    double lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale; /* bias: 1 - beta^t */
    /* AdamW's decay; else Adam's */
    bool decoupled;
} cti_adam_numbers;
typedef struct {
    double lr, momentum, dampening, weight_decay, grad_scale;
    bool nesterov, first;
} cti_sgd_numbers;

/* The data that all calls of a micro-kernel for one product, or one K block of it, have in common:
 * the length of K, the strides of A, B, C and the base (in elements), and alpha. */
typedef struct {
    int64_t k, a_row, a_col, b_row, row, col, base_row;
    double alpha;
} cti_gemm_params;

/* C (m, n) = alpha A (m, k) B (k, n), or C += with add, computed by dots or gemv. Element (i, j) of
 * A is at i a_row + j a_col, of B at i b_row + j b_col, of C at i row + j col. */
typedef struct {
    int64_t m, n, k, a_row, a_col, b_row, b_col, row, col;
    const void *a, *b;
    void *c;
    double alpha;
    bool add;
} cti_gemm_rows;

/* Numbers of the tuning table that inlined code and the size of an array need as constants. */
enum {
    CTI_GEMM_DEEP = 512, /* a product with K under this is one K block, on every ISA */
    /* Multiply-adds of a small product, at most: one thread has done them before another wakes. */
    CTI_GEMM_SMALL = 1 << 18,
    /* Bytes of B packed on the stack, at most: 16 cubed with B transposed 461 -> 360 cycles. */
    CTI_GEMM_STACK_B = 20 << 10,
    CTI_GEMM_ROUNDED_NR = 32, /* the largest nr of kernels that round */
};

/* A is packed if C has more panels of nr columns than the field for A's strides says. "Sets": at
 * how many different L1d sets columns, or rows, of A begin (src/core/cache_sets.h). */
typedef struct {
    int64_t strided;         /* columns more than a_stride_bytes apart, in over 16 sets */
    int64_t sets_16, sets_2; /* the same in 3 to 16 sets; in 1 or 2 */
    int64_t set_1_beyond_l2; /* the same in 1 set, a K block of columns spanning more than L2 */
    int64_t rows_set_1;      /* A dense along K, its rows in 1 set */
} cti_gemm_pack_a_panels;

/* When a product's operands are packed and how its work is shared (src/gemm/gemm_plan.c). The
 * values and their measurements are in gemm_tuning_tmpl.h. A tile is mr rows of C, a panel nr
 * columns; eighths are of a core's L2. */
typedef struct {
    /* The order of sums follows from these three: no cache and no thread may change them. */
    int64_t dots_max_m, dots_k_per_m, split_k_c_bytes;
    int64_t b_in_place_tiles, b_in_place_l2_eighths, b_rows_per_l1d_set;
    int64_t b_in_place_tiles_conflicts, b_conflict_offsets;
    int64_t b_panels_l2_eighths, b_shared_bytes, b_shared_tiles;
    int64_t a_stride_bytes, a_l2_eighths, a_task_tiles;
    int64_t a_few_ways;
    cti_gemm_pack_a_panels a_panels[2]; /* with an L1d of up to a_few_ways, and of more */
    int64_t task_flops, tasks_per_thread;
    double min_useful;
    int64_t row_task_flops, gemv_task_columns, dots_columns, dots_tasks_per_thread,
        zero_task_elements, sum_task_elements;
    int64_t mc_min_tiles, nc_min_panels, mc_min_tiles_private_b, split_k_pass_bytes;
    /* The least M and N, and the least number of multiply-adds, of a product whose operands are
     * rounded; used only by kernels that round. */
    int64_t rounded_lines, rounded_flops;
} cti_gemm_tuning;

/* C = A B or C += A B: the kernels that src/gemm calls. The micro-kernels are not here: the
 * macro-kernel runs them over tiles of C. */
typedef struct {
    int64_t mr, nr;           /* the micro-kernel's tile of C */
    int64_t lanes, mr_narrow; /* a tile of at most `lanes` columns has up to mr_narrow rows */
    /* The longest K block, at least CTI_GEMM_DEEP except in kernels that round. It is a constant,
     * because no sum may depend on caches or threads. */
    int64_t kc;
    cti_gemm_tuning tuning;
    /* A packed panel has packed_bytes for each k of a row of A or a column of B. K is padded with
     * zeros to a multiple of k_unit, a power of two. */
    int64_t packed_bytes, k_unit;
    /* A thread calls begin before, and end after, its calls of the macro-kernel; NULL if there is
     * nothing to do. */
    void (*begin)(void), (*end)(void);
    /* Lowers *least to the bits of the least magnitude of n numbers that is not 0, and raises *most
     * to the bits of the greatest. The smallest piece of a product must not vanish and no sum may
     * overflow: cti_gemm_in_range. NULL unless the kernels split operands into pieces (bf16x3,
     * bf16x6). */
    void (*magnitudes)(int64_t n, const void *x, int64_t step, uint32_t *least, uint32_t *most);
    /* Packs m x k of A as panels of k columns of mr, the last one zero-padded; k x n of B as panels
     * of k rows of nr. The matrix is of the table's dtype, the panels are of the computed type. */
    void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t row_stride, int64_t col_stride,
                   void *packed);
    void (*pack_b)(int64_t k, int64_t n, const void *b, int64_t row_stride, int64_t col_stride,
                   void *packed);
    /* The macro-kernel: C[m x n] = base + alpha A B, any m and n. A has any strides; of packed A
     * one panel is given (row stride 1, column stride mr, m at most mr). B is panels of nr columns,
     * `panel` bytes apart, with dense rows; of B in place panel is nr elements, of packed B the
     * rows are nr apart. base is NULL (zero), C itself, or one row for all rows of C (base_row 0);
     * its columns have C's stride. All are of the computed type. */
    void (*macro_kernel)(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                         const void *b, int64_t panel, const void *base, void *c);
    /* Products for which nothing is packed. dots computes any m and n by dot products of A's rows
     * and B's columns, both dense along K. gemv computes one row, m = 1, for k <= kc and any
     * strides. B is of the table's dtype, A and C are of the computed type. */
    void (*dots)(const cti_gemm_rows *), (*gemv)(const cti_gemm_rows *);
} cti_gemm_kernels;

/* Bytes that K takes in a panel, for each of its rows of A or columns of B. */
static inline int64_t cti_gemm_packed(const cti_gemm_kernels *kernels, int64_t k) {
    return ((k + kernels->k_unit - 1) & -kernels->k_unit) * kernels->packed_bytes;
}

/* The work of attention on scores between its matrix products (ops/attention/). A score panel has
 * rows of gemm.nr numbers (lanes), of which the first `width` are computed: `lanes` or gemm.nr.
 * Scores are divided by log 2, so that a weight is 2^score before it is normalised. max, sum,
 * inverse_sum and dot have one number for each query. */
typedef struct {
    int64_t lanes; /* the lanes of a vector */

    /* panel += bias / log 2, and -inf where the bias is -inf. Rows of the bias are bias_row apart:
     * nr, or 0 for one row that is added to all */
    void (*add_bias)(int64_t rows, int64_t width, void *panel, const void *bias, int64_t bias_row);
    /* row i: -inf in lanes >= first + i; with `before`, in lanes < first + i instead */
    void (*mask_causal)(int64_t rows, int64_t width, int64_t first, bool before, void *panel);
    /* y[i] = mask[i stride] ? 0 : -inf */
    void (*mask_to_bias)(int64_t n, const bool *mask, int64_t stride, void *y);

    /* Panels whose rows are keys and whose lanes are queries. With m = max(max, s) over all rows:
     * s = 2^(s - m), sum = sum 2^(max - m) + the sum of s, out[query][d] *= 2^(max - m), max = m.
     * Returns whether any sum was not 0 before the call. If none was, out is not read or written:
     * it is still undefined */
    bool (*online_softmax_update)(int64_t keys, int64_t width, void *panel, void *max, void *sum,
                                  int64_t d, void *out);
    /* y[i] = out[i] / sum[i], then sum[i] = 1 / sum[i]. A query that attends to nothing, sum 0,
     * gets zeros in all three: y[i], sum[i], max[i]. out's rows are d apart. Returns whether any
     * y[i] has a NaN */
    bool (*online_softmax_finalize)(int64_t queries, int64_t d, void *max, void *sum,
                                    const void *out, void *y, int64_t y_row);

    /* Panels whose rows are queries and whose lanes are keys. p = 2^(s - max) inverse_sum replaces
     * s, and ds = p (dp - dot), 0 where p is 0 or 1; ds's rows are ds_row apart */
    void (*softmax_backward)(int64_t queries, int64_t width, void *s, const void *dp,
                             const void *max, const void *inverse_sum, const void *dot, void *ds,
                             int64_t ds_row);
    /* s = 2^(s - max) inverse_sum factor */
    void (*softmax_from_stats)(int64_t queries, int64_t width, void *s, const void *max,
                               const void *inverse_sum, double factor);

    /* y[i] = <a[i], b[i]> */
    void (*row_dots)(int64_t rows, int64_t n, const void *a, int64_t a_row, const void *b,
                     int64_t b_row, void *y);
} cti_attention_kernels;

typedef struct cti_kernels {
    /* ---- elementwise ---- */
#define CTI_FIELD(name, ...) cti_unary *name;
#define CTI_FIELDS(name, ...)                                                                      \
    cti_unary *name;                                                                               \
    cti_unary_backward *name##_backward;
#define CTI_SCALAR_FIELD(name, ...) cti_unary_scalar *name;
#define CTI_SCALAR_FIELDS(name, ...)                                                               \
    cti_unary_scalar *name;                                                                        \
    cti_unary_scalar_backward *name##_backward;
#define CTI_BOTH_FIELD(name)        cti_unary_both *name##_both;
#define CTI_SCALAR_BOTH_FIELD(name) cti_unary_scalar_both *name##_both;
    CTI_UNARY_KERNELS(CTI_FIELD, CTI_FIELDS, CTI_FIELDS, CTI_FIELDS)
    CTI_SCALAR_KERNELS(CTI_SCALAR_FIELD, CTI_SCALAR_FIELDS, CTI_SCALAR_FIELDS)
    CTI_BOTH_KERNELS(CTI_BOTH_FIELD)
    CTI_SCALAR_BOTH_KERNELS(CTI_SCALAR_BOTH_FIELD)
#undef CTI_FIELD
#undef CTI_FIELDS
#undef CTI_SCALAR_FIELD
#undef CTI_SCALAR_FIELDS
#undef CTI_BOTH_FIELD
#undef CTI_SCALAR_BOTH_FIELD
    cti_binary *add, *sub, *mul, *div, *maximum, *minimum;
    /* a tie takes g / 2; NaN passes g */
    cti_binary_backward *maximum_backward, *minimum_backward;
    cti_binary *eq, *ne, *lt, *le, *gt, *ge;
    cti_binary *logical_and, *logical_or; /* bool's table only */
    cti_unary *logical_not;
    /* NaN stays; of bounds that cross the upper one wins. g where low <= x <= high, else 0 */
    void (*clamp)(int64_t n, const void *x, double low, double high, void *y);
    void (*clamp_backward)(int64_t n, const void *x, double low, double high, const void *g,
                           void *dx);
    void (*where)(int64_t n, const bool *cond, int64_t sc, const void *a, int64_t sa, const void *b,
                  int64_t sb, void *y);
    void (*fill)(int64_t n, double value, void *y);
    /* y[i] = start + (begin + i) step */
    void (*arange)(int64_t n, int64_t begin, double start, double step, void *y);
    void (*axpy)(int64_t n, double a, const void *x, void *y); /* y += a x */
    /* y[i] = x[i] + w (e[i] - x[i]), or where |w| >= 1/2 e[i] - (1 - w)(e[i] - x[i]), e[i] being
     * end[i se]; se is 0 or 1 */
    void (*lerp)(int64_t n, const void *x, const void *end, int64_t se, double w, void *y);
    /* y = x, or y += x; an m x n block, element (i, j) at i row + j col */
    void (*copy2d)(int64_t m, int64_t n, const void *x, int64_t x_row, int64_t x_col, void *y,
                   int64_t y_row, int64_t y_col, bool add);
    /* casts from this dtype to the ct_dtype of the index by C's rules; to bool: != 0, to bf16: to
     * nearest even */
    void (*cast[5])(int64_t n, const void *x, void *y);

    /* ---- reductions; sums keep the error of a pairwise sum or better ---- */
    /* short rows */
    void (*sum_rows)(int64_t rows, int64_t n, const void *x, void *y),
        (*max_rows)(int64_t rows, int64_t n, const void *x, void *y);
    cti_reduce *sum;    /* bool: the count of true, int64_t */
    cti_reduce *max;    /* n >= 1; NaN wins */
    cti_reduce *min;    /* n >= 1; NaN wins; max_backward is its backward too */
    cti_reduce *argmax; /* n >= 1; int64_t; the first of equals; the first NaN wins */
    /* share[i stride + j] = g[j] / count where x[i stride + j] == y[j] (both NaN counts as equal),
     * count over i; else 0 */
    void (*max_backward)(int64_t n, int64_t inner, const void *x, int64_t stride, const void *y,
                         const void *g, void *dx);
    /* y[i stride + j] = the sum of x[k stride + j] over k <= i; reverse: over k >= i. y may be x */
    void (*cumsum)(int64_t n, int64_t inner, const void *x, int64_t stride, bool reverse, void *y);
    /* the mean of each column j, and the sum of squares about it; n = 0: zeros */
    void (*moments)(int64_t n, int64_t inner, const void *x, int64_t stride, double *mean,
                    double *squares);
    /* dx[i stride + j] = factor g[j] (x[i stride + j] - mean[j]) */
    void (*var_backward)(int64_t n, int64_t inner, const void *x, int64_t stride,
                         const double *mean, const void *g, double factor, void *dx);
    double (*sum_squares)(int64_t n, const void *x); /* accumulated in f64 */
    bool (*has_nan)(int64_t n, const void *x);
    bool (*is_finite)(int64_t n, const void *x); /* an infinity is not */

    /* ---- one row of length n ---- */
    /* a row of all -inf gives NaN, as torch */
    cti_unary *softmax, *log_softmax;
    /* the same of columns: element i of column j is at i stride + j, j < inner */
    void (*softmax_columns)(int64_t n, int64_t inner, const void *x, int64_t stride, void *y);
    void (*softmax_columns_backward)(int64_t n, int64_t inner, const void *y, const void *g,
                                     int64_t stride, void *dx);
    /* dx from y: y (g - <g, y>); g - e^y sum g */
    cti_unary_backward *softmax_backward, *masked_softmax_backward, *log_softmax_backward;
    /* sk 0 or 1; nothing kept, or all -inf: zeros. x is not read where keep is false */
    void (*masked_softmax)(int64_t n, const void *x, const bool *keep, int64_t sk, void *y);
    /* one value for each row of n; all -inf: -inf; and, unless max is NULL, the row's max and
     * inverse = 1 / sum e^(x - max) */
    void (*logsumexp)(int64_t rows, int64_t n, const void *x, void *y, void *max, void *inverse);
    /* g softmax(x); all -inf: 0 */
    void (*logsumexp_backward)(int64_t n, const void *x, const void *max, const void *inverse,
                               const void *g, void *dx);
    /* y = xhat w + b: xhat = (x - mean) rstd, and xhat = x rstd. norm_tmpl.h has the formulas */
    void (*layer_norm)(const cti_norm *), (*rms_norm)(const cti_norm *);
    void (*layer_norm_backward)(const cti_norm_backward *);
    void (*rms_norm_backward)(const cti_norm_backward *);
    /* for each row of n: loss = lse - (1 - s) x[target] - s mean(x), 0 if the target is negative;
     * the row's max, and 1 / sum e^(x - max) */
    void (*cross_entropy)(int64_t rows, int64_t n, const void *x, const int64_t *target,
                          double smoothing, void *loss, void *max, void *inverse);
    /* dx = scale ((a + more) softmax(x) - b onehot - c) */
    void (*cross_entropy_backward)(int64_t n, const void *x, int64_t target, const void *max,
                                   const void *inverse, const cti_loss_factors *factors, void *dx);
    /* sum w[i] (x[at] - x[i]) */
    double (*weighted_gap)(int64_t n, const void *x, const void *w, int64_t at);
    /* (1 - t) x + (1 + (w - 1) t) log(1 + e^-x); w NULL: 1; sw is 0 or 1 */
    void (*bce)(int64_t n, const void *x, const void *t, const void *w, int64_t sw, void *y);
    void (*bce_backward)(const cti_bce_backward *);
    cti_binary *kl_div, *kl_div_log; /* y = t (log t - x);  e^t (t - x) */
    /* log t + t / t, log 0 = 0: the slope of t log t, as torch has it */
    cti_unary *entropy_slope;
    /* pairs (j, j + n/2) or interleaved (2j, 2j + 1) turned by the angle whose cos and sin are
     * given, n/2 each; sign -1 turns back */
    void (*rope)(int64_t n, const void *x, const void *cos, const void *sin, bool interleaved,
                 double sign, void *y);

    /* ---- random: element start + i of the stream. The same bits on every ISA ---- */
    void (*uniform)(int64_t n, int64_t start, cti_random, double low, double high, void *y);
    void (*normal)(int64_t n, int64_t start, cti_random, double mean, double std, void *y);
    /* 0 with probability p, else x / (1 - p) */
    void (*dropout)(int64_t n, int64_t start, cti_random, double p, const void *x, void *y);

    /* ---- optimisers, in place; g is multiplied by grad_scale first ---- */
    void (*adam)(int64_t n, void *p, const void *g, void *m, void *v, const cti_adam_numbers *);
    /* buffer may be NULL without momentum */
    void (*sgd)(int64_t n, void *p, const void *g, void *buffer, const cti_sgd_numbers *);

    cti_gemm_kernels gemm;
    /* f32's table only: the same with a B of bf16 in pack_b, dots and gemv; A and C are f32. The
     * macro-kernel reads only packed panels. Each has the bits of gemm with the same numbers of B
     * in f32. */
    cti_gemm_kernels gemm_of_bf16;
    /* f32's table only: products of f32 whose operands are rounded while they are packed, to bf16,
     * or to sums of two or three bf16 of which three or six products are computed (ct_set_matmul).
     * Panels are of bf16, C of f32. The macro-kernel reads only packed panels; dots and gemv are
     * NULL. NULL: not faster than gemm on this instruction set. */
    const cti_gemm_kernels *bf16, *bf16x3, *bf16x6;
    cti_attention_kernels attention;
} cti_kernels;

/* A source of kernels has one function, which puts its kernels into a table. The sources that are
 * compiled once for each ISA and real dtype name it by CTI_SET: cti_unary_avx2_f32. */
#define CTI_PUT(source)           CTI_PUT_BY(source, CTI_SET)
#define CTI_PUT_BY(source, set)   CTI_PUT_NAME(source, set)
#define CTI_PUT_NAME(source, set) cti_##source##_##set

/* The tables of dtypes that have one for all ISAs. */
void cti_kernels_i64(cti_kernels *table);
void cti_kernels_bool(cti_kernels *table);
void cti_kernels_bf16(cti_kernels *table);

#endif
