/* exp: y = e^x;   dx = g y */
#include "support/op.h"

static ct_tensor *exp_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_unary(c, c->in[0], kernels(c)->exp);
}

static bool exp_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->out, g[0], kernels(c)->exp_backward, &grad[0]);
}

static const ct_op exp_op = {.name = "exp", .forward = exp_forward, .backward = exp_backward};

ct_tensor *ct_exp(ct_tensor *x) { return cti_apply(&exp_op, (ct_tensor *[]){x}, 1, NULL); }
