/* The kernels of bf16, which is for weights at rest: they move and convert, and compute nothing.
 * Products read bf16 by f32's table (gemm_of_bf16). */
#include "kernels.h"
#include "to_int64_tmpl.h"

#include "half.h"

typedef uint16_t element;
static inline float number_of(element x) {
    const uint32_t bits = cti_bf16_widen(x);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#define NUMBER(x) number_of(x)
static inline element element_of(double value) { return cti_bf16_narrow(value); }
static inline int64_t whole(element x) { return whole_of((double)number_of(x)); }
static inline element plus(element a, element b) {
    return cti_bf16_narrow((double)number_of(a) + (double)number_of(b));
}

#include "data_tmpl.h"

extern const cti_kernels cti_kernels_bf16;
const cti_kernels cti_kernels_bf16 = {
    .where = data_where,
    .fill = data_fill,
    .copy2d = data_copy2d,
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16},
};
