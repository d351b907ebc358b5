/* tanh: y = (e^x - e^-x) / (e^x + e^-x);   dx = g (1 - y^2) */
#include "support/op.h"

static ct_tensor *tanh_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_unary(c, c->in[0], kernels(c)->tanh);
}

static bool tanh_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->out, g[0], kernels(c)->tanh_backward, &grad[0]);
}

static const ct_op tanh_op = {.name = "tanh", .forward = tanh_forward, .backward = tanh_backward};

ct_tensor *ct_tanh(ct_tensor *x) { return cti_apply(&tanh_op, (ct_tensor *[]){x}, 1, NULL); }
