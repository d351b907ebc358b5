/* masked_fill: y = mask ? value : x, the mask and x broadcast;
 * dx = mask ? 0 : g, summed to the shape of x.
 * x of any dtype */
#include "support/op.h"

static ct_tensor *masked_fill_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *mask = c->in[1];
    c->drop = CT_DROP_IN(0) | CT_DROP_OUT;
    if (!cti_op_is(c, 1, CT_BOOL)) return NULL;
    ct_shape shape;
    if (!cti_shape_broadcast(c->context, "masked_fill", x->shape, mask->shape, &shape)) return NULL;
    return ct_where(mask, ct_full(c->context, x->dtype, CT_SCALAR, *(const double *)c->attrs), x);
}

static bool masked_fill_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_sum_to_input(c, 0, ct_masked_fill(g[0], c->in[1], 0), &grad[0]);
}

static const ct_op masked_fill_op = {.name = "masked_fill",
                                     .attrs_size = sizeof(double),
                                     .forward = masked_fill_forward,
                                     .backward = masked_fill_backward,
                                     .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_masked_fill(ct_tensor *x, ct_tensor *mask, double value) {
    return ct_apply(&masked_fill_op, (ct_tensor *[]){x, mask}, 2, &value);
}
