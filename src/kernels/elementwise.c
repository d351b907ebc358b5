/* The elementwise kernels of several arrays, the kernels that move and convert elements, and the
 * steps of optimisers. */
#include "elementwise.h"
#include "simd.h"

#include "binary_tmpl.h"
#include "compare_tmpl.h"
#include "data_tmpl.h"
#include "update_tmpl.h"

static void real_arange(int64_t n, int64_t begin, double start, double step, void *y) {
    for (int64_t i = 0; i < n; i++)
        put_one((stored *)y + i, (real)(start + (double)(begin + i) * step));
}

static void real_axpy(int64_t n, double a, const void *x, void *y) {
    const stored *from = x;
    const real scale = (real)a;
    stored *to = y;
    for (int64_t i = 0; i < n; i += LANES)
        store_part(to + i, load_part(to + i, n - i) + scale * load_part(from + i, n - i), n - i);
}

/* The formula is chosen outside the loop. Inside, the choice may become a branch between product
 * and sum, and GCC makes an FMA only of a product and a sum in one basic block: whole vectors and
 * the last, partial one would then differ in bits. */
INLINE void lerp_near(const bool near, int64_t n, const stored *x, const stored *end, int64_t se,
                      real factor, stored *y) {
    for (int64_t i = 0; i < n; i += LANES) {
        const vec a = load_part(x + i, n - i),
                  b = se ? load_part(end + i, n - i) : splat(get_one(end));
        store_part(y + i, (near ? a : b) + factor * (b - a), n - i);
    }
}
static void real_lerp(int64_t n, const void *x, const void *end, int64_t se, double w, void *y) {
    const real weight = (real)w;
    if (weight > REAL(-0.5) && weight < REAL(0.5)) lerp_near(true, n, x, end, se, weight, y);
    else lerp_near(false, n, x, end, se, weight - 1, y);
}

void CTI_PUT(elementwise)(cti_kernels *table);
void CTI_PUT(elementwise)(cti_kernels *table) {
    static const cti_elementwise_kernels kernels = {
        COMPARE_KERNELS,
        DATA_KERNELS,
        .add = zip_add,
        .sub = zip_sub,
        .mul = zip_mul,
        .div = zip_div,
        .maximum = zip_maximum,
        .minimum = zip_minimum,
        .maximum_backward = zip_maximum_backward,
        .minimum_backward = zip_minimum_backward,
        .arange = real_arange,
        .axpy = real_axpy,
        .lerp = real_lerp,
        .adam = update_adam,
        .sgd = update_sgd,
        .round = update_round,
    };
    table->elementwise = &kernels;
}
