/* A check for products whose operands are split into terms of bf16. */
#ifndef CTI_GEMM_GEMM_RANGE_H
#define CTI_GEMM_GEMM_RANGE_H

#include "gemm.h"

/* Returns whether A and B are finite and, with their products, so far from both ends of the range
 * that terms are as exact as f32. Both matrices are read once, on all threads. */
bool cti_gemm_in_range(ct_context *context, const cti_gemm_args *g,
                       const cti_gemm_kernels *kernels);

#endif
