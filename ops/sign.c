/* sign: y = 1 if x > 0, -1 if x < 0, and 0 if x is 0 or NaN;   dx = 0.   i64 too */
#include "support/op.h"
#include "../src/kernels/unary.h"

static ct_tensor *sign_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->unary->sign);
}

static bool sign_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_zeros(c->context, g[0]->dtype, c->in[0]->shape)) != NULL;
}

static const ct_op sign_op = {.name = "sign", .forward = sign_forward, .backward = sign_backward};

ct_tensor *ct_sign(ct_tensor *x) { return ct_apply(&sign_op, (ct_tensor *[]){x}, 1, NULL); }
