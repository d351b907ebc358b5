/* The elementwise kernels of one array. */
#include "unary.h"
#include "trig_tmpl.h"
#include "unary_tmpl.h"

void CTI_PUT(unary)(cti_kernels *table);
void CTI_PUT(unary)(cti_kernels *table) {
#define PUT(name, ...)            .name = map_##name,
#define PUT_WITH_SLOPE(name, ...) .name = map_##name, .name##_backward = map_##name##_backward,
#define PUT_BOTH(name)            .name##_both = map_##name##_both,
    static const cti_unary_kernels kernels = {
        CTI_UNARY_KERNELS(PUT, PUT_WITH_SLOPE, PUT_WITH_SLOPE, PUT_WITH_SLOPE)
            CTI_SCALAR_KERNELS(PUT, PUT_WITH_SLOPE, PUT_WITH_SLOPE) CTI_BOTH_KERNELS(PUT_BOTH)
                CTI_SCALAR_BOTH_KERNELS(PUT_BOTH)
                    .clamp = map_clamp,
        .clamp_backward = map_clamp_backward,
    };
    table->unary = &kernels;
}
