/* Matrix products: C = alpha A B, or C += alpha A B, for matrices with any strides and for batches
 * of them, on all threads.
 *
 * A caller fills cti_gemm_args and calls cti_gemm. A small product is one inline call of the
 * macro-kernel; any other gets a plan (gemm_plan.h), which gemm.c and gemm_blocked.c carry out.
 * contract.h computes a product of tensors with batch dims by such products. */
#ifndef CTI_GEMM_GEMM_H
#define CTI_GEMM_GEMM_H

#include "../core/assert.h"
#include "../core/isa.h"
#include "../core/profile.h"
#include "../kernels/products.h"

/* A batch of matrices: element (i, j) of matrix b is data[b batch + i row + j col]. Strides are in
 * elements and may be negative or 0; with batch 0 all b are the same matrix. dtype is the type of
 * the elements in memory. A matrix of blocks is a whole tensor or its transpose: one of its strides
 * is 1, and the other is the length of a line (../kernels/block_line.h). */
typedef struct {
    void *data;
    int64_t row, col, batch;
    ct_dtype dtype;
} cti_matrix;

/* Returns a matrix in a tensor's memory. All fields are set by name: if one is left out, GCC first
 * clears the whole struct by rep stos, some 30 cycles. */
static inline cti_matrix cti_matrix_of(const ct_tensor *t, int64_t row, int64_t col) {
    return (cti_matrix){.data = t->data, .row = row, .col = col, .batch = 0, .dtype = t->dtype};
}

static inline cti_matrix cti_matrix_transposed(const cti_matrix *x) {
    return (cti_matrix){
        .data = x->data, .row = x->col, .col = x->row, .batch = x->batch, .dtype = x->dtype};
}

static inline void *cti_matrix_at(const cti_matrix *x, int64_t matrix, int64_t row, int64_t col) {
    CTI_ASSERT(!cti_is_blocks(x->dtype));
    return (char *)x->data +
           (matrix * x->batch + row * x->row + col * x->col) * (int64_t)cti_dtype_size(x->dtype);
}

/* In a matrix of blocks: whether columns are the lines, the length of a line, and the line with
 * element (row, col), in which this is element `col`, or `row` if columns are the lines. */
static inline bool cti_lines_are_columns(const cti_matrix *x) { return x->col != 1; }
static inline int64_t cti_line_length(const cti_matrix *x) {
    return cti_lines_are_columns(x) ? x->col : x->row;
}
static inline void *cti_line_at(const cti_matrix *x, int64_t row, int64_t col) {
    CTI_ASSERT(cti_is_blocks(x->dtype) && (x->row == 1) == cti_lines_are_columns(x));
    return (char *)x->data +
           (cti_lines_are_columns(x) ? col : row) * cti_dtype_bytes(x->dtype, cti_line_length(x));
}

/* The start of C, and a function that completes its tiles. C starts from zero, from its present
 * values (add: C +=) or from a bias. A tile of C is complete when all of K has been summed; then
 * the worker that computed it calls apply, while the tile is in the cache of its core. The tile is
 * rows x cols, its first element is at c->data, and it has the strides of C. Every element of C is
 * in exactly one tile. apply neither fails nor allocates. */
typedef struct {
    bool add;
    const void *bias; /* NULL, or n elements, from which every row of C starts; then add is false */
    void (*apply)(void *arg, const cti_matrix *c, int64_t rows, int64_t cols); /* or NULL */
    void *arg;
} cti_gemm_epilogue;

/* C (m, n) = alpha A (m, k) B (k, n), for each matrix of the batch. For k = 0 A B is zero. C
 * overlaps neither A nor B. */
typedef struct {
    int64_t batch, m, n, k;
    double alpha;
    cti_matrix a, b, c;
    const cti_gemm_epilogue *epilogue; /* NULL if C starts from zero and nothing is called */
} cti_gemm_args;

/* The computed type, f32 or f64, is the type of the arithmetic, of packed panels and of partial
 * sums. C has it; A and B have it, or are of bf16 (B: or of blocks) and are computed in f32. */
static inline ct_dtype cti_gemm_computed_type(const cti_gemm_args *g) {
    return cti_dtype_computed(g->a.dtype);
}

static inline bool cti_gemm_has_bf16(const cti_gemm_args *g) {
    return g->a.dtype == CT_BF16 || g->b.dtype == CT_BF16;
}
/* Whether A or B is of another type than the computed one. */
static inline bool cti_gemm_is_mixed(const cti_gemm_args *g) {
    return cti_gemm_has_bf16(g) || cti_is_blocks(g->b.dtype);
}

/* Returns the kernels that take A in the computed type and B in its own. */
static inline const cti_gemm_kernels *cti_gemm_kernels_of(const cti_isa *isa,
                                                          const cti_gemm_args *g) {
    const cti_kernels *kernels = isa->of[cti_gemm_computed_type(g)];
    switch (g->b.dtype) {
    case CT_BF16: return kernels->gemm_of_bf16;
    case CT_Q8_0: return kernels->gemm_of_q8_0;
    case CT_Q4_0: return kernels->gemm_of_q4_0;
    case CT_F32:
    case CT_F64:
    case CT_I64:
    case CT_BOOL: break;
    }
    return kernels->gemm;
}

/* Computes a product of any size by a plan. False: CT_ERR_MEMORY. */
bool cti_gemm_planned(ct_context *context, const cti_gemm_args *g);

static inline bool cti_gemm_is_small(int64_t m, int64_t n, int64_t k) {
    /* The first test bounds each of the three (CTI_GEMM_SMALL is a power of two), so that their
     * product does not overflow. */
    return (m | n | k) < CTI_GEMM_SMALL && m * n * k <= CTI_GEMM_SMALL;
}

/* Sums the K block [k0, k0 + kl) into all of C by one call of the macro-kernel. b is the first row
 * of the block in B, in place or packed: rows are b_row elements apart, panels of nr columns
 * `panel` bytes apart. With add the block is added to the present values of C; otherwise C starts
 * from the bias, or from zero. */
static inline void cti_gemm_macro_kernel(const cti_gemm_kernels *kernels, const cti_gemm_args *g,
                                         int64_t k0, int64_t kl, const void *b, int64_t b_row,
                                         int64_t panel, bool add) {
    const cti_gemm_params params = {.k = kl,
                                    .a_row = g->a.row,
                                    .a_col = g->a.col,
                                    .b_row = b_row,
                                    .row = g->c.row,
                                    .col = g->c.col,
                                    .base_row = add ? g->c.row : 0,
                                    .alpha = g->alpha};
    const void *base = add ? g->c.data : g->epilogue ? g->epilogue->bias : NULL;
    kernels->macro_kernel(&params, g->m, g->n, cti_matrix_at(&g->a, 0, 0, k0), b, panel, base,
                          g->c.data);
}

/* Computes small products that cti_gemm does not compute inline: by gemv if A is a row, and by the
 * macro-kernel with B packed on the stack if rows of B are not dense or are of bf16. Other products
 * (B of blocks, columns of C not dense, dot products) go to cti_gemm_planned. */
bool cti_gemm_small(ct_context *context, const cti_gemm_args *g);

/* Adds the work of a product to a profile. */
__attribute__((cold)) void cti_gemm_count(ct_context *context, int64_t batch, int64_t m, int64_t n,
                                          int64_t k);

/* Computes a product. A matrix of bf16 or of blocks gives C the bits that the same numbers in f32
 * give. The order in which an element of C is summed follows from sizes and strides, never from
 * threads, from caches or from the choice among the three functions. False: CT_ERR_MEMORY.
 *
 * The inline branch does not take the address of *g, so that the args of a caller stay in
 * registers; only the other branches copy them to memory. An 8 x 8 x 8 product is 1.01 times as
 * fast as with args that are always in memory, with AVX-512 1.05. */
static inline bool cti_gemm(ct_context *context, const cti_gemm_args *g) {
    CTI_ASSERT(g->batch >= 0 && g->m >= 0 && g->n >= 0 && g->k >= 0);
    CTI_ASSERT(g->c.dtype == cti_gemm_computed_type(g));
    CTI_ASSERT(g->b.dtype == g->c.dtype || (cti_gemm_is_mixed(g) && g->c.dtype == CT_F32));
    CTI_ASSERT(!cti_is_blocks(g->a.dtype));
    CTI_ASSERT(!g->epilogue || !g->epilogue->add || !g->epilogue->bias);
    if (context->observed) cti_gemm_count(context, g->batch, g->m, g->n, g->k);
    const bool small = g->batch == 1 && g->k > 0 && g->k < CTI_GEMM_DEEP &&
                       cti_gemm_is_small(g->m, g->n, g->k) && /* one K block */
                       context->rows != CTI_ROWS_MANY;        /* which are never small */
    if (!small || g->m <= 1 || g->n <= 1 || g->b.col != 1 || g->c.col != 1 ||
        cti_gemm_is_mixed(g)) {
        const cti_gemm_args args = *g;
        return small ? cti_gemm_small(context, &args) : cti_gemm_planned(context, &args);
    }
    const cti_gemm_kernels *kernels = context->isa->of[cti_gemm_computed_type(g)]->gemm;
    const cti_gemm_epilogue *e = g->epilogue;
    const int64_t panel = kernels->nr * (int64_t)cti_dtype_size(g->b.dtype);
    cti_gemm_macro_kernel(kernels, g, 0, g->k, g->b.data, g->b.row, panel, e && e->add);
    if (e && e->apply) {
        const cti_matrix c = g->c;
        e->apply(e->arg, &c, g->m, g->n);
    }
    return true;
}

/* Computes C (m, n) = A (m, k) B (k, n) for single matrices. It is always inlined, so that the args
 * of a small product stay in registers. */
static inline __attribute__((always_inline)) bool
cti_gemm_single(ct_context *context, int64_t m, int64_t n, int64_t k, const cti_matrix *a,
                const cti_matrix *b, const cti_matrix *c, const cti_gemm_epilogue *epilogue) {
    const cti_gemm_args g = {.batch = 1,
                             .m = m,
                             .n = n,
                             .k = k,
                             .alpha = 1,
                             .epilogue = epilogue,
                             .a = *a,
                             .b = *b,
                             .c = *c};
    return cti_gemm(context, &g);
}

#endif
