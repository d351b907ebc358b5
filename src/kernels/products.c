/* The kernels of matrix products and of attention. */
#include "attention_kernels.h"
#include "products.h"

#include "attention_tmpl.h"
#include "gemm_tmpl.h"
#include "gemm_bf16_tmpl.h"

void CTI_PUT(products)(cti_kernels *table);
void CTI_PUT(products)(cti_kernels *table) {
    static const cti_gemm_kernels gemm = GEMM_KERNELS;
    static const cti_attention_kernels attention = ATTENTION_KERNELS;
    table->gemm = &gemm;
    table->attention = &attention;
#ifndef CTI_F64_KERNELS
    static const cti_gemm_kernels gemm_of_bf16 = GEMM_KERNELS_OF_BF16;
    table->gemm_of_bf16 = &gemm_of_bf16;
#endif
}
