/* Loops along the first dim of an array (n, inner), whose element (i, j) is at i stride + j:
 * running sums, and means with the sums of squares about them. Both dtypes are computed in f64. */
#ifndef CTI_KERNELS_SCAN_TMPL_H
#define CTI_KERNELS_SCAN_TMPL_H

#include "simd.h"

/* The rounding errors of the additions are added up too (Neumaier 1974), so the error of a sum does
 * not grow with its length. */
static void scan_cumsum(int64_t n, int64_t inner, const void *x, int64_t stride, bool reverse,
                        void *y) {
    enum { BLOCK = 64 };
    const stored *from = x;
    stored *to = y;
    for (int64_t j = 0; j < inner; j += BLOCK) {
        const int width = inner - j < BLOCK ? (int)(inner - j) : BLOCK;
        double sum[BLOCK] = {0}, lost[BLOCK] = {0};
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = (reverse ? n - 1 - k : k) * stride + j;
            for (int c = 0; c < width; c++) {
                const double a = sum[c], b = (double)get_one(from + at + c), s = a + b,
                             of_b = s - a, off = (a - (s - of_b)) + (b - of_b);
                sum[c] = s;
                lost[c] += off - off == 0 ? off : 0; /* the error is NaN if a sum is infinite */
                put_one(to + at + c, (real)(s + lost[c]));
            }
        }
    }
}

/* A count of numbers, their mean and the sum of their squares about it. */
typedef struct {
    double count, mean, squares;
} moment_sums;

/* Returns the moments of the two sets together (Chan, Golub, LeVeque 1983). */
static inline moment_sums moment_plus(moment_sums a, moment_sums b) {
    const double count = a.count + b.count, apart = b.mean - a.mean;
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    return (moment_sums){count, a.mean + apart * (b.count / count),
                         a.squares + b.squares + apart * apart * (a.count * b.count / count)};
}

/* Adds the moments of columns [0, width) of n <= 128 rows to `all`. The mean is computed first,
 * then the squares about it. */
enum { MOMENT_ROWS = 128, MOMENT_COLUMNS = 16 };
INLINE void moments_of_block(int64_t n, int width, const stored *x, int64_t stride,
                             moment_sums *all) {
    double sum[MOMENT_COLUMNS] = {0}, squares[MOMENT_COLUMNS] = {0}, rest[MOMENT_COLUMNS] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < width; c++) sum[c] += (double)get_one(x + i * stride + c);
    for (int c = 0; c < width; c++) sum[c] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < width; c++) {
            const double d = (double)get_one(x + i * stride + c) - sum[c];
            squares[c] += d * d, rest[c] += d;
        }
    for (int c = 0; c < width; c++) /* rest: n times the rounding error of the mean */
        all[c] = moment_plus(all[c], (moment_sums){(double)n, sum[c] + rest[c] / (double)n,
                                                   squares[c] - rest[c] * rest[c] / (double)n});
}
INLINE void moments_of_columns(int64_t n, int width, const stored *x, int64_t stride,
                               moment_sums *all) {
    for (int c = 0; c < width; c++) all[c] = (moment_sums){0, 0, 0};
    for (int64_t i = 0; i < n; i += MOMENT_ROWS) {
        const int64_t rows = n - i < MOMENT_ROWS ? n - i : MOMENT_ROWS;
        if (width == MOMENT_COLUMNS)
            moments_of_block(rows, MOMENT_COLUMNS, x + i * stride, stride, all);
        else moments_of_block(rows, width, x + i * stride, stride, all);
    }
}

static void scan_moments(int64_t n, int64_t inner, const void *x, int64_t stride, double *mean,
                         double *squares) {
    const stored *from = x;
    moment_sums all[MOMENT_COLUMNS];
    if (inner == 1 && stride == 1) { /* a row: rows of MOMENT_COLUMNS columns, and a rest */
        moment_sums sum = {0, 0, 0}, left;
        moments_of_columns(n / MOMENT_COLUMNS, MOMENT_COLUMNS, from, MOMENT_COLUMNS, all);
        for (int c = 0; c < MOMENT_COLUMNS; c++) sum = moment_plus(sum, all[c]);
        const int64_t whole_rows = n - n % MOMENT_COLUMNS;
        moments_of_columns(n - whole_rows, 1, from + whole_rows, 1, &left);
        sum = moment_plus(sum, left);
        *mean = sum.mean, *squares = sum.squares;
        return;
    }
    for (int64_t j = 0; j < inner; j += MOMENT_COLUMNS) {
        const int width = inner - j < MOMENT_COLUMNS ? (int)(inner - j) : MOMENT_COLUMNS;
        moments_of_columns(n, width, from + j, stride, all);
        for (int c = 0; c < width; c++) mean[j + c] = all[c].mean, squares[j + c] = all[c].squares;
    }
}

static void scan_var_backward(int64_t n, int64_t inner, const void *x, int64_t stride,
                              const double *mean, const void *g, double factor, void *dx) {
    const stored *from = x, *cotangent = g;
    stored *to = dx;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) {
            const double d = (double)get_one(from + i * stride + j) - mean[j];
            put_one(to + i * stride + j, (real)(d * (factor * (double)get_one(cotangent + j))));
        }
}

#endif
