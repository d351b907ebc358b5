/* scale: y = a x;   dx = a g.   i64 too, for a whole a */
#include "support/op.h"
#include "../src/kernels/unary.h"

static ct_tensor *scale_forward(ct_call *c) {
    double a = *(const double *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_takes_number(c, a) ? cti_op_unary_scalar(c, c->in[0], kernels(c)->unary->scale, a)
                                     : NULL;
}

static bool scale_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_scale(g[0], *(const double *)c->attrs));
}

static const ct_op scale_op = {.name = "scale",
                               .attrs_size = sizeof(double),
                               .forward = scale_forward,
                               .backward = scale_backward,
                               .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_scale(ct_tensor *x, double a) {
    return ct_apply(&scale_op, (ct_tensor *[]){x}, 1, &a);
}
