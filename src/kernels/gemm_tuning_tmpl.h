/* The tuning table of matrix products. A comment beside each threshold gives the measurement on
 * which it rests, and BY_ISA gives one value for each instruction set if they differ.
 * docs/notes/performance.md (Products) has the longer story.
 *
 * How to read a comment: "1.31" means that a product is 1.31 times as fast as with the alternative
 * that the comment names, or as with the opposite decision if it names none. Numbers are of f32 on
 * one thread unless stated otherwise; sizes are M x K by N. "Xeon" has AVX-512 and an L1d of 48 KB
 * in 12 ways. "EPYC" is a Zen 3 with AVX2 and an L1d of 32 KB in 8 ways. Most numbers were measured
 * on one of the two only. If another instruction set turns out to need another value, BY_ISA takes
 * it. */
#ifndef CTI_KERNELS_GEMM_TUNING_TMPL_H
#define CTI_KERNELS_GEMM_TUNING_TMPL_H

#include "products.h"
#include "simd.h"

#if CTI_VECTOR_BYTES == 64
#define BY_ISA(scalar, neon, avx2, avx512) avx512
#elif CTI_VECTOR_BYTES == 32 || (CTI_VECTOR_BYTES && defined __wasm_simd128__)
/* WebAssembly's engines keep its vectors in 16 registers on x86-64, as many as AVX2 has */
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
    /* The micro-kernel's tile of C: MR rows by NV vectors of columns. MR x NV accumulators, NV
     * vectors of B and a broadcast of A must fit into 16 (AVX2) or 32 vector registers. */
    MR =        BY_ISA(   4,    8,   6,  12),
    NV =        BY_ISA(   4,    3,   2,   2),
    NR =        NV * LANES,                     /* columns */
    /* The most rows of a tile that has one vector of columns: with MR rows it would have too few
     * accumulators to hide the latency of FMA. */
    MR_NARROW = BY_ISA(   4,   16,  12,  16),
    /* The tile of dot products: its largest numbers of rows of A, of columns of B and of
     * accumulators (vectors along K). EPYC (Zen 4), B of 50,257 columns, K 768: one tile of 8 x 3
     * 1.1 against two of 4 x 4; with AVX2 6 x 2 2.0 against two of 3 x 4. */
    DOT_ROWS =  BY_ISA(   4,    8,   6,   8),
    DOT_COLS =  BY_ISA(   4,    4,   3,   4),
    DOT_SUMS =  BY_ISA(  12,   24,  12,  24),
    /* The same numbers for a B of blocks: fewer accumulators, as codes and scales take registers
     * too; the columns that one row is multiplied by at once; the bytes of its prefetch. EPYC
     * (Zen 4), one token of SmolLM2: 4 columns 1.5 to 2 against 1, as a chain of FMAs takes longer
     * than its codes; 12 KB 1.05 to 1.2 against 6; without the prefetch of scales Q8_0 .6. */
    DOT_BLOCK_SUMS = BY_ISA(12,   16,  8,  16),
    DOT_BLOCK_COLS = 4,
    DOT_MOST_COLS = 4,
    DOT_BLOCK_AHEAD = 12 << 10,
    /* B is prefetched this many bytes beyond the start of the next tile: 6 KB 1.0 to 1.25 against
     * 0, 1.0 to 1.1 against 48 KB. The same for one row and a B of bf16: GPT-2 decodes 1.03 to 1.18
     * times as fast with it, a model of width 384 .95. */
    DOT_AHEAD = 6 << 10,
    /* The bytes of a group of columns, with more than DOT_ROWS rows. 16 rows: 1.12 to 1.2 against
     * no groups. */
    DOT_GROUP = 64 << 10,
    /* One row of A is multiplied by one column of B after the other, each a chain of FMAs, if a
     * vector of B has at least this many bytes. f32: 1.6 (AVX2 1.3) against DOT_COLS columns at
     * once. bf16 with AVX2 has 16 bytes and would be .65 to .75. */
    DOT_ROW_BYTES = 32,
    /* The tile of gemv, in vectors of columns: enough accumulators to hide the latency of FMA. */
    GEMV_VECTORS = BY_ISA(8,    8,   8,   8),
    /* A in place, and B while it is packed, are prefetched this many k ahead. A dense by columns:
     * 1.05 to 1.29 against no prefetch. Packing B, EPYC, 256 x 768 by 2,304: 1.05. */
    PREFETCH_K = BY_ISA(  8,    8,   8,   8),
};

/* ---- the order of sums: may differ by ISA and type, never by caches or threads ---- */
enum {
    /* The longest K block. Half as long: 1.01 to 1.02 times as slow if K has several blocks. */
    KC = BY_TYPE(768, 512),
    /* If A and B are dense along K, M <= DOTS_MAX_M and M DOTS_K_PER_M <= K, C is computed by dot
     * products. Against packing B: 20 x 512 by 512 1.24, 10 rows 1.76, 6 rows 2.6. */
    DOTS_MAX_M = 32,
    DOTS_K_PER_M = 20,
    /* The most bytes of C for split-K. If also K > M and K > N, there are at least two K blocks. */
    SPLIT_K_C_BYTES = 256 << 10,
};
_Static_assert((int)DOT_ROWS <= (int)MR_NARROW, "gemm_lines has so many lines");
_Static_assert((int)KC >= (int)CTI_GEMM_DEEP, "K < CTI_GEMM_DEEP is one K block, on every ISA");

enum { NEVER = 1 << 30 };
#define GEMM_TUNING { \
    .dots_max_m = DOTS_MAX_M, .dots_k_per_m = DOTS_K_PER_M, .split_k_c_bytes = SPLIT_K_C_BYTES, \
    \
    /* ---- B with dense rows: in place, or packed? ---- */ \
    /* B is in place if M is at most this many tiles of MR rows, because then packing does not pay \
     * off. */ \
    .b_in_place_tiles = 2, \
    /* B is packed if its rows span more than this many eighths of L2: EPYC, 384 x 384 by 384 \
     * 1.31. */ \
    .b_in_place_l2_eighths = 4, \
    /* Otherwise B is in place if at most this many of its rows begin in one L1d set: EPYC, 768 x \
     * 128 by 384, packed for 16 rows in a set, 1.12 to 1.14. */ \
    .b_rows_per_l1d_set = 8, \
    /* With more rows in a set B is still in place if M is at most this many tiles and the rows \
     * begin in more than 2 sets. This was not measured apart from the line above. */ \
    .b_in_place_tiles_conflicts = 40, .b_conflict_offsets = 2, \
    \
    /* ---- packed B ---- */ \
    /* A worker's panels take this many eighths of L2; the rest is for A and C. */ \
    .b_panels_l2_eighths = 3, \
    /* B of at most this size is packed once for all threads if each thread has at least this many \
     * tiles of rows. Threads then share C by rows only, and keep their rows of A and C in L2. */ \
    .b_shared_bytes = 1 << 20, .b_shared_tiles = 8, \
    \
    /* ---- A: in place, or packed? Packed if C has more panels of columns than a number below, \
     * which depends on A's strides and on the associativity of L1d. ---- */ \
    /* A is in place if its columns are at most this many bytes apart. */ \
    .a_stride_bytes = 256, \
    /* The first entry of a_panels is for an L1d of at most this many ways. */ \
    .a_few_ways = 8, \
    .a_panels = { \
        {   /* 8 ways or fewer:        scalar NEON AVX2 AVX-512 */ \
            /* Columns that are further apart than a_stride_bytes: EPYC, 128 x 128 by 128, A \
             * transposed, 1.08, f64 1.15 against a limit of 16. */ \
            .strided =         BY_ISA(    4,   4,   4,   4), \
            /* Columns a multiple of 256 bytes apart: EPYC, 256 x 1,024 by 64 1.11. */ \
            .sets_16 =         BY_ISA(    3,   3,   3,   3), \
            /* A multiple of 2,048 bytes: EPYC, 1,024 x 1,024 by 32 1.30; with a limit of 0 .85 to \
             * .95. */ \
            .sets_2 =          BY_ISA(    1,   1,   1,   1), \
            .set_1_beyond_l2 = BY_ISA(    1,   1,   1,   1), \
            /* Dense along K, rows a multiple of 4,096 bytes apart: EPYC, 1,024 cubed 1.16. */ \
            .rows_set_1 =      BY_ISA(   16,  16,  16,  16), \
        }, \
        {   /* more than 8 ways:       scalar NEON AVX2 AVX-512 */ \
            /* Xeon, 1,024 x 256 by 64 1.22 to 1.26, f64 1.09 to 1.26 against 4; its AVX2 kernels \
             * with 8 instead of 4: .68 to .92. */ \
            .strided =         BY_ISA(    4,   4,   4, BY_TYPE(8, 16)), \
            /* Xeon, 128 x 128 by 128, A transposed, 1.12, f64 1.05 against 3. */ \
            .sets_16 =         BY_ISA(    3,   3,   3, BY_TYPE(6, 12)), \
            /* Xeon, 1,024 x 1,024 by 64 1.13 against 1. */ \
            .sets_2 =          BY_ISA(    1,   1,   1, BY_TYPE(2, 4)), \
            /* Xeon, f64 1,024 x 1,024 by 64 1.26 to 1.41 against 4. */ \
            .set_1_beyond_l2 = BY_ISA(    1,   1,   1,   2), \
            /* Xeon, 1,024 cubed 1.03 to 1.04, f64 1.06 to 1.13 against 16. */ \
            .rows_set_1 =      BY_ISA(NEVER, NEVER, NEVER, NEVER), \
        }, \
    }, \
    \
    /* ---- packed A ---- */ \
    /* Eighths of L2 of A that are packed at once: 4 L2. B is packed anew for each such range of \
     * A. EPYC, 2,048 cubed 1.03 to 1.06 against 2 L2. */ \
    .a_l2_eighths = 32, \
    /* The tiles of MR rows that one task of packing A takes. */ \
    .a_task_tiles = 8, \
    \
    /* ---- tasks of threads ---- */ \
    /* The least multiply-adds of a task: some 3 us. */ \
    .task_flops = 1 << 18, \
    /* The same for gemv and dots, which are bound by memory. The columns of their tasks begin \
     * with these numbers, multiples of every vector, and are doubled until a task has \
     * row_task_flops. */ \
    .row_task_flops = 1 << 16, .gemv_task_columns = 256, .dots_columns = 64, \
    /* A dots task takes more columns if there are still this many tasks for each thread: each \
     * thread then reads long ranges of B. */ \
    .dots_tasks_per_thread = 16, \
    /* The elements of C that a task clears (K = 0), or to which it adds partial sums (split-K); \
     * not measured. */ \
    .zero_task_elements = 1 << 16, .sum_task_elements = 1 << 14, \
    /* A task's tile of C shrinks until each thread has at least this many tasks, and at least \
     * this fraction of all threads' time is work. */ \
    .tasks_per_thread = 4, .min_useful = 0.93, \
    /* The least rows of a task's tile, in tiles of MR rows, and its least columns, in panels. If \
     * each worker packs B, the least rows are mc_min_tiles_private_b as long as columns can be cut \
     * instead: a panel that is packed for few rows does not pay. */ \
    .mc_min_tiles = 2, .nc_min_panels = 2, .mc_min_tiles_private_b = 20, \
    /* The bytes of one row of A that a pass of split-K sums. They bound the memory of partial \
     * sums. */ \
    .split_k_pass_bytes = 8 << 10, \
    \
    /* ---- kernels that round to bf16 ---- */ \
    /* A product is rounded if M and N are at least rounded_lines: EPYC (Zen 4), AVX512-BF16, 16 x \
     * 512 by 512 1.26, its A transposed 1.03 to 1.26; 8 rows .93. M N K must also be more than \
     * rounded_flops: a smaller product outside of a batch is direct, and packs nothing. */ \
    .rounded_lines = 16, .rounded_flops = CTI_GEMM_SMALL, \
}
/* clang-format on */

#endif
