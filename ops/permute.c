/* permute: dim d of the result is dim dims[d] of x, a view;
 * dx = g under the inverse permutation */
#include "support/op.h"

static ct_tensor *permute_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const ct_shape *dims = c->attrs;
    unsigned set;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (dims->ndim != x->shape.ndim)
        return ct_fail(c->context, CT_ERR_SHAPE, "permute: %s does not name every dim of %s once",
                       SHAPE(*dims), SHAPE(x->shape));
    if (!cti_dim_set(c->context, c->op->name, *dims, x->shape.ndim, &set)) return NULL;
    ct_shape shape = x->shape;
    int64_t stride[CT_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        const int64_t from = dims->dim[d] < 0 ? dims->dim[d] + shape.ndim : dims->dim[d];
        shape.dim[d] = x->shape.dim[from];
        stride[d] = x->stride[from];
    }
    return cti_tensor_view(x, x->data, shape, stride);
}

static bool permute_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const ct_shape *dims = c->attrs;
    ct_shape inverse = *dims;
    for (int d = 0; d < dims->ndim; d++)
        inverse.dim[dims->dim[d] < 0 ? dims->dim[d] + dims->ndim : dims->dim[d]] = d;
    return (grad[0] = ct_permute(g[0], inverse)) != NULL;
}

static const ct_op permute_op = {.name = "permute",
                                 .attrs_size = sizeof(ct_shape),
                                 .forward = permute_forward,
                                 .backward = permute_backward,
                                 .flags = CT_OP_STRIDED};

ct_tensor *ct_permute(ct_tensor *x, ct_shape dims) {
    return ct_apply(&permute_op, (ct_tensor *[]){x}, 1, &dims);
}
