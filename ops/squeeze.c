/* squeeze: removes a dim of size 1, a view; x as it is if the size is not 1;
 * dx = g with the dim added again */
#include "support/shape_ops.h"

static ct_tensor *squeeze_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    const int dim = cti_op_dim_or_scalar(c->op->name, x, *(const int *)c->attrs);
    if (dim < 0) return NULL;
    if (x->shape.ndim == 0 || x->shape.dim[dim] != 1)
        return cti_tensor_view(x, x->data, x->shape, x->stride);
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    cti_op_without_dim(x, dim, &shape, stride);
    return cti_tensor_view(x, x->data, shape, stride);
}

static bool squeeze_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const bool whole = g[0]->shape.ndim == c->in[0]->shape.ndim;
    return (grad[0] = whole ? g[0] : ct_unsqueeze(g[0], *(const int *)c->attrs)) != NULL;
}

static const ct_op squeeze_op = {.name = "squeeze",
                                 .attrs_size = sizeof(int),
                                 .forward = squeeze_forward,
                                 .backward = squeeze_backward,
                                 .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_squeeze(ct_tensor *x, int dim) {
    return ct_apply(&squeeze_op, (ct_tensor *[]){x}, 1, &dim);
}
