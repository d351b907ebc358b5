/* reshape: a view if x's strides can express the shape, otherwise a view of a copy */
#include "support/shape_ops.h"

ct_tensor *ct_reshape(ct_tensor *x, ct_shape asked) {
    if (!cti_tensor_ready(x, "reshape")) return NULL;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    if (!cti_op_view_shape("reshape", x, asked, &shape)) return NULL;
    if (cti_op_view_strides(x, shape, stride)) return ct_view(x, shape);
    cti_frame frame;
    cti_frame_open(x->context, &frame, false);
    return cti_frame_return(x->context, &frame, ct_view(ct_contiguous(x), shape));
}
