/* A product of tensors with batch dims is computed by as few and as large matrix products as their
 * strides allow. */
#ifndef CTI_GEMM_CONTRACT_H
#define CTI_GEMM_CONTRACT_H

#include "gemm.h"

/* The operands of a product. */
enum { CTI_A, CTI_B, CTI_C, CTI_OPERANDS };

/* A dim of a product, with its stride in A, B and C, in elements: 0 in an operand that does not
 * have this dim, or is broadcast along it. */
typedef struct {
    int64_t size, step[CTI_OPERANDS];
} cti_contract_dim;

/* A product of tensors. m has steps in A and C, n in B and C, k in A and B; a batch dim has steps
 * in any of them. A batch dim with step 0 in C is summed over, in a fixed order. */
typedef struct {
    cti_contract_dim m, n, k, batch[CT_MAX_DIMS];
    int dims; /* the number of batch dims */
} cti_contraction;

/* Computes C = A B with an epilogue, or NULL. Only data and dtype of the operands are read, because
 * the dims have the strides. False: CT_ERR_MEMORY.
 *
 * With a bias or an apply no batch dim merges into n, so that a bias has n elements. Batch dims may
 * merge into m, and a tile may then have rows of several matrices, for example if a dense x (...,
 * in) is multiplied by a weight. Batch dims that cannot be merged have tiles of their own. */
bool cti_contract(ct_context *context, const cti_contraction *p,
                  const ct_tensor *const operand[CTI_OPERANDS], const cti_gemm_epilogue *epilogue);

#endif
