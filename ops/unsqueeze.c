/* unsqueeze: adds a dim of size 1, a view;   dx = g without it */
#include "support/op.h"

static ct_tensor *unsqueeze_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (x->shape.ndim == CT_MAX_DIMS)
        return ct_fail(c->context, CT_ERR_SHAPE, "unsqueeze: %s has %d dims already",
                       SHAPE(x->shape), CT_MAX_DIMS);
    ct_shape shape = {.ndim = x->shape.ndim + 1};
    const int dim = cti_dim_index(c->context, c->op->name, *(const int *)c->attrs, shape.ndim);
    if (dim < 0) return NULL;
    int64_t stride[CT_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        const int from = d < dim ? d : d - 1;
        shape.dim[d] = d == dim ? 1 : x->shape.dim[from];
        stride[d] = d == dim ? 1 : x->stride[from];
    }
    return cti_tensor_view(x, x->data, shape, stride);
}

static bool unsqueeze_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_squeeze(g[0], *(const int *)c->attrs)) != NULL;
}

static const ct_op unsqueeze_op = {.name = "unsqueeze",
                                   .attrs_size = sizeof(int),
                                   .forward = unsqueeze_forward,
                                   .backward = unsqueeze_backward,
                                   .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_unsqueeze(ct_tensor *x, int dim) {
    return ct_apply(&unsqueeze_op, (ct_tensor *[]){x}, 1, &dim);
}
