/* to = to + w (from - to), or, if |w| >= 1/2, from - (from - to)(1 - w), in place, as torch's
 * lerp_. from broadcasts; any strides. */
#include "../support/op.h"
#include "into.h"
#include "../../src/kernels/elementwise.h"

#include <math.h>

static void lerp_row(const cti_op_row *r) {
    r->kernels->elementwise->lerp(r->n, r->to, r->from, r->step, r->w, r->to);
}

bool ct_lerp_into(ct_tensor *to, const ct_tensor *from, double w) {
    if (!cti_op_writes_from(to, from, "lerp_into")) return false;
    ct_context *context = to->context;
    if (!cti_is_real(to->dtype))
        return ct_fail(context, CT_ERR_DTYPE, "lerp_into: takes f32 or f64, not %s",
                       cti_dtype_name(to->dtype));
    if (from->dtype != to->dtype)
        return ct_fail(context, CT_ERR_DTYPE,
                       "lerp_into: dtypes differ: %s and %s; ct_cast converts",
                       cti_dtype_name(to->dtype), cti_dtype_name(from->dtype));
    if (!isfinite(w)) return ct_fail(context, CT_ERR_ARGUMENT, "lerp_into: a weight of %g", w);
    cti_op_update update;
    if (!cti_op_update_open(context, &update, "lerp_into")) return false;
    const bool done = cti_op_into_rows(to, from, w, lerp_row);
    cti_op_update_close(context, &update, 3 * cti_profile_bytes(to));
    return done;
}
