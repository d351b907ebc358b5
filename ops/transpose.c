/* transpose: exchanges two dims, a view;   dx = g with the same two exchanged */
#include "support/shape_ops.h"

typedef struct {
    int dim[2];
} swapped;

static ct_tensor *transpose_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const swapped *asked = c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    const int a = cti_op_dim_or_scalar(c->op->name, x, asked->dim[0]);
    const int b = a < 0 ? -1 : cti_op_dim_or_scalar(c->op->name, x, asked->dim[1]);
    if (b < 0) return NULL;
    ct_shape shape = x->shape;
    int64_t stride[CT_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        const int from = d == a ? b : d == b ? a : d;
        shape.dim[d] = x->shape.dim[from];
        stride[d] = x->stride[from];
    }
    return cti_tensor_view(x, x->data, shape, stride);
}

static bool transpose_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const swapped *asked = c->attrs;
    return (grad[0] = ct_transpose(g[0], asked->dim[0], asked->dim[1])) != NULL;
}

static const ct_op transpose_op = {.name = "transpose",
                                   .attrs_size = sizeof(swapped),
                                   .forward = transpose_forward,
                                   .backward = transpose_backward,
                                   .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_transpose(ct_tensor *x, int dim0, int dim1) {
    return ct_apply(&transpose_op, (ct_tensor *[]){x}, 1, &(swapped){{dim0, dim1}});
}
