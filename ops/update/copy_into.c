/* to = from, in place, for any strides and dtypes. */
#include "../../src/core/profile.h"
#include "../support/op.h"
#include "update.h"

bool cti_op_copy_into(ct_tensor *to, ct_tensor *from) {
    if (!to || !cti_tensor_has_values(to, "copy_into") || !cti_ready(to->context)) return false;
    ct_context *context = to->context;
    if (!from) return ct_fail(context, CT_ERR_ARGUMENT, "copy_into: a tensor is NULL");
    if (!cti_tensor_in(from, context, "copy_into")) return false;
    if (!cti_shape_equal(to->shape, from->shape))
        return ct_fail(context, CT_ERR_SHAPE, "copy_into: shapes differ: %s and %s",
                       SHAPE(to->shape), SHAPE(from->shape));
    cti_frame frame;
    cti_span span;
    cti_frame_open(context, &frame, true);
    cti_update_begin(context, &span, "copy_into");
    ct_tensor *same = ct_cast(from, to->dtype);
    if (same) {
        cti_tensor_copy(to, same, false);
        cti_tensor_wrote(to);
    }
    cti_update_end(context, &span, 2 * cti_profile_bytes(to));
    cti_frame_close(context, &frame);
    return same != NULL;
}
