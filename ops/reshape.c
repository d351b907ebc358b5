/* reshape: a view where x's strides can express the shape, else a view of a copy */
#include "shape_ops.h"

ct_tensor *ct_reshape(ct_tensor *x, ct_shape asked) {
    if (!x || !ct_ready(x->context)) return NULL;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    if (!op_view_shape("reshape", x, asked, &shape)) return NULL;
    if (op_view_strides(x, shape, stride)) return ct_view(x, shape);
    ct_frame frame;
    ct_frame_open(x->context, &frame, false);
    return ct_frame_return(x->context, &frame, ct_view(ct_contiguous(x), shape));
}
