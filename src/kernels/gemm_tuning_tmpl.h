/* The numbers of matrix products: one line each, one column for each instruction set, with what was measured. docs/performance.md
 * (Products) tells the longer story. All ratios are time before / time after, one thread unless it says otherwise; "Xeon" is an AVX-512
 * core with L1d 48 KB in 12 ways, "EPYC" a Zen 3 core with AVX2 and L1d 32 KB in 8 ways.
 *
 * mr, nr, kc, micro-kernel, panel: as in gemm_tmpl.h. A line that is the same everywhere was not measured separately for each ISA; to
 * change one is to change a cell here, nowhere else. */
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

/* ---- the micro-kernels; MR, NV, MR_NARROW, KC and the DOT_ sizes are constants of the compiled loops ---- */
enum {
    /*                scalar NEON AVX2 AVX-512 */
    MR =        BY_ISA(   4,    8,   6,  12),   /* rows, and */
    NV =        BY_ISA(   4,    3,   2,   2),   /* vectors of columns: MR NV sums, NV of B and a broadcast in 16 (AVX2, scalar) or 32 registers */
    MR_NARROW = BY_ISA(   4,   16,  12,  16),   /* rows of a tile of one vector of columns: enough sums to hide the latency of FMA */
    NR = NV * LANES,
    DOT_ROWS =  BY_ISA(   6,    6,   3,   6),   /* of A times */
    DOT_COLS =  4,                              /* columns of B: sums of the dot-product micro-kernel, with one register for each column */
    GEMV_VECTORS = 8,                           /* sums of a row times a matrix: the latency of FMA times two a cycle */
    PREFETCH_K = 8,                             /* steps along K by which A, and what is packed, is fetched ahead: EPYC, packing 1.04 to 1.05,
                                                   A by columns 1.05 to 1.29 */
};

/* ---- what decides in which order an element of C is summed: may differ by ISA and type, never by caches or threads ---- */
enum {
    KC = BY_TYPE(768, 512),                     /* longest K block: 1.01 to 1.02 over half as long where K is deep */
    DOTS_MAX_M = 32,                            /* A B' with both dense along K is dot products where M is at most this */
    DOTS_K_PER_M = 20,                          /* and K at least so many times M: 20 x 512 by 512 1.24, 10 rows 1.76, 6 rows 2.6 */
    SPLIT_K_C_BYTES = 256 << 10,                /* a C up to this size, and K > M, N, has at least two K blocks, for threads to share */
};
_Static_assert((int)KC >= (int)CTI_GEMM_DEEP, "a product with K < CTI_GEMM_DEEP is one K block: the small entrance relies on it");

/* ---- when what is packed, and how work is shared ---- */
enum { NEVER = 1 << 30 };
#define GEMM_TUNING { \
    .dots_max_m = DOTS_MAX_M, .dots_k_per_m = DOTS_K_PER_M, .split_k_c_bytes = SPLIT_K_C_BYTES, \
    /* B: packed unless its rows are in place */ \
    .b_min_tiles = 2,                  /* B is read in place under up to so many tiles of mr rows: packing is not paid back */ \
    .b_in_place_l2_eighths = 4,        /* B is read in place where its rows span at most this part of L2: EPYC 384 squared .78 -> 1.02 of OpenBLAS */ \
    .b_rows_per_l1d_set = 8,           /* and put no more rows in one L1d set. EPYC 768 x 128 by 384 1.12 to 1.14 */ \
    .b_conflict_min_tiles = 40,        /* with conflict misses in more than 2 sets: packed above so many tiles of rows */ \
    .b_panels_l2_eighths = 3,          /* packed panels of one worker: rest of L2 is A and C. EPYC 2,048 squared 1.03 to 1.06 */ \
    .b_shared_bytes = 1 << 20,         /* B up to this size is packed once, by all threads, */ \
    .b_shared_tiles = 8,               /* where each thread has at least so many tiles of rows */ \
    /* A: packed where more panels of B than this read it again */ \
    .a_stride_bytes = 256,             /* columns of A up to so far apart are read in place */ \
    .a_l2_eighths = 32,                /* A packed at once, by all threads, for all to read from L3: EPYC 2,048 squared 1.03 to 1.06 */ \
    .a_task_tiles = 8,                 /* tiles of rows that are one task of packing */ \
    .a_panels = { \
        {   /* L1d of up to 8 ways       scalar NEON AVX2 AVX-512 */ \
            .strided =                         BY_ISA(4, 4, 4, 4),    /* EPYC 128 squared A' 1.08, f64 1.15, against 16 */ \
            .sets_16 =                         BY_ISA(3, 3, 3, 3),    /* columns a multiple of 256 bytes apart: 256 x 1,024 by 64 1.11 */ \
            .sets_2 =                          BY_ISA(1, 1, 1, 1),    /* 2,048 bytes: 1,024 x 1,024 by 32 1.30; with 0 .85 to .95 */ \
            .set_1_beyond_l2 =                 BY_ISA(1, 1, 1, 1), \
            .rows_set_1 =                      BY_ISA(16, 16, 16, 16),   /* dense along K, rows 4,096 bytes apart: EPYC 1,024 squared .82 -> .95 of OpenBLAS */ \
        }, { /* of more ways */ \
            .strided =                         BY_ISA(4, 4, 4, BY_TYPE(8, 16)),   /* Xeon 1,024 x 256 by 64 1.22 to 1.26; AVX2 by 32 .68 to .92 */ \
            .sets_16 =                         BY_ISA(3, 3, 3, BY_TYPE(6, 12)),   /* Xeon 128 squared A' 1.12, f64 1.05 */ \
            .sets_2 =                          BY_ISA(1, 1, 1, BY_TYPE(2, 4)),    /* Xeon 1,024 x 1,024 by 64 1.13 */ \
            .set_1_beyond_l2 =                 BY_ISA(1, 1, 1, 2),                /* Xeon f64 1,024 x 1,024 by 64 1.26 to 1.41 over 4 */ \
            .rows_set_1 =                      BY_ISA(NEVER, NEVER, NEVER, NEVER),   /* Xeon 1,024 squared 1.03 to 1.04, f64 1.06 to 1.13 */ \
        }, \
    }, \
    /* tasks of threads */ \
    .task_flops = 1 << 18,             /* multiply-adds of a task, at least: some 3 us, against one atomic addition and a cold start */ \
    .row_task_flops = 1 << 16,         /* of gemv and dots, which read B once: bound by memory */ \
    .tasks_per_thread = 4, .useful = 0.93,   /* or tiles of C are halved: so many tasks, and this part of all threads' time is work */ \
    .mc_min_tiles = 2, .nc_min_panels = 2,   /* a task of threads is at least so many tiles by panels; */ \
    .mc_min_tiles_private_b = 20,      /* with B packed by each worker more rows: they pay for packing */ \
    .split_k_pass_bytes = 8 << 10,     /* of a row of A that one pass of split-K sums: bounds the memory of partial sums */ \
}

#endif
