/* sigmoid: y = 1 / (1 + e^-x);   dx = g y (1 - y) */
#include "support/op.h"

static ct_tensor *sigmoid_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_unary(c, c->in[0], kernels(c)->sigmoid);
}

static bool sigmoid_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->out, g[0], kernels(c)->sigmoid_backward, &grad[0]);
}

static const ct_op sigmoid_op = {
    .name = "sigmoid", .forward = sigmoid_forward, .backward = sigmoid_backward};

ct_tensor *ct_sigmoid(ct_tensor *x) { return cti_apply(&sigmoid_op, (ct_tensor *[]){x}, 1, NULL); }
