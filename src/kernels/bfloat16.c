/* The kernels of bf16, which is for weights at rest: they move and convert, and compute nothing.
 * Products read bf16 by f32's table (gemm_of_bf16). */
#include "kernels.h"

#define CTI_ELEMENT_BF16
#include "data_tmpl.h"

void cti_kernels_bf16(cti_kernels *table) { data_put(table); }
