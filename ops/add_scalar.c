/* add_scalar: y = x + a;   dx = g.   i64 too, for a whole a */
#include "support/op.h"
#include "../src/kernels/unary.h"

static ct_tensor *add_scalar_forward(ct_call *c) {
    double a = *(const double *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_takes_number(c, a)
               ? cti_op_unary_scalar(c, c->in[0], kernels(c)->unary->add_scalar, a)
               : NULL;
}

static bool add_scalar_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = g[0];
    return true;
}

static const ct_op add_scalar_op = {.name = "add_scalar",
                                    .attrs_size = sizeof(double),
                                    .forward = add_scalar_forward,
                                    .backward = add_scalar_backward,
                                    .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_add_scalar(ct_tensor *x, double a) {
    return ct_apply(&add_scalar_op, (ct_tensor *[]){x}, 1, &a);
}
