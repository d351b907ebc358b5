/* The kernels of f32 products that round their operands to bf16 (ct_set_matmul): their
 * specification in plain C, and the functions by which an instruction set puts its own ones into
 * f32's table. */
#ifndef CTI_KERNELS_BF16_H
#define CTI_KERNELS_BF16_H

#include "products.h"

/* The specification. AVX512-BF16 packs and computes the same bits. No instruction set's table has
 * these kernels themselves: in plain C they are slower than f32 products. */
extern const cti_gemm_kernels cti_bf16_scalar;

void cti_kernels_avx512bf16(cti_kernels *table);
void cti_kernels_amx(cti_kernels *table);

#endif
