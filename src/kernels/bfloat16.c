/* The kernels of bf16, which is for weights at rest: they move and convert, and compute nothing.
 * Products read bf16 by f32's table (gemm_of_bf16). */
#include "kernels.h"

#define CTI_ELEMENT_BF16
#include "data_tmpl.h"

extern const cti_kernels cti_kernels_bf16;
const cti_kernels cti_kernels_bf16 = {
    .where = data_where,
    .fill = data_fill,
    .copy2d = data_copy2d,
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16},
};
