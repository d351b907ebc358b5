/* The numbers of matrix products: a line each, a column for each instruction set, and what was
 * measured. The longer story is in docs/performance.md (Products). Ratios are time without over
 * time with, on one thread. "Xeon": AVX-512, an L1d of 48 KB in 12 ways; "EPYC": Zen 3, AVX2, an
 * L1d of 32 KB in 8 ways.
 *
 * A line with the same number in all columns was not measured for each of them; BY_ISA is the place
 * for a number that turns out to differ. */
#ifndef CTI_KERNELS_GEMM_TUNING_TMPL_H
#define CTI_KERNELS_GEMM_TUNING_TMPL_H

#include "kernels.h"
#include "simd.h"

#if CTI_VECTOR_BYTES == 64
#define BY_ISA(scalar, neon, avx2, avx512) avx512
#elif CTI_VECTOR_BYTES == 32
#define BY_ISA(scalar, neon, avx2, avx512) avx2
#elif CTI_VECTOR_BYTES == 16
#define BY_ISA(scalar, neon, avx2, avx512) neon
#else
#define BY_ISA(scalar, neon, avx2, avx512) scalar
#endif
#define BY_TYPE(f32, f64) (sizeof(real) == 4 ? (f32) : (f64))

/* clang-format off */

/* ---- the micro-kernels: constants of compiled loops ---- */
enum {
    /*                scalar NEON AVX2 AVX-512 */
    /* A tile of C: MR x NV sums, NV vectors of B and a broadcast fit 16 (AVX2) or 32 registers. */
    MR =        BY_ISA(   4,    8,   6,  12),   /* rows */
    NV =        BY_ISA(   4,    3,   2,   2),   /* vectors of columns */
    NR =        NV * LANES,                     /* columns */
    /* Rows of a tile of one vector of columns: more sums, to hide the latency of FMA. */
    MR_NARROW = BY_ISA(   4,   16,  12,  16),
    /* The tile of dot products: its sums are vectors along K. */
    DOT_ROWS =  BY_ISA(   6,    6,   3,   6),
    DOT_COLS =  BY_ISA(   4,    4,   4,   4),
    /* Vectors of columns of a gemv's tile: enough sums to hide the latency of FMA. */
    GEMV_VECTORS = BY_ISA(8,    8,   8,   8),
    /* Steps along K by which A in place and B to be packed are prefetched. A by columns: 1.05 to
     * 1.29; packing B, EPYC, 256 x 768 by 2,304: 1.05. */
    PREFETCH_K = BY_ISA(  8,    8,   8,   8),
};

/* ---- the order of sums: may differ by ISA and type, never by caches or threads ---- */
enum {
    /* The longest K block. Half as long: 1.01 to 1.02 slower where K is deep. */
    KC = BY_TYPE(768, 512),
    /* A B with A and B dense along K is dot products where M <= DOTS_MAX_M and M DOTS_K_PER_M <= K:
     * 20 x 512 by 512 1.24, 10 rows 1.76, 6 rows 2.6. */
    DOTS_MAX_M = 32,
    DOTS_K_PER_M = 20,
    /* Bytes of a C that may be split-K: where K > M, N, it has at least two K blocks. */
    SPLIT_K_C_BYTES = 256 << 10,
};
_Static_assert((int)KC >= (int)CTI_GEMM_DEEP, "K < CTI_GEMM_DEEP is one K block, on every ISA");

enum { NEVER = 1 << 30 };
#define GEMM_TUNING { \
    .dots_max_m = DOTS_MAX_M, .dots_k_per_m = DOTS_K_PER_M, .split_k_c_bytes = SPLIT_K_C_BYTES, \
    \
    /* ---- is B read in place? ---- */ \
    /* Under so many tiles of rows always: packing is not paid back. */ \
    .b_min_tiles = 2, \
    /* Above, if its rows span at most this part of L2: EPYC, 384 squared 1.31; */ \
    .b_in_place_l2_eighths = 4, \
    /* and at most so many of them begin in one L1d set: EPYC, 768 x 128 by 384 1.12 to 1.14. */ \
    .b_rows_per_l1d_set = 8, \
    /* Or, if they begin in more than 2 sets, under up to so many tiles of rows: as it was before \
     * the line above; not measured apart. */ \
    .b_conflict_min_tiles = 40, .b_conflict_offsets = 2, \
    \
    /* ---- packed B ---- */ \
    /* Panels of one worker; the rest of L2 is for A and C. */ \
    .b_panels_l2_eighths = 3, \
    /* B up to this size is packed once, by all threads, if each has at least so many tiles of \
     * rows: then threads share C by rows, and each finds its rows of A and C in its own L2. */ \
    .b_shared_bytes = 1 << 20, .b_shared_tiles = 8, \
    \
    /* ---- is A packed? If C has more panels of columns than: ---- */ \
    /* columns of A up to so many bytes apart are read in place; */ \
    .a_stride_bytes = 256, .a_few_ways = 8, \
    .a_panels = { \
        {   /* an L1d of up to 8 ways: scalar NEON AVX2 AVX-512 */ \
            /* columns further apart: EPYC, 128 squared A' 1.08, f64 1.15 over 16 panels; */ \
            .strided =         BY_ISA(    4,   4,   4,   4), \
            /* by multiples of 256 bytes: EPYC, 256 x 1,024 by 64 1.11; */ \
            .sets_16 =         BY_ISA(    3,   3,   3,   3), \
            /* of 2,048 bytes: EPYC, 1,024 x 1,024 by 32 1.30; 0 instead of 1: .85 to .95; */ \
            .sets_2 =          BY_ISA(    1,   1,   1,   1), \
            .set_1_beyond_l2 = BY_ISA(    1,   1,   1,   1), \
            /* dense along K, rows multiples of 4,096 bytes apart: EPYC, 1,024 squared 1.16. */ \
            .rows_set_1 =      BY_ISA(   16,  16,  16,  16), \
        }, \
        {   /* of more ways:           scalar NEON AVX2 AVX-512 */ \
            /* Xeon, 1,024 x 256 by 64 1.22 to 1.26, f64 1.09 to 1.26; AVX2 with 8: .68 to .92. */ \
            .strided =         BY_ISA(    4,   4,   4, BY_TYPE(8, 16)), \
            /* Xeon, 128 squared A' 1.12, f64 1.05. */ \
            .sets_16 =         BY_ISA(    3,   3,   3, BY_TYPE(6, 12)), \
            /* Xeon, 1,024 x 1,024 by 64 1.13. */ \
            .sets_2 =          BY_ISA(    1,   1,   1, BY_TYPE(2, 4)), \
            /* Xeon, f64 1,024 x 1,024 by 64 1.26 to 1.41 over 4. */ \
            .set_1_beyond_l2 = BY_ISA(    1,   1,   1,   2), \
            /* Xeon, 1,024 squared 1.03 to 1.04, f64 1.06 to 1.13 over 16. */ \
            .rows_set_1 =      BY_ISA(NEVER, NEVER, NEVER, NEVER), \
        }, \
    }, \
    \
    /* ---- packed A ---- */ \
    /* Packed at once, for all panels of B: EPYC, 2,048 squared 1.03 to 1.06 over half as much. */ \
    .a_l2_eighths = 32, \
    /* Tiles of rows that are one task of packing. */ \
    .a_task_tiles = 8, \
    \
    /* ---- tasks of threads ---- */ \
    /* Multiply-adds of a task: some 3 us. */ \
    .task_flops = 1 << 18, \
    /* Of gemv and dots, which are bound by memory; their columns are multiples of any vector. */ \
    .row_task_flops = 1 << 16, .gemv_columns = 256, .dots_columns = 64, \
    /* Elements of C that a task clears (K = 0), or adds to (split-K); not measured. */ \
    .zero_task_elements = 1 << 16, .sum_task_elements = 1 << 14, \
    /* Tiles of C are made smaller until each thread has so many tasks, and so much of all \
     * threads' time is work. */ \
    .tasks_per_thread = 4, .useful = 0.93, \
    /* But no smaller than so many tiles of rows by panels; where each worker packs B, first not \
     * below this many tiles of rows: they pay for packing. */ \
    .mc_min_tiles = 2, .nc_min_panels = 2, .mc_min_tiles_private_b = 20, \
    /* Bytes of a row of A that one pass of split-K sums: bounds the memory of partial sums. */ \
    .split_k_pass_bytes = 8 << 10, \
}
/* clang-format on */

#endif
