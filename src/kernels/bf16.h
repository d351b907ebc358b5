/* Products of f32 may round their operands to bf16. Their tables, and the instruction sets that
 * have them, replace entries of a table. */
#ifndef CTI_KERNELS_BF16_H
#define CTI_KERNELS_BF16_H

#include "kernels.h"

/* The specification: with AVX512-BF16 the panels and the results have the same bits. It is in no
 * table of an instruction set, because the products of f32 are faster. */
extern const cti_gemm_kernels cti_bf16_scalar;

void cti_kernels_avx512bf16(cti_kernels *table);
void cti_kernels_amx(cti_kernels *table);

#endif
