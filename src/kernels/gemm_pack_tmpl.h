/* Packing copies a matrix into panels of A (MR rows) and of B (NR columns), the micro-panels of
 * BLIS. A and B are packed by the same code: a "line" is a row of A or a column of B. In the
 * source, lines are line_stride elements apart, and the elements of a line k_stride.
 *
 * Invariants of the panels of k elements of each line, `width` lines to a panel (MR or NR):
 * 1. Element p of line i of a panel is at p width + i: the elements of all lines for one k are side
 *    by side.
 * 2. Panels follow each other without a gap, k width elements each.
 * 3. The last panel has zeros in place of missing lines.
 * 4. The source is of the stored type and panels are of the computed type, so packing converts. */
#ifndef CTI_KERNELS_GEMM_PACK_TMPL_H
#define CTI_KERNELS_GEMM_PACK_TMPL_H

#include "gemm_vec_tmpl.h"

#if CTI_VECTOR_BYTES
/* Transposes LANES vectors of LANES. Interleaving row i with row i + LANES / 2 rotates the index
 * (row, lane), read as one binary number, left by one bit; log2 LANES rotations swap row and
 * lane. */
INLINE void gemm_transpose(vec x[LANES]) {
    UNROLL
    for (int rotation = 1; rotation < LANES; rotation *= 2) {
        vec y[LANES];
        UNROLL
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = INTERLEAVE_LOW(x[i], x[i + LANES / 2]);
            y[2 * i + 1] = INTERLEAVE_HIGH(x[i], x[i + LANES / 2]);
        }
        UNROLL
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}

_Static_assert((int)LANES <= (int)MR_NARROW, "gemm_lines has pointers for that many");

/* packed[p width + i] = x[i line_stride + p] for p < k and i < n, and 0 for n <= i < count. k is a
 * multiple of LANES. count is a compile-time constant of at most LANES. */
INLINE void gemm_pack_transposed(const int width, const int count, int64_t n, int64_t k,
                                 const stored *x, int64_t line_stride, real *packed) {
    gemm_lines rows = gemm_lines_of(4, LANES, x, line_stride * (int64_t)sizeof(stored));
    for (; k > 0; k -= LANES, packed += LANES * width,
                  gemm_advance(4, LANES, &rows, LANES * (int64_t)sizeof(stored))) {
        vec block[LANES];
        gemm_opaque(&rows);
        UNROLL
        for (int i = 0; i < LANES; i++)
            block[i] = i < count && i < n ? load((const stored *)gemm_line(4, &rows, i)) : (vec){0};
        gemm_transpose(block);
        UNROLL
        for (int i = 0; i < LANES; i++)
            memcpy(packed + i * width, &block[i], (size_t)count * sizeof(real));
    }
}

/* Does the same for k < LANES. Either n <= count, or count is LANES. */
__attribute__((noinline)) static void gemm_pack_transposed_rest(int64_t width, int64_t count,
                                                                int64_t n, int64_t k,
                                                                const stored *x,
                                                                int64_t line_stride, real *packed) {
    vec block[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++) block[i] = i < n ? load_part(x + i * line_stride, k) : (vec){0};
    gemm_transpose(block);
    UNROLL
    for (int i = 0; i < LANES; i++)
        if (i < k) store_part(packed + i * width, block[i], count);
}

INLINE void gemm_pack_zeros(const int width, const int count, int64_t k, real *packed) {
    for (int64_t p = 0; p < k; p++) memset(packed + p * width, 0, (size_t)count * sizeof(real));
}
#endif

/* packed[p width + i] = x[i line_stride + p k_stride] for p < k and i < n, and 0 for n <= i <
 * width. width is a compile-time constant of the caller. */
INLINE void gemm_pack(const int width, int64_t n, int64_t k, const stored *x, int64_t line_stride,
                      int64_t k_stride, real *packed) {
    int64_t p = 0;
    if (line_stride == 1) {
        /* This is the last, narrow panel: gemm_pack_panels has packed the others. Four elements are
         * moved at a time, because GCC turns a plain loop over n into a call of memcpy for each
         * p. */
        memset(packed, 0, (size_t)(k * width) * sizeof(real));
        for (; p < k; p++) {
            int64_t i = 0;
            for (; i + 4 <= n; i += 4) get_all(4, x + p * k_stride + i, packed + p * width + i);
            for (; i < n; i++) packed[p * width + i] = get_one(x + p * k_stride + i);
        }
        return;
    }
#if CTI_VECTOR_BYTES
    /* K_CHUNK k of a panel are written one vector of lines after the other, and stay in L1d
     * meanwhile. */
    enum { K_CHUNK = 128 };
    for (int64_t chunk, whole = k_stride == 1 ? k / LANES * LANES : 0; p < whole; p += chunk) {
        chunk = whole - p < K_CHUNK ? whole - p : K_CHUNK;
        UNROLL
        for (int i = 0; i < width; i += LANES) {
            const int count = width - i < LANES ? width - i : LANES;
            real *to = packed + p * width + i;
            if (i + count <= n)
                gemm_pack_transposed(width, count, count, chunk, x + i * line_stride + p,
                                     line_stride, to);
            else if (i < n)
                gemm_pack_transposed(width, count, n - i, chunk, x + i * line_stride + p,
                                     line_stride, to);
            else gemm_pack_zeros(width, count, chunk, to);
        }
    }
    /* If 4 to LANES - 1 k are left they are packed by masked moves; fewer are faster one by one.
     * With B transposed 8 x 8 by 8 is 2.0 times as fast (Xeon), 8 x 4 by 8 1.29 times, with AVX2
     * 1.12 times (EPYC, Zen 4). */
    if (CTI_VECTOR_BYTES >= 32 && k_stride == 1 && k - p >= 4) {
        UNROLL
        for (int i = 0; i < width; i += LANES) {
            const int count = width - i < LANES ? width - i : LANES;
            real *to = packed + p * width + i;
            if (i < n)
                gemm_pack_transposed_rest(width, count, n - i, k - p, x + i * line_stride + p,
                                          line_stride, to);
            else gemm_pack_zeros(width, count, k - p, to);
        }
        return;
    }
#endif
    for (; p < k; p++) {
        for (int64_t i = 0; i < n; i++)
            packed[p * width + i] = get_one(x + i * line_stride + p * k_stride);
        for (int64_t i = n; i < width; i++) packed[p * width + i] = 0;
    }
}

/* Packs n lines into panels of `width`. If line_stride is 1 (A dense along M, B along N), the
 * elements of all panels for one k are a dense row of the source. Each row is then packed into all
 * panels before the next row, so that the source is read in order. The row PREFETCH_K ahead is
 * prefetched, because the hardware prefetcher does not find it if rows are far apart. */
INLINE void gemm_pack_panels(const int width, int64_t n, int64_t k, const stored *x,
                             int64_t line_stride, int64_t k_stride, real *packed) {
    const int64_t whole = line_stride == 1 ? n / width * width : 0;
    const stored *row = x;
    for (int64_t p = 0; p < k && whole > 0; p++, row += k_stride) {
        const char *ahead = (const char *)(row + PREFETCH_K * k_stride);
        for (int64_t i = 0; i < whole; i += width) {
            UNROLL
            for (int at = 0; at < width * (int)sizeof(stored); at += 64)
                __builtin_prefetch(ahead + i * (int64_t)sizeof(stored) + at);
            get_all(width, row + i, packed + i * k + p * width);
        }
    }
    for (int64_t i = whole; i < n; i += width)
        gemm_pack(width, n - i < width ? n - i : width, k, x + i * line_stride, line_stride,
                  k_stride, packed + i * k);
}

static void gemm_pack_a(int64_t m, int64_t k, const void *a, int64_t row_stride, int64_t col_stride,
                        void *packed) {
    gemm_pack_panels(MR, m, k, a, row_stride, col_stride, packed);
}

static void gemm_pack_b(int64_t k, int64_t n, const void *b, int64_t row_stride, int64_t col_stride,
                        void *packed) {
    gemm_pack_panels(NR, n, k, b, col_stride, row_stride, packed);
}

#endif
