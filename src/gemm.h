/* C = alpha A B, or C += alpha A B: matrices with any strides, batches of them, on all threads. */
#ifndef CT_SRC_GEMM_H
#define CT_SRC_GEMM_H

#include <cotangent/types.h>

/* A matrix in a batch of them: element (i, j) of matrix b is data[b batch + i row + j col], in elements; batch 0 repeats one. */
typedef struct {
    void *data;
    int64_t row, col, batch;
} ct_matrix;

/* For each of `batch`: C (m, n) = alpha A (m, k) B (k, n); with add, C += that. k = 0 gives zeros (adds nothing). dtype is
 * f32 or f64. Each element of C is summed in one order, whatever the threads. False: CT_ERR_MEMORY. */
bool ct_gemm(ct_context *context, ct_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha, ct_matrix a, ct_matrix b,
             bool add, ct_matrix c);

#endif
