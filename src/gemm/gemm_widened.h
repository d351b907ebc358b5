/* Products with a matrix of bf16 that no kernel reads. */
#ifndef CTI_GEMM_GEMM_WIDENED_H
#define CTI_GEMM_GEMM_WIDENED_H

#include "gemm.h"

/* Computes a product from copies in f32 of those matrices that are of bf16. For A, and for a B that
 * is rounded or in a product that is computed transposed. False: CT_ERR_MEMORY. */
bool cti_gemm_widened(ct_context *context, const cti_gemm_args *g);

#endif
