/* C = alpha A B, or C += alpha A B: matrices with any strides, batches of them, on all threads. */
#ifndef CTI_GEMM_GEMM_H
#define CTI_GEMM_GEMM_H

#include "../core/context.h"

/* A matrix in a batch of them: element (i, j) of matrix b is data[b batch + i row + j col], in elements; batch 0 repeats one. */
typedef struct {
    void *data;
    int64_t row, col, batch;
} cti_matrix;

/* How a product ends: by C =, with add C +=, or C = bias +, a bias of n elements for every row. Then done, unless it is NULL, is called for
 * blocks of C that are complete, by the worker that completed each and while it is in cache. A block is rows x cols, with its first
 * element at c->data and the strides of C; every element of C is in exactly one. Where it lies in C the caller knows from c->data. No
 * error, no allocation in done. */
typedef struct {
    bool add;
    const void *bias;   /* or NULL; not with add */
    void (*done)(void *arg, const cti_matrix *c, int64_t rows, int64_t cols);
    void *arg;
} cti_gemm_epilogue;

/* For each of `batch`: C (m, n) = alpha A (m, k) B (k, n), or as `end` says, which may be NULL; for k = 0 the product is zeros. dtype is
 * f32 or f64. Each element of C is summed in one order, whatever the threads. False: CT_ERR_MEMORY. (Pointers, because to pass a struct
 * that has just been written is to copy it, and to wait for that takes as long as a product of 8 x 8 x 8.) */
bool cti_gemm_any(ct_context *context, ct_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha, const cti_matrix *a,
                 const cti_matrix *b, const cti_gemm_epilogue *end, const cti_matrix *c);

/* Multiplications of a product, at most, that one thread does at once: before others would have heard of it. */
enum { CTI_GEMM_SMALL = 1 << 18 };
static inline bool cti_gemm_is_small(int64_t m, int64_t n, int64_t k) { return (m | n | k) < CTI_GEMM_SMALL && m * n * k <= CTI_GEMM_SMALL; }

/* The same. The plainest of the small ones go straight to the kernel: to describe them takes half as long as to compute them. */
static inline bool cti_gemm(ct_context *context, ct_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha,
                           const cti_matrix *a, const cti_matrix *b, const cti_gemm_epilogue *end, const cti_matrix *c) {
    const bool plain = batch == 1 && m > 1 && n > 1 && k > 0 && k < CTI_GEMM_DEEP && b->col == 1 && c->col == 1;
    if (!plain || !cti_gemm_is_small(m, n, k)) return cti_gemm_any(context, dtype, batch, m, n, k, alpha, a, b, end, c);
    const cti_gemm_kernels *f = &context->isa->of[dtype]->gemm;
    const bool add = end && end->add;
    const cti_gemm_form form = {k, a->row, a->col, b->row, c->row, 1, add ? c->row : 0, alpha};
    f->blocks(&form, m, n, a->data, b->data, f->nr * (int64_t)cti_dtype_size(dtype), add ? c->data : end ? end->bias : NULL, c->data);
    if (end && end->done) end->done(end->arg, c, m, n);
    return true;
}

/* A dim of a product, with the step it makes in A, B and C, in elements; 0 where it does not appear or repeats. */
typedef struct {
    int64_t size, step[3];
} cti_contract_dim;

/* C = A B, or C += A B: m steps in A and C, n in B and C, k in A and B; a batch dim in any of them. What does not step in C is
 * summed over, in a fixed order. At most 8 batch dims. The columns of end.done's blocks are n's: no batch dim joins them (one that steps
 * in C joins m where it can, as those of a dense x beside a weight do; else a block has rows of one index of it). False: CT_ERR_MEMORY. */
bool cti_contract(ct_context *context, ct_dtype dtype, const cti_contract_dim *m, const cti_contract_dim *n, const cti_contract_dim *k,
                 const cti_contract_dim *batch, int dims, void *a, void *b, const cti_gemm_epilogue *end, void *c);

#endif
