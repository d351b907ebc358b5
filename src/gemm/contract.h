/* Products of tensors with any number of batch dims, by as few and as large matrix products as
 * their strides allow. */
#ifndef CTI_GEMM_CONTRACT_H
#define CTI_GEMM_CONTRACT_H

#include "gemm.h"

/* A dim of a product, with the step it makes in A, B and C, in elements; 0 where it does not appear
 * or repeats. */
typedef struct {
    int64_t size, step[3];
} cti_contract_dim;

/* C = A B, or as the epilogue says (NULL: C =). m steps in A and C, n in B and C, k in A and B; a
 * batch dim in any of them. What does not step in C is summed over, in a fixed order. At most 8
 * batch dims. Of the tensors only data and dtype are read: the steps are the dims'. Columns of the
 * epilogue's tiles are n's: no batch dim joins them. One that steps in C joins m where it can, as
 * those of a dense x beside a weight do; else a tile has rows of one index of it. False:
 * CT_ERR_MEMORY. */
bool cti_contract(ct_context *context, const cti_contract_dim *m, const cti_contract_dim *n,
                  const cti_contract_dim *k, const cti_contract_dim *batch, int dims,
                  const ct_tensor *a, const ct_tensor *b, const cti_gemm_epilogue *epilogue,
                  const ct_tensor *c);

#endif
