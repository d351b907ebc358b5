/* The kernels of the dtype bf16, which is for weights at rest: these kernels move and convert
 * elements and compute nothing. Products with a B of bf16 are in f32's table (gemm_of_bf16). */
#include "elementwise.h"

#define CTI_ELEMENT_BF16
#include "data_tmpl.h"

void cti_kernels_bf16(cti_kernels *table) {
    static const cti_elementwise_kernels kernels = {
        DATA_KERNELS,
    };
    table->elementwise = &kernels;
}
