/* expand: repeats dims of size 1 and new leading dims, a view with stride 0;
 * dx = g summed over the repeated dims */
#include "support/op.h"

static ct_tensor *expand_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    ct_shape shape = *(const ct_shape *)c->attrs;
    const int lead = shape.ndim - x->shape.ndim;
    int64_t stride[CT_MAX_DIMS] = {0};
    bool fits = lead >= 0 && shape.ndim <= CT_MAX_DIMS;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    for (int d = 0; fits && d < x->shape.ndim; d++) {
        const int64_t size = x->shape.dim[d];
        int64_t *to = &shape.dim[lead + d];
        if (*to == -1) *to = size;
        if (*to == size) stride[lead + d] = x->stride[d];
        else if (size != 1) fits = false;
    }
    if (!fits)
        return ct_fail(c->context, CT_ERR_SHAPE, "expand: %s does not expand to %s",
                       SHAPE(x->shape), SHAPE(*(const ct_shape *)c->attrs));
    return cti_tensor_view(x, x->data, shape, stride);
}

static bool expand_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_sum_to(g[0], c->in[0]->shape)) != NULL;
}

static const ct_op expand_op = {.name = "expand",
                                .attrs_size = sizeof(ct_shape),
                                .forward = expand_forward,
                                .backward = expand_backward,
                                .flags = CT_OP_STRIDED};

ct_tensor *ct_expand(ct_tensor *x, ct_shape shape) {
    return ct_apply(&expand_op, (ct_tensor *[]){x}, 1, &shape);
}
