/* linspace: y_i = start + i (end - start) / (n - 1), counted from the nearer end, so that both ends
 * are exact and y is symmetric; start if n = 1; in i64 rounded towards 0 */
#include "support/op.h"
#include "../src/core/isa.h"
#include "../src/kernels/elementwise.h"

#include <math.h>

ct_tensor *ct_linspace(ct_context *context, ct_dtype dtype, double start, double end, int64_t n) {
    const ct_shape shape = CT_SHAPE(n);
    if (!cti_ready(context) || !cti_dtype_check(context, "linspace", dtype) ||
        !cti_shape_check(context, "linspace", shape, cti_dtype_size(dtype)))
        return NULL;
    if (dtype == CT_BOOL || dtype == CT_BF16)
        return ct_fail(context, CT_ERR_DTYPE, "linspace: does not take %s", cti_dtype_name(dtype));
    if (!isfinite(start) || !isfinite(end))
        return ct_fail(context, CT_ERR_ARGUMENT, "linspace: from %g to %g there are no steps",
                       start, end);
    ct_tensor *y = ct_empty(context, dtype, shape);
    if (!y) return NULL;
    enum { CHUNK = 256 };
    const double whole = end - start, intervals = (double)(n - 1),
                 step = isinf(whole) ? end / intervals - start / intervals : whole / intervals;
    for (int64_t at = 0; at < n; at += CHUNK) {
        double value[CHUNK];
        const int64_t count = n - at < CHUNK ? n - at : CHUNK;
        for (int64_t i = 0; i < count; i++) {
            const int64_t before = at + i, behind = n - 1 - before;
            value[i] = before == 0 || before < behind ? start + (n > 1 ? (double)before * step : 0)
                                                      : end - (double)behind * step;
        }
        context->isa->of[CT_F64]->elementwise->cast[dtype](
            count, value, y->data + (size_t)at * cti_dtype_size(dtype));
    }
    return y;
}
