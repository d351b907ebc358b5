/* Products of few rows without packing: dot products along K (A and B dense along K), and gemv, a
 * row times a matrix. B is of the stored type or of bf16, A and C are of the computed type. What a
 * B of bf16 does is what the same numbers in f32 do, bit for bit: only its loads differ. */
#ifndef CTI_KERNELS_GEMM_DOTS_TMPL_H
#define CTI_KERNELS_GEMM_DOTS_TMPL_H

#include "gemm_source_tmpl.h"

/* ---- dot products ---- */

/* B is read from memory once, in the order of its addresses where its columns follow each other
 * without a gap: a column alone is too short for a hardware prefetcher to help, and several side by
 * side are as many short streams. docs/performance.md (Decoding) has the measurements. */

/* A tile is `rows` rows of A by `cols` columns of B. Its accumulators are vectors of partial sums
 * along K, whose lanes are added at the end. Few rows take up to DOT_COLS columns, so that a vector
 * of A is loaded once for all of them; more rows take fewer, DOT_SUMS accumulators in all. */
#define GEMM_DOTS_COLS(rows) (DOT_SUMS / (rows) < DOT_COLS ? DOT_SUMS / (rows) : DOT_COLS)

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
INLINE void gemm_dots_step(const gemm_source of, const int rows, const int cols, const bool masked,
                           int64_t n, const gemm_lines *a, const char *const b[DOT_COLS], int64_t p,
                           gemm_vec *sum) {
    gemm_vec bp[DOT_COLS]; /* this loop is unrolled; clang 14 and 15 warn where UNROLL asks */
    for (int j = 0; j < cols; j++) bp[j] = gemm_load_b(of, b[j], p, masked, n);
    UNROLL
    for (int i = 0; i < rows; i++) {
        const gemm_vec x = gemm_in_register(gemm_load_if(gemm_real_line(4, a, i), masked, n));
        UNROLL
        for (int j = 0; j < cols; j++) sum[i * cols + j] += x * bp[j];
    }
}

enum { DOTS_LINE = 64, DOTS_INTO_L2 = 2 }; /* of a prefetch: bytes, and its hint */

/* What all tiles of a product have alike. */
typedef struct {
    int64_t k, a_row, b_bytes; /* b_bytes: from a column of B to the next */
    real alpha;
    bool add;
    int64_t row, col; /* of C */
} gemm_dots_args;

/* rows and cols are compile-time constants of the caller. If n < cols, the first column is computed
 * again in place of the missing ones, and not stored. ahead: each step prefetches into L2 as many
 * cache lines from there on as it reads of B; or NULL. */
INLINE void gemm_dots_tile(const gemm_source of, const int rows, const int cols,
                           const gemm_dots_args *g, int64_t n, const real *a, const char *b,
                           const char *ahead, real *c) {
    enum { ALL = (DOT_SUMS + LANES - 1) / LANES * LANES };
    gemm_vec sum[ALL] = {0};
    const char *columns[DOT_COLS];
    gemm_lines of_a = gemm_lines_of(4, rows, a, g->a_row * (int64_t)sizeof(real));
    real out[ALL];
    int64_t p = 0;
    UNROLL
    for (int j = 0; j < cols; j++) columns[j] = j < n ? b + j * g->b_bytes : b;
    for (; p + LANES <= g->k; p += LANES) {
        const int64_t at = p * gemm_source_size(of);
        if (ahead && at % DOTS_LINE == 0) {
            UNROLL
            for (int j = 0; j < cols; j++)
                __builtin_prefetch(ahead + cols * at + j * DOTS_LINE, 0, DOTS_INTO_L2);
        }
        gemm_dots_step(of, rows, cols, false, LANES, &of_a, columns, p, sum);
        gemm_advance(4, rows, &of_a, LANES * (int64_t)sizeof(real));
    }
    if (p < g->k) gemm_dots_step(of, rows, cols, true, g->k - p, &of_a, columns, p, sum);
    UNROLL
    for (int i = 0; i < rows * cols; i += LANES) gemm_store(out + i, gemm_sums(sum + i));
    for (int i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            real *to = c + i * g->row + j * g->col, x = g->alpha * out[i * cols + j];
            *to = g->add ? *to + x : x;
        }
    }
}

/* One row of A: one column of B after the other, and LANES columns' accumulators are added at once.
 * Each sum adds the same terms in the same order as in gemm_dots_tile. */
INLINE void gemm_dots_row(const gemm_source of, const gemm_dots_args *g, int64_t n, const real *a,
                          const char *b, real *c) {
    for (int64_t first = 0; first < n; first += LANES) {
        const int64_t columns = n - first < LANES ? n - first : LANES;
        gemm_vec sum[LANES] = {0};
        real out[LANES];
        for (int64_t j = 0; j < columns; j++, b += g->b_bytes) {
            int64_t p = 0;
            gemm_vec v = sum[j];
            for (; p + LANES <= g->k; p += LANES) {
                const int64_t at = p * gemm_source_size(of);
                if (of == OF_BF16 && at % DOTS_LINE == 0) /* f32 is as fast without */
                    __builtin_prefetch(b + at + DOT_AHEAD, 0, DOTS_INTO_L2);
                v += gemm_load(a + p) * gemm_load_b(of, b, p, false, LANES);
            }
            if (p < g->k)
                v += gemm_load_if(a + p, true, g->k - p) * gemm_load_b(of, b, p, true, g->k - p);
            sum[j] = v;
        }
        gemm_store(out, gemm_sums(sum));
        for (int64_t j = 0; j < columns; j++, c += g->col) {
            const real x = g->alpha * out[j];
            *c = g->add ? *c + x : x;
        }
    }
}

/* The rows of A are cut into parts of at most DOT_ROWS. With several parts a group of columns that
 * stays in L2 goes through all of them, each of which stays in L1d meanwhile; the first part
 * prefetches the next group. */
INLINE void gemm_dots_of(const gemm_source of, int64_t m, int64_t n, const gemm_dots_args *g,
                         const real *a, const char *b, real *c) {
    const int64_t parts = (m + DOT_ROWS - 1) / DOT_ROWS, rows = (m + parts - 1) / parts,
                  cols = GEMM_DOTS_COLS(rows), tile = cols * g->b_bytes;
    if (m == 1 && LANES * gemm_source_size(of) >= DOT_ROW_BYTES) {
        gemm_dots_row(of, g, n, a, b, c);
        return;
    }
    const bool dense = g->b_bytes == g->k * gemm_source_size(of);
    const int64_t group = parts == 1 || !dense ? n : cols * (1 + DOT_GROUP / (tile + 1)),
                  lead = parts == 1 ? tile + DOT_AHEAD : group * g->b_bytes;
    for (int64_t first = 0; first < n; first += group) {
        const int64_t end = n - first < group ? n : first + group;
        for (int64_t i = 0; i < m; i += rows) {
            for (int64_t j = first; j < end; j += cols) {
                const int64_t columns = end - j < cols ? end - j : cols;
                const real *ai = a + i * g->a_row;
                const char *bj = b + j * g->b_bytes, *ahead = dense && i == 0 ? bj + lead : NULL;
                real *to = c + i * g->row + j * g->col;
#define DOTS(rows)                                                                                 \
    case rows:                                                                                     \
        if ((rows) <= DOT_ROWS)                                                                    \
            gemm_dots_tile(of, rows, GEMM_DOTS_COLS(rows), g, columns, ai, bj, ahead, to);         \
        break
                switch (m - i < rows ? m - i : rows) {
                    DOTS(1);
                    DOTS(2);
                    DOTS(3);
                    DOTS(4);
                    DOTS(5);
                    DOTS(6);
                    DOTS(7);
                    DOTS(8);
                }
#undef DOTS
            }
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
        sum += x[p] * get_one(b + p * step);
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
        const gemm_dots_args g = {
            .k = k, .b_bytes = b_col * size, .alpha = alpha, .add = add, .col = y_stride};
        gemm_dots_of(of, 1, n, &g, x, b, y);
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
        const gemm_dots_args g = {.k = k,                                                          \
                                  .a_row = a_row,                                                  \
                                  .b_bytes = b_col * gemm_source_size(of),                         \
                                  .alpha = (real)alpha,                                            \
                                  .add = add,                                                      \
                                  .row = row,                                                      \
                                  .col = col};                                                     \
        gemm_dots_of(of, m, n, &g, a, b, c);                                                       \
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
