/* The elementwise kernels of one array. */
#include "kernels.h"
#include "trig_tmpl.h"
#include "unary_tmpl.h"

void CTI_PUT(unary)(cti_kernels *table);
void CTI_PUT(unary)(cti_kernels *table) {
#define PUT(name, ...) table->name = map_##name;
#define PUT_WITH_SLOPE(name, ...)                                                                  \
    table->name = map_##name;                                                                      \
    table->name##_backward = map_##name##_backward;
#define PUT_BOTH(name) table->name##_both = map_##name##_both;
    CTI_UNARY_KERNELS(PUT, PUT_WITH_SLOPE, PUT_WITH_SLOPE, PUT_WITH_SLOPE)
    CTI_SCALAR_KERNELS(PUT, PUT_WITH_SLOPE, PUT_WITH_SLOPE)
    CTI_BOTH_KERNELS(PUT_BOTH)
    CTI_SCALAR_BOTH_KERNELS(PUT_BOTH)
    table->clamp = map_clamp;
    table->clamp_backward = map_clamp_backward;
}
