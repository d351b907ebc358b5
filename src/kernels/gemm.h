/* Matrix products: the packing and the register block that src/gemm.c drives (Goto & van de Geijn 2008; BLIS).
 *
 * A is packed in panels of MR rows, B in panels of NR = NV vectors of columns, both with the K index outermost, so that the
 * inner loop reads them in order: for each k it loads NV vectors of B and adds to MR x NV accumulators, all in registers, one
 * broadcast element of A times each.
 *
 *        k ->            NR
 *     +--------+      +------+         Every element of C is the sum over k in order, whatever part of a tile it lies in: panels
 *  MR | A panel|   k  |   B  |         are padded with zeros, and a tile at an edge stores less than it computes.
 *     +--------+      |panel |
 *                     +------+  */
#ifndef CT_KERNELS_GEMM_H
#define CT_KERNELS_GEMM_H

#include "kernels.h"
#include "simd.h"

#ifdef CT_F64_KERNELS
#define GEMM_LANES (CT_VECTOR_BYTES / 8)   /* LANES, for the preprocessor; 0 in the scalar build */
#else
#define GEMM_LANES (CT_VECTOR_BYTES / 4)
#endif

/* MR x NV accumulators, NV vectors of B and a broadcast must fit in the registers: 32 on AVX-512 and NEON, 16 on AVX2. */
#if CT_VECTOR_BYTES == 64
enum { MR = 12, NV = 2 };
#elif CT_VECTOR_BYTES == 32
enum { MR = 6, NV = 2 };
#elif CT_VECTOR_BYTES == 16
enum { MR = 8, NV = 3 };
#else
enum { MR = 4, NV = 4 };
#endif
#if CT_VECTOR_BYTES
typedef vec gemm_vec;
#else
typedef real gemm_vec;   /* GCC keeps vectors of one element in memory */
#endif
enum { NR = NV * LANES, KC = sizeof(real) == 4 ? 384 : 256 };

#if defined __clang__
#define GEMM_UNROLL _Pragma("unroll")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 32")
#endif

INLINE gemm_vec gemm_load(const real *p) { gemm_vec v; memcpy(&v, p, sizeof v); return v; }
INLINE void gemm_store(real *p, gemm_vec v) { memcpy(p, &v, sizeof v); }

/* ---- packing ---- */

#if CT_VECTOR_BYTES
#if GEMM_LANES == 16
#define GEMM_ZIP_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define GEMM_ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif GEMM_LANES == 8
#define GEMM_ZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define GEMM_ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif GEMM_LANES == 4
#define GEMM_ZIP_LOW 0, 4, 1, 5
#define GEMM_ZIP_HIGH 2, 6, 3, 7
#else
#define GEMM_ZIP_LOW 0, 2
#define GEMM_ZIP_HIGH 1, 3
#endif
#if defined __clang__
#define GEMM_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GEMM_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

/* Interleaving row i with row i + LANES/2 turns the index (row, lane), read as one binary number, left by one bit; log2 LANES turns
 * swap row and lane. */
INLINE void gemm_transpose(vec x[LANES]) {
    GEMM_UNROLL for (int turn = 1; turn < LANES; turn *= 2) {
        vec y[LANES];
        GEMM_UNROLL for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = GEMM_SHUFFLE(x[i], x[i + LANES / 2], GEMM_ZIP_LOW);
            y[2 * i + 1] = GEMM_SHUFFLE(x[i], x[i + LANES / 2], GEMM_ZIP_HIGH);
        }
        GEMM_UNROLL for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}
#endif

#if GEMM_LANES == 16
/* Four rows of 16 as 16 fours, 12 apart: two rounds within quarters of a vector, whose quarters are then stored one by one. */
INLINE void gemm_pack_four(const real *x, int64_t along, real *packed) {
    typedef real quarter __attribute__((vector_size(16), may_alias));
    const vec a = load(x), b = load(x + along), c = load(x + 2 * along), d = load(x + 3 * along);
    const vec ab_low = GEMM_SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    const vec cd_low = GEMM_SHUFFLE(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    const vec ab_high = GEMM_SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    const vec cd_high = GEMM_SHUFFLE(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    const vec fours[4] = {GEMM_SHUFFLE(ab_low, cd_low, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                          GEMM_SHUFFLE(ab_low, cd_low, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31),
                          GEMM_SHUFFLE(ab_high, cd_high, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                          GEMM_SHUFFLE(ab_high, cd_high, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)};
    GEMM_UNROLL for (int j = 0; j < 4; j++) {
        GEMM_UNROLL for (int q = 0; q < 4; q++) {
            const quarter four = ((const quarter *)&fours[j])[q];
            memcpy(packed + (4 * q + j) * 12, &four, sizeof four);
        }
    }
}
#endif

/* packed[p width + i] = x[i along + p step] for p < k, i < n; zero for n <= i < width. width is a constant of the caller. */
INLINE void gemm_pack(const int width, int64_t n, int64_t k, const real *x, int64_t along, int64_t step, real *packed) {
    int64_t p = 0;
    if (along == 1 && n == width) {
        for (; p < k; p++) memcpy(packed + p * width, x + p * step, (size_t)width * sizeof(real));
        return;
    }
    if (along == 1) {   /* an edge: fours, as a loop over n would be a call for each p */
        memset(packed, 0, (size_t)(k * width) * sizeof(real));
        for (; p < k; p++) {
            int64_t i = 0;
            for (; i + 4 <= n; i += 4) memcpy(packed + p * width + i, x + p * step + i, 4 * sizeof(real));
            for (; i < n; i++) packed[p * width + i] = x[p * step + i];
        }
        return;
    }
#if GEMM_LANES == 16
    if (step == 1 && n == width && width == 12) {
        for (; p + 16 <= k; p += 16)
            for (int i = 0; i < 12; i += 4) gemm_pack_four(x + i * along + p, along, packed + p * 12 + i);
    }
#endif
#if CT_VECTOR_BYTES
    if (step == 1) {
        for (; p + LANES <= k; p += LANES) {
            for (int first = 0; first < width; first += LANES) {
                const int count = width - first < LANES ? width - first : LANES;
                vec block[LANES];
                GEMM_UNROLL for (int i = 0; i < LANES; i++)
                    block[i] = i < count && first + i < n ? load(x + (first + i) * along + p) : (vec){0};
                gemm_transpose(block);
                GEMM_UNROLL for (int i = 0; i < LANES; i++)
                    memcpy(packed + (p + i) * width + first, &block[i], (size_t)count * sizeof(real));
            }
        }
    }
#endif
    for (; p < k; p++) {
        for (int64_t i = 0; i < n; i++) packed[p * width + i] = x[i * along + p * step];
        for (int64_t i = n; i < width; i++) packed[p * width + i] = 0;
    }
}

static void gemm_pack_a(int64_t m, int64_t k, const void *a, int64_t row_stride, int64_t col_stride, void *packed) {
    gemm_pack(MR, m, k, a, row_stride, col_stride, packed);
}

static void gemm_pack_b(int64_t k, int64_t n, const void *b, int64_t row_stride, int64_t col_stride, void *packed) {
    gemm_pack(NR, n, k, b, col_stride, row_stride, packed);
}

/* ---- the register block ---- */

/* rows >= m and vectors * LANES >= n are constants: how much of the block is computed. */
INLINE void gemm_block(const int rows, const int vectors, int64_t m, int64_t n, int64_t k, const real *a, const real *b, real alpha,
                       bool add, real *c, int64_t row, int64_t col) {
    gemm_vec sum[MR][NV] = {0};
    for (int64_t p = 0; p < k; p++, a += MR, b += NR) {
        gemm_vec bp[NV];
        GEMM_UNROLL for (int j = 0; j < vectors; j++) bp[j] = gemm_load(b + j * LANES);
        GEMM_UNROLL for (int i = 0; i < rows; i++) {
            GEMM_UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += a[i] * bp[j];
        }
    }
    if (col == 1 && n == vectors * LANES) {
        GEMM_UNROLL for (int i = 0; i < rows; i++) {
            if (i == m) break;
            GEMM_UNROLL for (int j = 0; j < vectors; j++) {
                real *to = c + i * row + j * LANES;
                gemm_store(to, add ? gemm_load(to) + alpha * sum[i][j] : alpha * sum[i][j]);
            }
        }
        return;
    }
    real part[MR * NR];
    GEMM_UNROLL for (int i = 0; i < rows; i++) {
        GEMM_UNROLL for (int j = 0; j < vectors; j++) gemm_store(part + i * NR + j * LANES, sum[i][j]);
    }
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            real *to = c + i * row + j * col;
            *to = add ? *to + alpha * part[i * NR + j] : alpha * part[i * NR + j];
        }
    }
}

static void gemm_tile(int64_t m, int64_t n, int64_t k, const void *a, const void *b, double alpha, bool add, void *c, int64_t row,
                      int64_t col) {
#define TILE(rows, vectors) gemm_block(rows, vectors, m, n, k, a, b, (real)alpha, add, c, row, col)
#define TILE_ROWS(rows) (n > LANES ? TILE(rows, NV) : TILE(rows, 1))
    if (m > 8 || (MR <= 8 && m > 4)) TILE_ROWS(MR);
    else if (MR > 8 && m > 4) TILE_ROWS(8);
    else if (m > 2) TILE_ROWS(4);
    else TILE_ROWS(2);
#undef TILE_ROWS
#undef TILE
}

/* ---- one row: y = alpha x B, or += with add, nothing packed ---- */

enum { ROW_VECTORS = 8, ROW_DOTS = 4 };

/* k rows of B, columns next to each other: `count` vectors of y at a time. */
INLINE void gemm_row_columns(const int count, int64_t k, const real *x, const real *b, int64_t b_row, real alpha, bool add, real *y) {
    gemm_vec sum[ROW_VECTORS] = {0};
    for (int64_t p = 0; p < k; p++, b += b_row) {
        GEMM_UNROLL for (int j = 0; j < count; j++) sum[j] += x[p] * gemm_load(b + j * LANES);
    }
    GEMM_UNROLL for (int j = 0; j < count; j++) {
        real *to = y + j * LANES;
        gemm_store(to, add ? gemm_load(to) + alpha * sum[j] : alpha * sum[j]);
    }
}

/* `count` columns of B, each next to each other along k: dot products. */
INLINE void gemm_row_dots(const int count, int64_t k, const real *x, const real *b, int64_t b_col, real alpha, bool add, real *y,
                          int64_t y_stride) {
    gemm_vec sum[ROW_DOTS] = {0};
    int64_t p = 0;
    for (; p + LANES <= k; p += LANES) {
        gemm_vec xp = gemm_load(x + p);
        GEMM_UNROLL for (int j = 0; j < count; j++) sum[j] += xp * gemm_load(b + j * b_col + p);
    }
    for (int j = 0; j < count; j++) {
        real lanes[LANES], total = 0;
        gemm_store(lanes, sum[j]);
        for (int i = 0; i < LANES; i++) total += lanes[i];
        for (int64_t q = p; q < k; q++) total += x[q] * b[j * b_col + q];
        real *to = y + j * y_stride;
        *to = add ? *to + alpha * total : alpha * total;
    }
}

static void gemm_row(int64_t n, int64_t k, const void *x_, int64_t x_stride, const void *b_, int64_t b_row, int64_t b_col, double alpha_,
                     bool add, void *y_, int64_t y_stride) {
    const real *x = x_, *b = b_, alpha = (real)alpha_;
    real *y = y_, dense[KC];
    if (x_stride != 1) {
        for (int64_t p = 0; p < k; p++) dense[p] = x[p * x_stride];
        x = dense;
    }
    int64_t j = 0;
    if (b_col == 1 && y_stride == 1) {
        for (; j + ROW_VECTORS * LANES <= n; j += ROW_VECTORS * LANES)
            gemm_row_columns(ROW_VECTORS, k, x, b + j, b_row, alpha, add, y + j);
        for (; j + LANES <= n; j += LANES) gemm_row_columns(1, k, x, b + j, b_row, alpha, add, y + j);
    } else if (b_row == 1) {
        for (; j + ROW_DOTS <= n; j += ROW_DOTS)
            gemm_row_dots(ROW_DOTS, k, x, b + j * b_col, b_col, alpha, add, y + j * y_stride, y_stride);
        for (; j < n; j++) gemm_row_dots(1, k, x, b + j * b_col, b_col, alpha, add, y + j * y_stride, y_stride);
    }
    for (; j < n; j++) {
        real sum = 0;
        for (int64_t p = 0; p < k; p++) sum += x[p] * b[p * b_row + j * b_col];
        y[j * y_stride] = add ? y[j * y_stride] + alpha * sum : alpha * sum;
    }
}

#define GEMM_KERNELS {MR, NR, KC, gemm_pack_a, gemm_pack_b, gemm_tile, gemm_row}

#endif
