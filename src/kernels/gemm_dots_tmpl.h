/* Products of few rows without packing: dot products along K (A and B dense along K), and gemv, a
 * row times a matrix. B is of the stored type or of bf16, A and C are of the computed type. What a
 * B of bf16 does is what the same numbers in f32 do, bit for bit: only its loads differ. */
#ifndef CTI_KERNELS_GEMM_DOTS_TMPL_H
#define CTI_KERNELS_GEMM_DOTS_TMPL_H

#include "gemm_source_tmpl.h"

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
INLINE void gemm_dots_step(const gemm_source of, const int rows, const bool masked, int64_t n,
                           const real *a, int64_t a_row, const char *const b[DOT_COLS], int64_t p,
                           gemm_vec *sum) {
    gemm_vec bp[DOT_COLS];
    UNROLL
    for (int j = 0; j < DOT_COLS; j++) bp[j] = gemm_load_b(of, b[j], p, masked, n);
    UNROLL
    for (int i = 0; i < rows; i++) {
        gemm_vec x = gemm_load_if(a + i * a_row + p, masked, n);
        UNROLL
        for (int j = 0; j < DOT_COLS; j++) sum[i * DOT_COLS + j] += x * bp[j];
    }
}

/* Prefetches, of each column of the tile after this one, the cache line of element p. The columns
 * are as many streams as the hardware prefetcher has to find anew for each tile. For bf16 only: f32
 * was not faster for it (docs/performance.md, Decoding). */
INLINE void gemm_dots_prefetch(const char *const b[DOT_COLS], int64_t at, int64_t b_bytes) {
    UNROLL
    for (int j = 0; j < DOT_COLS; j++) __builtin_prefetch(b[j] + DOT_COLS * b_bytes + at);
}

/* rows is a compile-time constant of the caller. If n < DOT_COLS, the first column is computed
 * again in place of the missing ones, and not stored. */
INLINE void gemm_dots_tile(const gemm_source of, const int rows, int64_t n, int64_t k,
                           const real *a, int64_t a_row, const char *b, int64_t b_bytes, real alpha,
                           bool add, bool ahead, real *c, int64_t row, int64_t col) {
    enum { ALL = (DOT_ROWS * DOT_COLS + LANES - 1) / LANES * LANES };
    gemm_vec sum[ALL] = {0};
    const char *columns[DOT_COLS];
    real out[ALL];
    int64_t p = 0;
    UNROLL
    for (int j = 0; j < DOT_COLS; j++) columns[j] = j < n ? b + j * b_bytes : b;
    for (; p + LANES <= k; p += LANES) {
        const int64_t at = p * gemm_source_size(of);
        if (of == OF_BF16 && ahead && at % 64 == 0) gemm_dots_prefetch(columns, at, b_bytes);
        gemm_dots_step(of, rows, false, LANES, a, a_row, columns, p, sum);
    }
    if (p < k) gemm_dots_step(of, rows, true, k - p, a, a_row, columns, p, sum);
    UNROLL
    for (int i = 0; i < rows * DOT_COLS; i += LANES) gemm_store(out + i, gemm_sums(sum + i));
    for (int i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            real *to = c + i * row + j * col, x = alpha * out[i * DOT_COLS + j];
            *to = add ? *to + x : x;
        }
    }
}

INLINE void gemm_dots_of(const gemm_source of, int64_t m, int64_t n, int64_t k, const real *a_,
                         int64_t a_row, const char *b, int64_t b_col, real alpha, bool add,
                         real *c_, int64_t row, int64_t col) {
    const int64_t blocks = (m + DOT_ROWS - 1) / DOT_ROWS, share = (m + blocks - 1) / blocks,
                  b_bytes = b_col * gemm_source_size(of);
    for (int64_t j = 0; j < n; j += DOT_COLS, b += DOT_COLS * b_bytes) {
        const int64_t columns = n - j < DOT_COLS ? n - j : DOT_COLS;
        for (int64_t i = 0; i < m; i += share) {
            const real *a = a_ + i * a_row;
            real *c = c_ + i * row + j * col;
#define DOTS(rows)                                                                                 \
    case rows:                                                                                     \
        if ((rows) <= DOT_ROWS)                                                                    \
            gemm_dots_tile(of, rows, columns, k, a, a_row, b, b_bytes, alpha, add, i == 0, c, row, \
                           col);                                                                   \
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
INLINE void gemv_columns(const gemm_source of, const int count, int64_t k, const real *x,
                         const char *b, int64_t b_bytes, real alpha, bool add, real *y) {
    gemm_vec sum[GEMV_VECTORS] = {0};
    for (int64_t p = 0; p < k; p++, b += b_bytes) {
        UNROLL
        for (int j = 0; j < count; j++)
            sum[j] += x[p] * gemm_load_b(of, b, j * LANES, false, LANES);
    }
    UNROLL
    for (int j = 0; j < count; j++) {
        real *to = y + j * LANES;
        gemm_store(to, add ? gemm_load(to) + alpha * sum[j] : alpha * sum[j]);
    }
}

/* The sum of x[p] b[p step]. A B of bf16 is converted first and must have the same bits, so the
 * loop is not inlined, and an asm keeps GCC from a version of it for step 1 that multiplies
 * vectors, where the other makes FMAs (on aarch64). */
__attribute__((noinline)) static real gemv_plain(int64_t k, const real *x, const stored *b,
                                                 int64_t step) {
    real sum = 0;
    for (int64_t p = 0; p < k; p++) {
        __asm__("");
        sum += x[p] * get(b + p * step);
    }
    return sum;
}

/* One column of any strides. */
INLINE real gemv_column(const gemm_source of, int64_t k, const real *x, const char *b,
                        int64_t step) {
#ifndef CTI_F64_KERNELS
    if (of == OF_BF16) {
        real wide[KC];
        for (int64_t p = 0; p < k; p++) wide[p] = gemm_get_b(of, b, p * step);
        return gemv_plain(k, x, wide, 1);
    }
#endif
    (void)of;
    return gemv_plain(k, x, (const stored *)(const void *)b, step);
}

INLINE void gemm_gemv_of(const gemm_source of, int64_t n, int64_t k, const real *x,
                         int64_t x_stride, const char *b, int64_t b_row, int64_t b_col, real alpha,
                         bool add, real *y, int64_t y_stride) {
    const int64_t size = gemm_source_size(of);
    real dense[KC];
    if (x_stride != 1) {
        for (int64_t p = 0; p < k; p++) dense[p] = x[p * x_stride];
        x = dense;
    }
    int64_t j = 0;
    if (b_col == 1 && y_stride == 1) {
        for (; j + GEMV_VECTORS * LANES <= n; j += GEMV_VECTORS * LANES)
            gemv_columns(of, GEMV_VECTORS, k, x, b + j * size, b_row * size, alpha, add, y + j);
        for (; j + LANES <= n; j += LANES)
            gemv_columns(of, 1, k, x, b + j * size, b_row * size, alpha, add, y + j);
    } else if (b_row == 1) {
        gemm_dots_of(of, 1, n, k, x, 0, b, b_col, alpha, add, y, 0, y_stride);
        return;
    }
    for (; j < n; j++) {
        const real sum = gemv_column(of, k, x, b + j * b_col * size, b_row);
        y[j * y_stride] = add ? y[j * y_stride] + alpha * sum : alpha * sum;
    }
}

/* ---- the kernels, for each type of B ---- */

#define GEMM_DOTS_OF(name, of)                                                                     \
    static void gemm_dots##name(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row,     \
                                const void *b, int64_t b_col, double alpha, bool add, void *c,     \
                                int64_t row, int64_t col) {                                        \
        gemm_dots_of(of, m, n, k, a, a_row, b, b_col, (real)alpha, add, c, row, col);              \
    }                                                                                              \
    static void gemm_gemv##name(int64_t n, int64_t k, const void *x, int64_t x_stride,             \
                                const void *b, int64_t b_row, int64_t b_col, double alpha,         \
                                bool add, void *y, int64_t y_stride) {                             \
        gemm_gemv_of(of, n, k, x, x_stride, b, b_row, b_col, (real)alpha, add, y, y_stride);       \
    }
GEMM_DOTS_OF(, OF_STORED)
#ifndef CTI_F64_KERNELS
GEMM_DOTS_OF(_bf16, OF_BF16)
#endif

#endif
