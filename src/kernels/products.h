/* The kernels of matrix products, which src/gemm calls (products.c). */
#ifndef CTI_KERNELS_PRODUCTS_H
#define CTI_KERNELS_PRODUCTS_H

#include "kernels.h"

/* The data that all calls of a micro-kernel for one product, or one K block of it, have in common:
 * the length of K, the strides of A, B, C and the base (in elements), and alpha. */
typedef struct {
    int64_t k, a_row, a_col, b_row, row, col, base_row;
    double alpha;
} cti_gemm_params;

/* C (m, n) = alpha A (m, k) B (k, n), or C += with add, computed by dots or gemv. Element (i, j) of
 * A is at i a_row + j a_col, of B at i b_row + j b_col, of C at i row + j col.
 *
 * In a B of blocks the dense dim is a line (block_line.h), and the stride of the other dim is its
 * length. b is the line with element (0, 0), which is element b_first of the line. */
typedef struct {
    int64_t m, n, k, a_row, a_col, b_row, b_col, b_first, row, col;
    const void *a, *b;
    void *c;
    double alpha;
    bool add;
} cti_gemm_rows;

/* Numbers of the tuning table that inlined code and the size of an array need as constants. */
enum {
    CTI_GEMM_DEEP = 512, /* a product with K under this is one K block, on every ISA */
    /* The most multiply-adds of a small product: one thread has done them before another wakes. */
    CTI_GEMM_SMALL = 1 << 18,
    /* The most bytes of B that are packed on the stack. With that, 16 cubed with B transposed takes
     * 360 cycles instead of 461. */
    CTI_GEMM_STACK_B = 20 << 10,
    CTI_GEMM_ROUNDED_NR = 32, /* the largest nr of kernels that round */
    CTI_GEMM_BLOCKS_NR = 32,  /* the largest nr of kernels by which a B of blocks is packed */
};

/* A is packed if C has more panels of nr columns than the field for A's strides says. "In 3 to 16
 * sets" means that the columns, or rows, of A begin in so many different L1d sets
 * (src/core/cache_sets.h). */
typedef struct {
    int64_t strided;         /* columns more than a_stride_bytes apart, in over 16 sets */
    int64_t sets_16, sets_2; /* the same in 3 to 16 sets; in 1 or 2 */
    int64_t set_1_beyond_l2; /* the same in 1 set, a K block of columns spanning more than L2 */
    int64_t rows_set_1;      /* A is dense along K, and its rows begin in 1 set */
} cti_gemm_pack_a_panels;

/* When a product's operands are packed and how its work is shared (src/gemm/gemm_plan.c). The
 * values and their measurements are in gemm_tuning_tmpl.h. A tile is mr rows of C, a panel nr
 * columns; eighths are of a core's L2. */
typedef struct {
    /* The order of sums follows from these three: no cache and no thread may change them. */
    int64_t dots_max_m, dots_k_per_m, split_k_c_bytes;
    int64_t b_in_place_tiles, b_in_place_l2_eighths, b_rows_per_l1d_set;
    int64_t b_in_place_tiles_conflicts, b_conflict_offsets;
    int64_t b_panels_l2_eighths, b_shared_bytes, b_shared_tiles;
    int64_t a_stride_bytes, a_l2_eighths, a_task_tiles;
    int64_t a_few_ways;
    cti_gemm_pack_a_panels a_panels[2]; /* with an L1d of up to a_few_ways, and of more */
    int64_t task_flops, tasks_per_thread;
    double min_useful;
    int64_t row_task_flops, gemv_task_columns, dots_columns, dots_tasks_per_thread,
        zero_task_elements, sum_task_elements;
    int64_t mc_min_tiles, nc_min_panels, mc_min_tiles_private_b, split_k_pass_bytes;
    /* The least M and N, and the least number of multiply-adds, of a product whose operands are
     * rounded; used only by kernels that round. */
    int64_t rounded_lines, rounded_flops;
} cti_gemm_tuning;

/* C = A B or C += A B: the kernels that src/gemm calls. The micro-kernels are not here: the
 * macro-kernel runs them over tiles of C. */
struct cti_gemm_kernels {
    int64_t mr, nr;           /* the micro-kernel's tile of C */
    int64_t lanes, mr_narrow; /* a tile of at most `lanes` columns has up to mr_narrow rows */
    /* The longest K block, at least CTI_GEMM_DEEP except in kernels that round. It is a constant,
     * because no sum may depend on caches or threads. */
    int64_t kc;
    cti_gemm_tuning tuning;
    /* A packed panel has packed_bytes for each k of a row of A or a column of B. K is padded with
     * zeros to a multiple of k_unit, a power of two. */
    int64_t packed_bytes, k_unit;
    /* A thread calls begin before, and end after, its calls of the macro-kernel; NULL if there is
     * nothing to do. */
    void (*begin)(void), (*end)(void);
    /* Lowers *least to the bits of the least magnitude of n numbers that is not 0, and raises *most
     * to the bits of the greatest. The smallest term of a product must not vanish and no sum may
     * overflow (see cti_gemm_in_range). NULL unless the kernels split operands into terms (bf16x3,
     * bf16x6). */
    void (*magnitudes)(int64_t n, const void *x, int64_t step, uint32_t *least, uint32_t *most);
    /* Packs m x k of A as panels of k columns of mr, the last one zero-padded; k x n of B as panels
     * of k rows of nr. The matrix is of the table's dtype, the panels are of the computed type. */
    void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t row_stride, int64_t col_stride,
                   void *packed);
    void (*pack_b)(int64_t k, int64_t n, const void *b, int64_t row_stride, int64_t col_stride,
                   void *packed);
    /* The macro-kernel: C[m x n] = base + alpha A B, any m and n. A has any strides; a packed A is
     * given one panel at a time (row stride 1, column stride mr, m at most mr). B is given as
     * panels of nr columns, `panel` bytes apart, with dense rows. If B is in place, `panel` is the
     * size of nr elements; if it is packed, its rows are nr apart. base is NULL (zero), C itself,
     * or one row for all rows of C (base_row 0); its columns have C's stride. All are of the
     * computed type. */
    void (*macro_kernel)(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                         const void *b, int64_t panel, const void *base, void *c);
    /* Products for which nothing is packed. dots computes any m and n by dot products of A's rows
     * and B's columns, both dense along K. gemv computes one row, m = 1, for k <= kc and any
     * strides. B is of the table's dtype, A and C are of the computed type. */
    void (*dots)(const cti_gemm_rows *), (*gemv)(const cti_gemm_rows *);
    /* out[i] = element first + i of a line of blocks, i < n; NULL if B is not of blocks. dots then
     * takes whole lines along K, and gemv a B and a C with dense rows. */
    void (*widen)(int64_t length, const void *line, int64_t first, int64_t n, float *out);
};

/* Bytes that K takes in a panel, for each of its rows of A or columns of B. */
static inline int64_t cti_gemm_packed(const cti_gemm_kernels *kernels, int64_t k) {
    return ((k + kernels->k_unit - 1) & -kernels->k_unit) * kernels->packed_bytes;
}

#endif
