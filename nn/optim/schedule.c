/* The learning rate of a step: a linear warm-up, then half a cosine down to the floor. */
#include <cotangent/optim.h>

#include <math.h>

#include "../../src/core/option.h"

double ct_lr_cosine(ct_lr_cosine_opts o, int64_t step) {
    if (o.total <= 0) return NAN; /* `total` was forgotten; ct_optim_set_lr refuses NaN */
    o.peak = cti_option(o.peak, 0), o.floor = cti_option(o.floor, 0);
    if (step < 0) step = 0;
    if (step < o.warmup) return o.peak * ((double)step + 1) / ((double)o.warmup + 1);
    if (step >= o.total) return o.floor;
    double u = (double)(step - o.warmup) / (double)(o.total - o.warmup);
    return o.floor + (o.peak - o.floor) * (1 + cos(3.14159265358979323846 * u)) / 2;
}
