/* The kernels of matrix products and of attention. */
#include "kernels.h"

#include "attention_tmpl.h"
#include "gemm_tmpl.h"
#include "gemm_bf16_tmpl.h"

void CTI_PUT(products)(cti_kernels *table);
void CTI_PUT(products)(cti_kernels *table) {
    table->gemm = (cti_gemm_kernels)GEMM_KERNELS;
#ifndef CTI_F64_KERNELS
    table->gemm_of_bf16 = (cti_gemm_kernels)GEMM_KERNELS_OF_BF16;
#endif
    table->attention = (cti_attention_kernels)ATTENTION_KERNELS;
}
