/* to = from, in place, whatever their strides and dtypes. */
#include "op.h"
#include "update.h"

bool op_copy_into(ct_tensor *to, ct_tensor *from) {
    if (!to || !ct_ready(to->context) || !ct_tensor_has_values(to, "copy_into")) return false;
    ct_context *context = to->context;
    if (!from) return ct_fail(context, CT_ERR_ARGUMENT, "copy_into: a tensor is NULL");
    if (!ct_same_context(context, from->context, "copy_into")) return false;
    if (!ct_shape_equal(to->shape, from->shape))
        return ct_fail(context, CT_ERR_SHAPE, "copy_into: shapes differ: %s and %s", SHAPE(to->shape), SHAPE(from->shape));
    ct_frame frame;
    ct_frame_open(context, &frame, true);
    ct_tensor *same = ct_cast(from, to->dtype);
    if (same) {
        ct_tensor_copy(to, same, false);
        ct_tensor_wrote(to);
    }
    ct_frame_close(context, &frame);
    return same != NULL;
}
