/* The elementwise kernels of one array. */
#include "kernels.h"
#include "trig_tmpl.h"
#include "unary_tmpl.h"

void CTI_PUT(unary)(cti_kernels *table);
void CTI_PUT(unary)(cti_kernels *table) {
#define PUT(name) table->name = map_##name;
#define PUT_BOTH(name)                                                                             \
    table->name = map_##name;                                                                      \
    table->name##_backward = map_##name##_backward;
    CTI_UNARY_KERNELS(PUT, PUT_BOTH, PUT_BOTH)
    table->sin = map_sin;
    table->cos = map_cos;
    table->sin_backward = map_sin_backward;
    table->cos_backward = map_cos_backward;
    table->relu_both = map_relu_both;
    table->silu_both = map_silu_both;
    table->gelu_both = map_gelu_both;
    table->gelu_tanh_both = map_gelu_tanh_both;
    table->scale = map_scale;
    table->add_scalar = map_add_scalar;
    table->pow = map_pow;
    table->pow_backward = map_pow_backward;
    table->clamp = map_clamp;
    table->clamp_backward = map_clamp_backward;
}
