/* Matrix products: the micro-kernels, and the macro-kernel that src/gemm calls.
 *
 * A micro-kernel computes a tile of MR rows and NR = NV vectors of columns of C. For each k it
 * loads NV vectors of B and does a rank-1 update of MR x NV accumulators, with one broadcast
 * element of A for each row; all of them stay in registers. So A may have any strides, while rows
 * of B are vectors, in place or in packed panels of NR columns (Goto & van de Geijn 2008; BLIS).
 *
 *           k ->             NR
 *        +--------+       +------+
 *     MR |   A    |    k  |   B  |     C (MR x NR) = A B
 *        +--------+       |      |
 *                         +------+
 *
 * Invariants:
 * 1. Every element of C is summed over k in order, in whichever tile it is computed.
 * 2. A tile at an edge of C has only the rows and vectors that are left, and its last vector is
 *    masked. Nothing outside of A, B and C is read or written.
 * 3. A, B and C are of the computed type. A matrix that is stored in another type is packed first,
 *    and packing converts it (gemm_pack_tmpl.h). */
#ifndef CTI_KERNELS_GEMM_TMPL_H
#define CTI_KERNELS_GEMM_TMPL_H

#include "gemm_dots_tmpl.h"
#include "gemm_pack_tmpl.h"
#include "gemm_tuning_tmpl.h"
#include "products.h"

/* ---- micro-kernels ---- */

/* The layout of A is a compile-time constant of each micro-kernel. If A is dense along one dim, the
 * loop over k is unrolled by UNROLL_K: without that, counters and pointers are a third of the
 * instructions, which costs most if another hardware thread shares the front end of the core (EPYC:
 * .63 to .80 of the peak became .80 to .87). A_PACKED is dense by columns like A_DENSE_COLUMNS, but
 * needs no software prefetch: the hardware prefetcher follows it. */
typedef enum { A_STRIDED, A_DENSE_ROWS, A_DENSE_COLUMNS, A_PACKED } gemm_a_layout;

/* The compile-time constants of a micro-kernel. */
typedef struct {
    int rows, vectors; /* the tile of C, in rows and in vectors of columns */
    bool masked;       /* whether the last vector may have fewer than LANES columns */
    gemm_a_layout layout;
} gemm_micro;

INLINE bool gemm_by_columns(const gemm_a_layout layout) {
    return layout == A_DENSE_COLUMNS || layout == A_PACKED;
}

/* Returns sum + x b, rounded once at any level of optimisation, so that the bits do not depend on
 * the tile. For sum + x * b GCC may choose the FMA that overwrites a factor, and then moves the
 * result to the accumulator. So with AVX2 and AVX-512 the FMA that overwrites the sum is named.
 * x_once tells that no other FMA uses x: AVX-512 may then take x as a memory operand, which the
 * intrinsic allows. */
INLINE gemm_vec gemm_fma(const bool x_once, gemm_vec sum, gemm_vec x, gemm_vec b) {
#if CTI_VECTOR_BYTES && defined __x86_64__ && defined __FMA__ && !defined __clang__
#if CTI_VECTOR_BYTES == 64 && defined CTI_F64_KERNELS
    if (x_once) return (gemm_vec)_mm512_fmadd_pd((__m512d)x, (__m512d)b, (__m512d)sum);
#elif CTI_VECTOR_BYTES == 64
    if (x_once) return (gemm_vec)_mm512_fmadd_ps((__m512)x, (__m512)b, (__m512)sum);
#endif
    (void)x_once;
    if (sizeof(real) == 4) __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(b));
    else __asm__("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(b));
    return sum;
#else
    (void)x_once;
    return gemm_multiply_add(sum, x, b);
#endif
}

/* Does the u-th rank-1 update of an iteration: sum += a column of A times a row of B. If the tile
 * is masked its last vector has n columns. The barrier keeps compilers from interleaving two
 * updates, which would need more registers than there are. */
INLINE void gemm_rank_1(const gemm_micro of, const int per_base, int64_t n, const gemm_lines *a,
                        const gemm_lines *b, const int u, gemm_vec sum[MR_NARROW][NV]) {
    gemm_vec bp[NV];
    __asm__ volatile("" ::: "memory");
    UNROLL
    for (int j = 0; j < of.vectors; j++)
        bp[j] =
            gemm_load_if(gemm_real_line(4, b, u) + j * LANES, of.masked && j == of.vectors - 1, n);
    UNROLL
    for (int i = 0; i < of.rows; i++) {
        const gemm_vec x = (gemm_by_columns(of.layout) ? gemm_real_line(per_base, a, u)[i]
                                                       : gemm_real_line(per_base, a, i)[u]) -
                           (gemm_vec){0};
        UNROLL
        for (int j = 0; j < of.vectors; j++)
            sum[i][j] = gemm_fma(of.vectors == 1, sum[i][j], x, bp[j]);
    }
}

/* Prefetches the tile of C, which is read and written at the end, so that its lines are not missed
 * all at once (EPYC: 1.03 times as fast). AVX-512 builds do not: their cores have larger store
 * buffers, and 24 prefetches would delay the loads of A and B (Xeon: 1.00 to 1.08 times as fast
 * without them). */
INLINE void gemm_prefetch_c(const gemm_micro of, const cti_gemm_params *params, real *c) {
    if (CTI_VECTOR_BYTES == 64) return;
    UNROLL
    for (int i = 0; i < of.rows; i++) {
        UNROLL
        for (int at = 0; at < of.vectors * (int)sizeof(gemm_vec); at += 64)
            __builtin_prefetch((char *)(c + i * params->row) + at, 1);
    }
}

/* Writes c = base + v, or c = v if base is NULL. */
INLINE void gemm_add_to(const real *base, gemm_vec v, real *c, bool masked, int64_t n) {
    gemm_store_if(c, base ? gemm_load_if(base, masked, n) + v : v, masked, n);
}

/* Writes C = base + alpha sum. */
INLINE void gemm_store_tile(const gemm_micro of, const cti_gemm_params *params, int64_t last,
                            gemm_vec sum[MR_NARROW][NV], const real *base, real *c) {
    const real alpha = (real)params->alpha;
    const int64_t row = params->row, base_row = params->base_row;
    if (alpha != 1) {
        UNROLL
        for (int i = 0; i < of.rows * of.vectors; i++) sum[i / of.vectors][i % of.vectors] *= alpha;
    }
    UNROLL
    for (int i = 0; i < of.rows; i++) {
        UNROLL
        for (int j = 0; j < of.vectors; j++)
            gemm_add_to(base ? base + j * LANES : NULL, sum[i][j], c + j * LANES,
                        of.masked && j == of.vectors - 1, last);
        c += row;
        if (base) base += base_row;
        /* Keeps compilers from computing the addresses of later rows early: a row costs one
         * addition. */
        __asm__("" : "+r"(c));
    }
}

/* The micro-kernel: C = base + alpha A B for a tile of n columns. */
INLINE void gemm_micro_kernel(const gemm_micro of, const cti_gemm_params *params, int64_t n,
                              const real *a, const real *b, const real *base, real *c) {
    const int unroll = of.layout == A_STRIDED ? 1 : UNROLL_K,
              lines = gemm_by_columns(of.layout) ? unroll : of.rows;
    const int64_t last = n - (of.vectors - 1) * LANES; /* columns of the last vector */
    const int64_t size = sizeof(real);
    const int64_t to_row = params->a_row * size,
                  to_k = of.layout == A_DENSE_ROWS ? size : params->a_col * size,
                  b_to_k = params->b_row * size;
    /* An FMA with an indexed memory operand splits into two micro-ops. AVX-512 tiles of one vector
     * have such operands, so each column of A has a base pointer of its own (1.03 to 1.04 times as
     * fast). */
    const int per_base =
        CTI_VECTOR_BYTES == 64 && of.vectors == 1 && gemm_by_columns(of.layout) ? 1 : 4;
    gemm_lines of_a = gemm_lines_of(per_base, lines, a, gemm_by_columns(of.layout) ? to_k : to_row),
               of_b = gemm_lines_of(4, unroll, b, b_to_k);
    const char *ahead = (const char *)a + PREFETCH_K * to_k;
    gemm_vec sum[MR_NARROW][NV] = {0};
    gemm_prefetch_c(of, params, c);
    const uint64_t k = (uint64_t)params->k,
                   unrolled = unroll; /* unsigned: the division is a shift */
    for (uint64_t iterations = k / unrolled; iterations > 0; iterations--) {
        gemm_opaque(&of_a), gemm_opaque(&of_b);
        UNROLL
        for (int u = 0; u < unroll; u++) {
            /* The first cache line of each column of A is prefetched, and also the last one of a
             * strided column: otherwise all MR broadcasts of the column would wait for them. */
            if (of.vectors > 1 && (of.layout == A_STRIDED || of.layout == A_DENSE_COLUMNS))
                __builtin_prefetch(ahead + (of.layout == A_DENSE_COLUMNS ? of_a.to[u] : 0));
            if (of.vectors > 1 && of.layout == A_STRIDED && of.rows > 3)
                __builtin_prefetch(ahead + (of.rows - 1) * to_row);
            gemm_rank_1(of, per_base, last, &of_a, &of_b, u, sum);
        }
        gemm_advance(per_base, lines, &of_a, unroll * to_k);
        gemm_advance(4, unroll, &of_b, unroll * b_to_k);
        ahead += unroll * to_k;
    }
    for (uint64_t left = k % unrolled; left > 0;
         left--, gemm_advance(per_base, lines, &of_a, to_k), gemm_advance(4, unroll, &of_b, b_to_k))
        gemm_rank_1(of, per_base, last, &of_a, &of_b, 0, sum);
    gemm_store_tile(of, params, last, sum, base, c);
}

/* ---- tiles ---- */

/* Micro-kernels are inlined into the gemm_tile_... functions, one for each size of a tile and each
 * layout of A. The gemm_tile_... functions are not inlined, because each uses all registers. Two
 * switches turn the rows and vectors of a tile into compile-time constants. */

/* Tells whether a micro-kernel of this size is needed. gemm_tile_full has the one of MR x NR
 * without a mask. */
INLINE bool gemm_has_tile(const gemm_micro of) {
    return of.vectors <= NV && of.rows <= (of.vectors == 1 ? MR_NARROW : MR) &&
           (of.masked || of.rows != MR || of.vectors != NV);
}

INLINE void gemm_tile_of_size(const gemm_micro of, const cti_gemm_params *params, int64_t n,
                              const real *a, const real *b, const real *base, real *c) {
    if (gemm_has_tile(of)) gemm_micro_kernel(of, params, n, a, b, base, c);
}

/* Computes a tile of `rows` rows. */
INLINE void gemm_tile_of_rows(const int rows, const bool masked, const gemm_a_layout layout,
                              const cti_gemm_params *params, int64_t n, const real *a,
                              const real *b, const real *base, real *c) {
    switch ((n + LANES - 1) / LANES) {
    case 1:
        gemm_tile_of_size((gemm_micro){rows, 1, masked, layout}, params, n, a, b, base, c);
        break;
    case 2:
        gemm_tile_of_size((gemm_micro){rows, 2, masked, layout}, params, n, a, b, base, c);
        break;
    case 3:
        gemm_tile_of_size((gemm_micro){rows, 3, masked, layout}, params, n, a, b, base, c);
        break;
    case 4:
        gemm_tile_of_size((gemm_micro){rows, 4, masked, layout}, params, n, a, b, base, c);
        break;
    }
}
_Static_assert((int)NV <= 4, "gemm_tile_of_rows has a case for each number of vectors");

INLINE void gemm_tile_of(const bool masked, const gemm_a_layout layout,
                         const cti_gemm_params *params, int64_t m, int64_t n, const real *a,
                         const real *b, const real *base, real *c) {
    switch (m) {
    case 1: gemm_tile_of_rows(1, masked, layout, params, n, a, b, base, c); break;
    case 2: gemm_tile_of_rows(2, masked, layout, params, n, a, b, base, c); break;
    case 3: gemm_tile_of_rows(3, masked, layout, params, n, a, b, base, c); break;
    case 4: gemm_tile_of_rows(4, masked, layout, params, n, a, b, base, c); break;
    case 5: gemm_tile_of_rows(5, masked, layout, params, n, a, b, base, c); break;
    case 6: gemm_tile_of_rows(6, masked, layout, params, n, a, b, base, c); break;
    case 7: gemm_tile_of_rows(7, masked, layout, params, n, a, b, base, c); break;
    case 8: gemm_tile_of_rows(8, masked, layout, params, n, a, b, base, c); break;
    case 9: gemm_tile_of_rows(9, masked, layout, params, n, a, b, base, c); break;
    case 10: gemm_tile_of_rows(10, masked, layout, params, n, a, b, base, c); break;
    case 11: gemm_tile_of_rows(11, masked, layout, params, n, a, b, base, c); break;
    case 12: gemm_tile_of_rows(12, masked, layout, params, n, a, b, base, c); break;
    case 13: gemm_tile_of_rows(13, masked, layout, params, n, a, b, base, c); break;
    case 14: gemm_tile_of_rows(14, masked, layout, params, n, a, b, base, c); break;
    case 15: gemm_tile_of_rows(15, masked, layout, params, n, a, b, base, c); break;
    case 16: gemm_tile_of_rows(16, masked, layout, params, n, a, b, base, c); break;
    }
}
_Static_assert((int)MR_NARROW <= 16, "gemm_tile_of has a case for each number of rows");

/* Computes tiles smaller than MR x NR that have whole vectors of columns, for A dense along K. */
__attribute__((noinline)) static void gemm_tile_a_rows(const cti_gemm_params *params, int64_t m,
                                                       int64_t n, const real *a, const real *b,
                                                       const real *base, real *c) {
    gemm_tile_of(false, A_DENSE_ROWS, params, m, n, a, b, base, c);
}

/* Computes the same tiles for A dense along M. */
__attribute__((noinline)) static void gemm_tile_a_columns(const cti_gemm_params *params, int64_t m,
                                                          int64_t n, const real *a, const real *b,
                                                          const real *base, real *c) {
    gemm_tile_of(false, A_DENSE_COLUMNS, params, m, n, a, b, base, c);
}

/* Computes tiles with a masked vector, or with an A that is strided in both dims. */
__attribute__((noinline)) static void gemm_tile_edge(const cti_gemm_params *params, int64_t m,
                                                     int64_t n, const real *a, const real *b,
                                                     const real *base, real *c) {
    gemm_tile_of(true, A_STRIDED, params, m, n, a, b, base, c);
}

/* Computes a tile of MR x NR. */
INLINE void gemm_tile_full_of(const gemm_a_layout layout, const cti_gemm_params *params, int64_t n,
                              const real *a, const real *b, const real *base, real *c) {
    const gemm_micro of = {MR, NV, false, layout};
    gemm_micro_kernel(of, params, n, a, b, base, c);
}
__attribute__((noinline)) static void gemm_tile_full(const cti_gemm_params *params, int64_t n,
                                                     const real *a, const real *b, const real *base,
                                                     real *c) {
    if (params->a_col == 1) gemm_tile_full_of(A_DENSE_ROWS, params, n, a, b, base, c);
    else if (params->a_row == 1 && params->a_col == MR)
        gemm_tile_full_of(A_PACKED, params, n, a, b, base, c);
    else if (params->a_row == 1) gemm_tile_full_of(A_DENSE_COLUMNS, params, n, a, b, base, c);
    else gemm_tile_full_of(A_STRIDED, params, n, a, b, base, c);
}

INLINE void gemm_tile_c_dense(const cti_gemm_params *params, int64_t m, int64_t n, const real *a,
                              const real *b, const real *base, real *c) {
    if (m == MR && n == NR) gemm_tile_full(params, n, a, b, base, c);
    else if (n % LANES == 0 && params->a_col == 1) gemm_tile_a_rows(params, m, n, a, b, base, c);
    else if (n % LANES == 0 && params->a_row == 1) gemm_tile_a_columns(params, m, n, a, b, base, c);
    else gemm_tile_edge(params, m, n, a, b, base, c);
}

/* Computes a dense tile on the stack, then adds or copies it to a C whose columns are strided. */
__attribute__((noinline)) static void gemm_tile_c_strided(const cti_gemm_params *params, int64_t m,
                                                          int64_t n, const real *a, const real *b,
                                                          const real *base, real *c) {
    real tile[MR_NARROW * NR];
    cti_gemm_params dense = *params;
    dense.row = NR, dense.col = 1;
    gemm_tile_c_dense(&dense, m, n, a, b, NULL, tile);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = i * params->row + j * params->col;
            c[at] = base ? base[i * params->base_row + j * params->col] + tile[i * NR + j]
                         : tile[i * NR + j];
        }
}

INLINE void gemm_tile(const cti_gemm_params *params, int64_t m, int64_t n, const real *a,
                      const real *b, const real *base, real *c) {
    if (params->col == 1) gemm_tile_c_dense(params, m, n, a, b, base, c);
    else gemm_tile_c_strided(params, m, n, a, b, base, c);
}

/* Returns the rows of each tile if m rows are cut into equal tiles of at most `most` rows. It
 * divides 32-bit numbers, which takes fewer cycles. */
INLINE int64_t gemm_equal_rows(int64_t m, int64_t most) {
    if (m > INT32_MAX) return most;
    const uint32_t rows = (uint32_t)m, tiles = (rows + (uint32_t)most - 1) / (uint32_t)most;
    return (rows + tiles - 1) / tiles;
}

/* ---- the macro-kernel ---- */

/* Multiplies each MR rows of A by all panels of B. Rows are cut equally, not into tiles of MR rows
 * and a rest: a tile of few rows has too few accumulators to hide the latency of FMA. */
__attribute__((noinline)) static void gemm_tiles(const cti_gemm_params *params, int64_t m,
                                                 int64_t n, const real *a, const char *b,
                                                 int64_t panel, const real *base, real *c) {
    const int64_t most = n > LANES ? MR : MR_NARROW, rows = m > most ? gemm_equal_rows(m, most) : m;
    for (int64_t i = 0; i < m; i += rows) {
        const char *b_at = b;
        for (int64_t j = 0; j < n; j += NR, b_at += panel) {
            const int64_t at = j * params->col;
            gemm_tile(params, m - i < rows ? m - i : rows, n - j < NR ? n - j : NR,
                      a + i * params->a_row, (const real *)b_at,
                      base ? base + i * params->base_row + at : NULL, c + i * params->row + at);
        }
    }
}

static void gemm_macro_kernel(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                              const void *b, int64_t panel, const void *base, void *c) {
    if (n <= NR && m <= (n > LANES ? MR : MR_NARROW)) gemm_tile(params, m, n, a, b, base, c);
    else gemm_tiles(params, m, n, a, b, panel, base, c);
}

static void gemm_dots(const cti_gemm_rows *g) { gemm_dots_of(OF_STORED, g); }
static void gemm_gemv(const cti_gemm_rows *g) { gemm_gemv_of(OF_STORED, g); }

#define GEMM_KERNELS_WITH(pack, dots_, gemv_)                                                      \
    {.mr = MR,                                                                                     \
     .nr = NR,                                                                                     \
     .lanes = LANES,                                                                               \
     .mr_narrow = MR_NARROW,                                                                       \
     .kc = KC,                                                                                     \
     .tuning = GEMM_TUNING,                                                                        \
     .packed_bytes = sizeof(real),                                                                 \
     .k_unit = 1,                                                                                  \
     .pack_a = gemm_pack_a,                                                                        \
     .pack_b = (pack),                                                                             \
     .macro_kernel = gemm_macro_kernel,                                                            \
     .dots = (dots_),                                                                              \
     .gemv = (gemv_)}
#define GEMM_KERNELS GEMM_KERNELS_WITH(gemm_pack_b, gemm_dots, gemm_gemv)

#endif
