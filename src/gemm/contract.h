/* Products of tensors with batch dims, computed by as few and as large matrix products as their
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
    int dims; /* of the batch */
} cti_contraction;

/* Computes C = A B, or what the epilogue says. Of the operands only data and dtype are read,
 * because the dims have the strides.
 *
 * With a bias or an apply the columns of C are those of n only, so that a bias has n elements. Rows
 * of a tile may be those of m merged with batch dims, as for a dense x (..., in) times a weight;
 * batch dims that cannot be merged have tiles of their own. False: CT_ERR_MEMORY. */
bool cti_contract(ct_context *context, const cti_contraction *p,
                  const ct_tensor *const operand[CTI_OPERANDS], const cti_gemm_epilogue *epilogue);

#endif
