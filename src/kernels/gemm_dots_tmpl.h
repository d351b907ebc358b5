/* Products with few rows of A, for which nothing is packed: dot products along K (A and B dense
 * along K), and gemv, a row times a matrix. B is of the stored type, of bf16, or (dots only) of
 * blocks; A and C are of the computed type. A B of bf16 or blocks gives the bits that the same
 * numbers in f32 give, because only its loads differ. */
#ifndef CTI_KERNELS_GEMM_DOTS_TMPL_H
#define CTI_KERNELS_GEMM_DOTS_TMPL_H

#include "gemm_blocks_tmpl.h"
#include "gemm_source_tmpl.h"
#include "products.h"

/* ---- dot products ---- */

/* B is read from memory once. If its columns follow each other without a gap, it is read in the
 * order of its addresses: a single column is too short for a hardware prefetcher to help, and
 * several columns side by side would be several short streams. docs/notes/performance.md (Decoding)
 * has the measurements. */

/* Returns the columns of a tile. A tile is `rows` rows of A by this many columns of B; its
 * accumulators are vectors of partial sums along K, whose lanes are added at the end. A tile of few
 * rows has up to DOT_COLS columns, so that a vector of A is loaded once for all of them. A tile of
 * more rows has fewer columns: there are at most DOT_SUMS accumulators. */
INLINE int gemm_dots_cols(const gemm_source of, const int rows) {
    const int sums = gemm_is_blocks(of) ? DOT_BLOCK_SUMS : DOT_SUMS;
    return sums / rows < DOT_COLS ? sums / rows : DOT_COLS;
}

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

/* Adds a[i] b[j] to sum[i][j] lane by lane, for one vector of k or, if masked, for its first n
 * lanes. */
INLINE void gemm_dots_step(const int rows, const int cols, const bool masked, int64_t n,
                           const gemm_lines *a, const gemm_vec b[], gemm_vec *sum) {
    UNROLL
    for (int i = 0; i < rows; i++) {
        const gemm_vec x = gemm_in_register(gemm_load_if(gemm_real_line(4, a, i), masked, n));
        UNROLL
        for (int j = 0; j < cols; j++)
            sum[i * cols + j] = gemm_multiply_add(sum[i * cols + j], x, b[j]);
    }
}

enum { DOTS_LINE = 64, DOTS_INTO_L2 = 2 }; /* the bytes of a prefetch, its locality */

/* Returns the distance between two columns of B, in bytes. */
INLINE int64_t gemm_dots_column(const gemm_source of, const cti_gemm_rows *g) {
    return gemm_source_bytes(of, g->b_col);
}

/* Prefetches into L2 the lines that follow `ahead` as the bytes from `at` on, which a step reads of
 * each of `cols` columns, follow the start of a tile. */
INLINE void gemm_dots_fetch(const int cols, const char *ahead, int64_t at) {
    if (!ahead || at % DOTS_LINE != 0) return;
    UNROLL
    for (int j = 0; j < cols; j++)
        __builtin_prefetch(ahead + cols * at + j * DOTS_LINE, 0, DOTS_INTO_L2);
}

/* Sums a tile of A's lines by `cols` columns of B, which are not blocks. */
INLINE void gemm_dots_sum(const gemm_source of, const int rows, const int cols, int64_t k,
                          gemm_lines *a, const char *const b[DOT_COLS], const char *ahead,
                          gemm_vec *sum) {
    gemm_vec bp[DOT_COLS]; /* compilers unroll this; clang 14 and 15 warn about an UNROLL */
    int64_t p = 0;
    for (; p + LANES <= k; p += LANES) {
        gemm_dots_fetch(cols, ahead, p * gemm_source_size(of));
        for (int j = 0; j < cols; j++) bp[j] = gemm_load_b(of, b[j], p, false, LANES);
        gemm_dots_step(rows, cols, false, LANES, a, bp, sum);
        gemm_advance(4, rows, a, LANES * (int64_t)sizeof(real));
    }
    if (p == k) return;
    for (int j = 0; j < cols; j++) bp[j] = gemm_load_b(of, b[j], p, true, k - p);
    gemm_dots_step(rows, cols, true, k - p, a, bp, sum);
}

/* Does the same for columns that are lines of blocks. */
INLINE void gemm_dots_sum_blocks(const gemm_source of, const int rows, const int cols, int64_t k,
                                 gemm_lines *a, const char *const b[], const char *ahead,
                                 gemm_vec *sum) {
    const int64_t blocks = k / CTI_BLOCK_LENGTH, bytes = cti_line_codes(gemm_code_bits(of), 32);
    real scale[DOT_MOST_COLS][BLOCK_SCALES];
    gemm_vec bp[DOT_MOST_COLS];
    /* A step fetches as many bytes as it reads of codes; here are those of the scales. */
    for (int64_t at = cols * blocks * bytes; ahead && at < cols * gemm_source_bytes(of, k);
         at += DOTS_LINE)
        __builtin_prefetch(ahead + at, 0, DOTS_INTO_L2);
    for (int64_t first = 0; first < blocks; first += BLOCK_SCALES) {
        const int64_t left = blocks - first,
                      end = left < BLOCK_SCALES ? blocks : first + BLOCK_SCALES;
        int64_t at = 0; /* the block whose scale is scale[j][0] */
        for (int j = 0; j < cols; j++) at = gemm_block_scales(of, b[j], blocks, first, scale[j]);
        for (int64_t i = first; i < end; i++) {
            gemm_dots_fetch(cols, ahead, i * bytes);
            UNROLL
            for (int half = 0; half < 2; half++) {
                for (int l = 0; l < CTI_BLOCK_LENGTH / 2; l += LANES) {
                    for (int j = 0; j < cols; j++)
                        bp[j] = gemm_block_load(of, b[j] + i * bytes, half, l, scale[j][i - at]);
                    gemm_dots_step(rows, cols, false, LANES, a, bp, sum);
                    gemm_advance(4, rows, a, LANES * (int64_t)sizeof(real));
                }
            }
        }
    }
}

/* Computes a tile of `rows` rows and n columns, n <= cols. rows and cols are compile-time constants
 * of the caller. If n < cols, the first column is computed again in place of each missing one, and
 * these results are not stored. If ahead is not NULL, each step prefetches into L2, from this
 * address on, as many cache lines as it reads of B. */
INLINE void gemm_dots_tile(const gemm_source of, const int rows, const int cols,
                           const cti_gemm_rows *g, int64_t n, const real *a, const char *b,
                           const char *ahead, real *c) {
    const real alpha = (real)g->alpha;
    const int64_t column = gemm_dots_column(of, g);
    const bool add = g->add;
    enum { ALL = (DOT_SUMS + LANES - 1) / LANES * LANES };
    gemm_vec sum[ALL] = {0};
    const char *columns[DOT_COLS];
    gemm_lines of_a = gemm_lines_of(4, rows, a, g->a_row * (int64_t)sizeof(real));
    real out[ALL];
    UNROLL
    for (int j = 0; j < cols; j++) columns[j] = j < n ? b + j * column : b;
    if (gemm_is_blocks(of)) gemm_dots_sum_blocks(of, rows, cols, g->k, &of_a, columns, ahead, sum);
    else gemm_dots_sum(of, rows, cols, g->k, &of_a, columns, ahead, sum);
    UNROLL
    for (int i = 0; i < rows * cols; i += LANES) gemm_store(out + i, gemm_sums(sum + i));
    for (int i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            real *to = c + i * g->row + j * g->col, x = alpha * out[i * cols + j];
            *to = add ? *to + x : x;
        }
    }
}

/* Computes one row of C. The columns of B are read one after the other; then the lanes of LANES
 * accumulators are added up at once. Each sum adds the same terms in the same order as in
 * gemm_dots_tile. */
INLINE void gemm_dots_row(const gemm_source of, const cti_gemm_rows *g) {
    const real *a = g->a, alpha = (real)g->alpha;
    const char *b = g->b;
    const int64_t n = g->n, k = g->k, col = g->col, column = gemm_dots_column(of, g);
    const bool add = g->add;
    real *c = g->c;
    for (int64_t first = 0; first < n; first += LANES) {
        const int64_t columns = n - first < LANES ? n - first : LANES;
        gemm_vec sum[LANES] = {0};
        real out[LANES];
        for (int64_t j = 0; j < columns; j++, b += column) {
            int64_t p = 0;
            gemm_vec v = sum[j];
            for (; p + LANES <= k; p += LANES) {
                const int64_t at = p * gemm_source_size(of);
                if (of == OF_BF16 && at % DOTS_LINE == 0) /* f32 is as fast without it */
                    __builtin_prefetch(b + at + DOT_AHEAD, 0, DOTS_INTO_L2);
                v = gemm_multiply_add(v, gemm_load(a + p), gemm_load_b(of, b, p, false, LANES));
            }
            if (p < k)
                v = gemm_multiply_add(v, gemm_load_if(a + p, true, k - p),
                                      gemm_load_b(of, b, p, true, k - p));
            sum[j] = v;
        }
        gemm_store(out, gemm_sums(sum));
        for (int64_t j = 0; j < columns; j++, c += col) {
            const real x = alpha * out[j];
            *c = add ? *c + x : x;
        }
    }
}

/* Computes one row of C if B is of blocks. A chain of FMAs takes longer than reading its codes, so
 * DOT_BLOCK_COLS columns are summed side by side; then the lanes of LANES accumulators are added up
 * at once. That needs AVX-512's 32 registers: with AVX2 one token of SmolLM2 in Q8_0 takes 1.8
 * times as long as by tiles of one row, and in Q4_0 1.13 times. */
INLINE void gemm_dots_block_row(const gemm_source of, const cti_gemm_rows *g) {
    const real *a = g->a, alpha = (real)g->alpha;
    const int64_t column = gemm_dots_column(of, g);
    const bool add = g->add;
    real *c = g->c;
    for (int64_t first = 0; first < g->n; first += LANES) {
        const int64_t columns = g->n - first < LANES ? g->n - first : LANES;
        gemm_vec sum[LANES] = {0};
        real out[LANES];
        for (int64_t j = 0; j < columns; j += DOT_BLOCK_COLS) {
            const char *b = (const char *)g->b + (first + j) * column, *lines[DOT_BLOCK_COLS];
            gemm_lines of_a = gemm_lines_of(4, 1, a, 0);
            for (int i = 0; i < DOT_BLOCK_COLS; i++)
                lines[i] = j + i < columns ? b + i * column : b;
            gemm_dots_sum_blocks(of, 1, DOT_BLOCK_COLS, g->k, &of_a, lines,
                                 b + DOT_BLOCK_COLS * column + DOT_BLOCK_AHEAD, sum + j);
        }
        gemm_store(out, gemm_sums(sum));
        for (int64_t j = 0; j < columns; j++, c += g->col) {
            const real x = alpha * out[j];
            *c = add ? *c + x : x;
        }
    }
}

/* Computes a tile of `rows` rows; rows is a compile-time constant of the caller. */
INLINE void gemm_dots_tile_of(const gemm_source of, const int rows, const cti_gemm_rows *g,
                              int64_t n, const real *a, const char *b, const char *ahead, real *c) {
    if (rows <= DOT_ROWS) gemm_dots_tile(of, rows, gemm_dots_cols(of, rows), g, n, a, b, ahead, c);
}

/* Computes a tile of 1 to DOT_ROWS rows. */
INLINE void gemm_dots_any_tile(const gemm_source of, int64_t rows, const cti_gemm_rows *g,
                               int64_t n, const real *a, const char *b, const char *ahead,
                               real *c) {
    switch (rows) {
    case 1: gemm_dots_tile_of(of, 1, g, n, a, b, ahead, c); break;
    case 2: gemm_dots_tile_of(of, 2, g, n, a, b, ahead, c); break;
    case 3: gemm_dots_tile_of(of, 3, g, n, a, b, ahead, c); break;
    case 4: gemm_dots_tile_of(of, 4, g, n, a, b, ahead, c); break;
    case 5: gemm_dots_tile_of(of, 5, g, n, a, b, ahead, c); break;
    case 6: gemm_dots_tile_of(of, 6, g, n, a, b, ahead, c); break;
    case 7: gemm_dots_tile_of(of, 7, g, n, a, b, ahead, c); break;
    case 8: gemm_dots_tile_of(of, 8, g, n, a, b, ahead, c); break;
    }
}
_Static_assert((int)DOT_ROWS <= 8, "gemm_dots_any_tile has a case for each number of rows");

/* Cuts the rows of A into equal ranges of at most DOT_ROWS rows. With several ranges the columns of
 * B are taken in groups that stay in L2: a group is multiplied by one range of A after the other,
 * and each range stays in L1d meanwhile. While a group is multiplied by the first range, the next
 * group is prefetched. */
INLINE void gemm_dots_of(const gemm_source of, const cti_gemm_rows *g) {
    if (g->m == 1 && !gemm_is_blocks(of) && LANES * gemm_source_size(of) >= DOT_ROW_BYTES) {
        gemm_dots_row(of, g);
        return;
    }
    if (g->m == 1 && gemm_is_blocks(of) && (int)LANES > 8) {
        gemm_dots_block_row(of, g);
        return;
    }
    const int64_t ranges = (g->m + DOT_ROWS - 1) / DOT_ROWS, rows = (g->m + ranges - 1) / ranges,
                  cols = gemm_dots_cols(of, (int)rows), column = gemm_dots_column(of, g),
                  tile = cols * column;
    const bool dense = column == gemm_source_bytes(of, g->k);
    const int64_t group = ranges == 1 || !dense ? g->n : cols * (1 + DOT_GROUP / (tile + 1)),
                  lead = ranges == 1 ? tile + (gemm_is_blocks(of) ? DOT_BLOCK_AHEAD : DOT_AHEAD)
                                     : group * column;
    for (int64_t first = 0; first < g->n; first += group) {
        const int64_t end = g->n - first < group ? g->n : first + group;
        for (int64_t i = 0; i < g->m; i += rows) {
            for (int64_t j = first; j < end; j += cols) {
                const char *b = (const char *)g->b + j * column;
                gemm_dots_any_tile(
                    of, g->m - i < rows ? g->m - i : rows, g, end - j < cols ? end - j : cols,
                    (const real *)g->a + i * g->a_row, b, dense && i == 0 ? b + lead : NULL,
                    (real *)g->c + i * g->row + j * g->col);
            }
        }
    }
}

/* ---- gemv ---- */

/* Computes y = alpha x B, or y += alpha x B with add, for `count` vectors of columns. Rows of B are
 * dense. */
INLINE void gemv_columns(const gemm_source of, const int count, int64_t k, const real *x,
                         const char *b, int64_t b_bytes, real alpha, bool add, real *y) {
    gemm_vec sum[GEMV_VECTORS] = {0};
    for (int64_t p = 0; p < k; p++, b += b_bytes) {
        UNROLL
        for (int j = 0; j < count; j++)
            sum[j] = gemm_multiply_add(sum[j], x[p] - (gemm_vec){0},
                                       gemm_load_b(of, b, j * LANES, false, LANES));
    }
    UNROLL
    for (int j = 0; j < count; j++) {
        real *to = y + j * LANES;
        gemm_store(to, add ? gemm_load(to) + alpha * sum[j] : alpha * sum[j]);
    }
}

/* Returns the sum of x[p] b[p step]. A B of bf16 is converted to a dense f32 column first, and must
 * give the same bits as a strided f32 column. So the function is not inlined, and the asm keeps GCC
 * from making a second loop for step 1: on aarch64 that one multiplies vectors, while the general
 * loop makes FMAs. */
__attribute__((noinline)) static real gemv_plain(int64_t k, const real *x, const stored *b,
                                                 int64_t step) {
    real sum = 0;
    for (int64_t p = 0; p < k; p++) {
        __asm__("");
        sum = gemm_multiply_add_one(sum, x[p], get_one(b + p * step));
    }
    return sum;
}

/* Returns the sum for one column of B, whose elements are `step` apart. */
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

INLINE void gemm_gemv_of(const gemm_source of, const cti_gemm_rows *g) {
    const int64_t size = gemm_source_size(of), n = g->n, k = g->k;
    const real *x = g->a, alpha = (real)g->alpha;
    const char *b = g->b;
    real dense[KC], *y = g->c;
    if (g->a_col != 1) {
        for (int64_t p = 0; p < k; p++) dense[p] = x[p * g->a_col];
        x = dense;
    }
    int64_t j = 0;
    if (g->b_col == 1 && g->col == 1) {
        for (; j + GEMV_VECTORS * LANES <= n; j += GEMV_VECTORS * LANES)
            gemv_columns(of, GEMV_VECTORS, k, x, b + j * size, g->b_row * size, alpha, g->add,
                         y + j);
        for (; j + LANES <= n; j += LANES)
            gemv_columns(of, 1, k, x, b + j * size, g->b_row * size, alpha, g->add, y + j);
    } else if (g->b_row == 1) {
        cti_gemm_rows of_dense = *g;
        of_dense.m = 1, of_dense.a = x;
        gemm_dots_of(of, &of_dense);
        return;
    }
    for (; j < n; j++) {
        const real sum = gemv_column(of, k, x, b + j * g->b_col * size, g->b_row);
        y[j * g->col] = g->add ? y[j * g->col] + alpha * sum : alpha * sum;
    }
}

#endif
