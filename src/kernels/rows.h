/* The kernels of rows.c: reductions, softmax, norms, losses and rotations of rows and columns. */
#ifndef CTI_KERNELS_ROWS_H
#define CTI_KERNELS_ROWS_H

#include "kernels.h"

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

/* cross_entropy_backward computes dx = scale ((a + more) softmax(x) - b onehot - c). These are its
 * factors. */
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

struct cti_row_kernels {
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
};

#endif
