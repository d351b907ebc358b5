/* view: the same elements in row-major order with another shape, without a copy;
 * dx = g in x's shape */
#include "support/shape_ops.h"

static ct_tensor *view_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const ct_shape *asked = c->attrs;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_view_shape(c->op->name, x, *asked, &shape)) return NULL;
    if (!cti_op_view_strides(x, shape, stride))
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "view: the strides of %s cannot express %s; ct_reshape copies where it must",
                       SHAPE(x->shape), SHAPE(shape));
    return cti_tensor_view(x, x->data, shape, stride);
}

static bool view_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_reshape(g[0], c->in[0]->shape)) != NULL;
}

static const ct_op view_op = {.name = "view",
                              .attrs_size = sizeof(ct_shape),
                              .forward = view_forward,
                              .backward = view_backward,
                              .flags = CT_OP_STRIDED};

ct_tensor *ct_view(ct_tensor *x, ct_shape shape) {
    return ct_apply(&view_op, (ct_tensor *[]){x}, 1, &shape);
}
