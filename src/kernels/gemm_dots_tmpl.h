/* Products of few rows without packing: dot products along K (A and B dense along K), and gemv, a
 * row times a matrix. A and B are of the stored type, C is of the computed type. */
#ifndef CTI_KERNELS_GEMM_DOTS_TMPL_H
#define CTI_KERNELS_GEMM_DOTS_TMPL_H

#include "gemm_vec_tmpl.h"

/* ---- dot products ---- */

/* A tile is DOT_ROWS rows of A by DOT_COLS columns of B. Its accumulators are vectors of partial
 * sums along K, whose lanes are added at the end. */

/* Lane i of the result is the sum of x[i]'s lanes, added in the same order for each i. x is
 * overwritten. */
INLINE gemm_vec gemm_sums(gemm_vec x[LANES]) {
#if CTI_VECTOR_BYTES
    UNROLL
    for (int half = LANES / 2; half > 0; half /= 2) {
        UNROLL
        for (int i = 0; i < half; i++)
            x[i] = INTERLEAVE_LOW(x[i], x[i + half]) + INTERLEAVE_HIGH(x[i], x[i + half]);
    }
#endif
    return x[0];
}

/* sum[i][j] += a[i] b[j] lane by lane: one vector of K, or its first n lanes where masked. */
INLINE void gemm_dots_step(const int rows, const bool masked, int64_t n, const stored *a,
                           int64_t a_row, const stored *const b[DOT_COLS], int64_t p,
                           gemm_vec *sum) {
    gemm_vec bp[DOT_COLS];
    UNROLL
    for (int j = 0; j < DOT_COLS; j++) bp[j] = gemm_load_if(b[j] + p, masked, n);
    UNROLL
    for (int i = 0; i < rows; i++) {
        gemm_vec x = gemm_load_if(a + i * a_row + p, masked, n);
        UNROLL
        for (int j = 0; j < DOT_COLS; j++) sum[i * DOT_COLS + j] += x * bp[j];
    }
}

/* rows is a compile-time constant of the caller. If n < DOT_COLS, the first column is computed
 * again in place of the missing ones, and not stored. */
INLINE void gemm_dots_tile(const int rows, int64_t n, int64_t k, const stored *a, int64_t a_row,
                           const stored *b, int64_t b_col, real alpha, bool add, real *c,
                           int64_t row, int64_t col) {
    enum { ALL = (DOT_ROWS * DOT_COLS + LANES - 1) / LANES * LANES };
    gemm_vec sum[ALL] = {0};
    const stored *columns[DOT_COLS];
    real out[ALL];
    int64_t p = 0;
    UNROLL
    for (int j = 0; j < DOT_COLS; j++) columns[j] = j < n ? b + j * b_col : b;
    for (; p + LANES <= k; p += LANES)
        gemm_dots_step(rows, false, LANES, a, a_row, columns, p, sum);
    if (p < k) gemm_dots_step(rows, true, k - p, a, a_row, columns, p, sum);
    UNROLL
    for (int i = 0; i < rows * DOT_COLS; i += LANES) gemm_store(out + i, gemm_sums(sum + i));
    for (int i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            real *to = c + i * row + j * col, x = alpha * out[i * DOT_COLS + j];
            *to = add ? *to + x : x;
        }
    }
}

static void gemm_dots(int64_t m, int64_t n, int64_t k, const void *a_, int64_t a_row,
                      const void *b_, int64_t b_col, double alpha, bool add, void *c_, int64_t row,
                      int64_t col) {
    const int64_t blocks = (m + DOT_ROWS - 1) / DOT_ROWS, share = (m + blocks - 1) / blocks;
    for (int64_t j = 0; j < n; j += DOT_COLS) {
        const int64_t columns = n - j < DOT_COLS ? n - j : DOT_COLS;
        const stored *b = (const stored *)b_ + j * b_col;
        for (int64_t i = 0; i < m; i += share) {
            const stored *a = (const stored *)a_ + i * a_row;
            real *c = (real *)c_ + i * row + j * col;
#define DOTS(rows)                                                                                 \
    case rows:                                                                                     \
        if ((rows) <= DOT_ROWS)                                                                    \
            gemm_dots_tile(rows, columns, k, a, a_row, b, b_col, (real)alpha, add, c, row, col);   \
        break
            switch (m - i < share ? m - i : share) {
                DOTS(1);
                DOTS(2);
                DOTS(3);
                DOTS(4);
                DOTS(5);
                DOTS(6);
            }
#undef DOTS
        }
    }
}

/* ---- gemv ---- */

/* y = alpha x B, or y += with add, for `count` vectors of columns. Columns are dense. */
INLINE void gemv_columns(const int count, int64_t k, const stored *x, const stored *b,
                         int64_t b_row, real alpha, bool add, real *y) {
    gemm_vec sum[GEMV_VECTORS] = {0};
    for (int64_t p = 0; p < k; p++, b += b_row) {
        UNROLL
        for (int j = 0; j < count; j++) sum[j] += get(x + p) * gemm_load(b + j * LANES);
    }
    UNROLL
    for (int j = 0; j < count; j++) {
        real *to = y + j * LANES;
        gemm_store(to, add ? gemm_load(to) + alpha * sum[j] : alpha * sum[j]);
    }
}

static void gemm_gemv(int64_t n, int64_t k, const void *x_, int64_t x_stride, const void *b_,
                      int64_t b_row, int64_t b_col, double alpha_, bool add, void *y_,
                      int64_t y_stride) {
    const stored *x = x_, *b = b_;
    const real alpha = (real)alpha_;
    stored dense[KC];
    real *y = y_;
    if (x_stride != 1) {
        for (int64_t p = 0; p < k; p++) dense[p] = x[p * x_stride];
        x = dense;
    }
    int64_t j = 0;
    if (b_col == 1 && y_stride == 1) {
        for (; j + GEMV_VECTORS * LANES <= n; j += GEMV_VECTORS * LANES)
            gemv_columns(GEMV_VECTORS, k, x, b + j, b_row, alpha, add, y + j);
        for (; j + LANES <= n; j += LANES) gemv_columns(1, k, x, b + j, b_row, alpha, add, y + j);
    } else if (b_row == 1) {
        gemm_dots(1, n, k, x, 0, b, b_col, alpha, add, y, 0, y_stride);
        return;
    }
    for (; j < n; j++) {
        real sum = 0;
        for (int64_t p = 0; p < k; p++) sum += get(x + p) * get(b + p * b_row + j * b_col);
        y[j * y_stride] = add ? y[j * y_stride] + alpha * sum : alpha * sum;
    }
}

#endif
