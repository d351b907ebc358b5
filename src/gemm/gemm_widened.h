/* Some products have a matrix of bf16 that no kernel reads: an A, a B that is split into pieces
 * (CT_MATMUL_BF16X3, X6), and either of them in a product that is computed transposed. These
 * products are computed from copies in f32. */
#ifndef CTI_GEMM_GEMM_WIDENED_H
#define CTI_GEMM_GEMM_WIDENED_H

#include "gemm.h"

typedef struct {
    cti_gemm_args args;      /* the product, with copies in f32 instead of its matrices of bf16 */
    size_t a_bytes, b_bytes; /* bytes of the copies; 0 if there is none */
} cti_gemm_widened;

/* Makes the copies. False: CT_ERR_MEMORY, and nothing is left to end. */
bool cti_gemm_widen(ct_context *context, const cti_gemm_args *g, cti_gemm_widened *wide);
void cti_gemm_widened_end(ct_context *context, const cti_gemm_widened *wide);

#endif
