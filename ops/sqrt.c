/* sqrt: y = x^(1/2);   dx = g / (2 y) */
#include "support/op.h"

static ct_tensor *sqrt_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_unary(c, c->in[0], kernels(c)->sqrt);
}

static bool sqrt_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->out, g[0], kernels(c)->sqrt_backward, &grad[0]);
}

static const ct_op sqrt_op = {.name = "sqrt", .forward = sqrt_forward, .backward = sqrt_backward};

ct_tensor *ct_sqrt(ct_tensor *x) { return cti_apply(&sqrt_op, (ct_tensor *[]){x}, 1, NULL); }
