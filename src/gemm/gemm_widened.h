/* Products with a matrix that no kernel reads directly. This is the case if A is bf16, if B is bf16
 * or of blocks and split into terms (CT_MATMUL_BF16X3 or X6) or the product is computed transposed,
 * and if A of dot products is not dense along K (CTI_ROWS_ONE). Such a product is computed from
 * copies: of its matrices of bf16 or blocks in f32, and of A with dense rows. */
#ifndef CTI_GEMM_GEMM_WIDENED_H
#define CTI_GEMM_GEMM_WIDENED_H

#include "gemm.h"

typedef struct {
    cti_gemm_args args;      /* the product, with matrices replaced by copies */
    size_t a_bytes, b_bytes; /* the size of each copy; 0 if none was made */
} cti_gemm_widened;

/* Makes the copies; with dense_a the rows of A are dense. If it fails, it records an error, frees
 * all copies and returns false; the caller must then not call cti_gemm_widened_end. */
bool cti_gemm_widen(ct_context *context, const cti_gemm_args *g, bool dense_a,
                    cti_gemm_widened *wide);
/* Frees the copies. */
void cti_gemm_widened_end(ct_context *context, const cti_gemm_widened *wide);

#endif
