/* Matrix products: C = alpha A B, or C += alpha A B, for matrices with any strides, batches of
 * them, on all threads.
 *
 * gemm_args says what is asked. A small product goes straight to the macro-kernel, inline; any
 * other gets a plan (gemm_plan.h), which gemm.c and gemm_blocked.c carry out. contract.h reads
 * products of tensors with batch dims as such products. */
#ifndef CTI_GEMM_GEMM_H
#define CTI_GEMM_GEMM_H

#include "../core/context.h"

/* A matrix in a batch of them: element (i, j) of matrix b is data[b batch + i row + j col], in
 * elements; batch 0 repeats one. dtype is the type it is stored in. */
typedef struct {
    void *data;
    int64_t row, col, batch;
    ct_dtype dtype;
} cti_matrix;

/* A matrix in a tensor's memory. All fields are named: if some are not, GCC clears the whole struct
 * first, by rep stos, which takes some 30 cycles. */
static inline cti_matrix cti_matrix_of(const ct_tensor *t, int64_t row, int64_t col) {
    return (cti_matrix){.data = t->data, .row = row, .col = col, .batch = 0, .dtype = t->dtype};
}

static inline cti_matrix cti_matrix_transposed(const cti_matrix *x) {
    return (cti_matrix){
        .data = x->data, .row = x->col, .col = x->row, .batch = x->batch, .dtype = x->dtype};
}

static inline void *cti_matrix_at(const cti_matrix *x, int64_t item, int64_t row, int64_t col) {
    return (char *)x->data +
           (item * x->batch + row * x->row + col * x->col) * (int64_t)cti_dtype_size(x->dtype);
}

/* How a product begins and ends. It begins with nothing (C =), with what is there (add: C +=) or
 * with a bias. When a tile of C is complete, apply is called for it, by the worker that completed
 * it and while it is in that core's cache. A tile is rows x cols, with its first element at c->data
 * and the strides of C; every element of C is in exactly one tile, and
 * c->data says which. No error and no allocation in apply. */
typedef struct {
    bool add;
    const void *bias; /* n elements, one row for all rows of C; or NULL. Not with add */
    void (*apply)(void *arg, const cti_matrix *c, int64_t rows, int64_t cols); /* or NULL */
    void *arg;
} cti_gemm_epilogue;

/* For each of `batch`: C (m, n) = alpha A (m, k) B (k, n). For k = 0 the product is zeros. C
 * overlaps neither A nor B. */
typedef struct {
    int64_t batch, m, n, k;
    double alpha;
    cti_matrix a, b, c;
    const cti_gemm_epilogue *epilogue; /* or NULL: C = */
} cti_gemm_args;

/* The type that a product is computed in, f32 or f64. Packed panels and partial sums are of this
 * type; strides and sizes of a matrix in place go by its own. Today all three matrices are of it.
 * One that is not has to be packed, which converts it: plan_packing in gemm_plan.c decides that. */
static inline ct_dtype cti_gemm_computed_type(const cti_gemm_args *g) {
    return cti_dtype_computed(g->a.dtype);
}

/* The planned entrance: any product. False: CT_ERR_MEMORY. */
bool cti_gemm_planned(ct_context *context, const cti_gemm_args *g);

static inline bool cti_gemm_is_small(int64_t m, int64_t n, int64_t k) {
    /* Each is compared first, so that the product does not overflow. */
    return (m | n | k) < CTI_GEMM_SMALL && m * n * k <= CTI_GEMM_SMALL;
}

/* One call of the macro-kernel, for K block [k0, k0 + kl) of all of C. B is in place or packed:
 * rows b_row elements apart, panels `panel` bytes apart. add: onto C. */
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

/* The small entrance where the macro-kernel does not fit as it is: a row times a matrix is gemv,
 * and a B whose rows are not dense is packed on the stack. What is neither is planned. */
bool cti_gemm_small(ct_context *context, const cti_gemm_args *g);

/* A product, by whichever entrance. Each element of C is summed in one order, whatever the threads,
 * the caches and the entrance. False: CT_ERR_MEMORY. The macro-kernel's branch takes no address of
 * g's, so a caller's args stay in registers and are written to memory for the other branches only:
 * 8 x 8 x 8 1.01, and with AVX-512 1.05, against args that are always written. */
static inline bool cti_gemm(ct_context *context, const cti_gemm_args *g) {
    const bool small = g->batch == 1 && g->k > 0 && g->k < CTI_GEMM_DEEP &&
                       cti_gemm_is_small(g->m, g->n, g->k); /* one K block */
    if (!small || g->m <= 1 || g->n <= 1 || g->b.col != 1 || g->c.col != 1) {
        const cti_gemm_args args = *g;
        return small ? cti_gemm_small(context, &args) : cti_gemm_planned(context, &args);
    }
    const cti_gemm_kernels *kernels = &context->isa->of[cti_gemm_computed_type(g)]->gemm;
    const cti_gemm_epilogue *e = g->epilogue;
    const int64_t panel = kernels->nr * (int64_t)cti_dtype_size(g->b.dtype);
    cti_gemm_macro_kernel(kernels, g, 0, g->k, g->b.data, g->b.row, panel, e && e->add);
    if (e && e->apply) {
        const cti_matrix c = g->c;
        e->apply(e->arg, &c, g->m, g->n);
    }
    return true;
}

#endif
