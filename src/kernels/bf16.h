/* The functions by which an instruction set puts into f32's table its kernels of products that
 * round their operands to bf16 (ct_set_matmul). tests/gemm/bf16_scalar.h specifies them in plain
 * C. */
#ifndef CTI_KERNELS_BF16_H
#define CTI_KERNELS_BF16_H

#include "products.h"

void cti_kernels_avx512bf16(cti_kernels *table);
void cti_kernels_amx(cti_kernels *table);

#endif
