/* relu: y = max(x, 0);   dx = g if y > 0, otherwise 0 */
#include "support/op.h"

static ct_tensor *relu_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_unary(c, c->in[0], kernels(c)->relu);
}

static bool relu_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->out, g[0], kernels(c)->relu_backward, &grad[0]);
}

static const ct_op relu_op = {.name = "relu", .forward = relu_forward, .backward = relu_backward};

ct_tensor *ct_relu(ct_tensor *x) { return cti_apply(&relu_op, (ct_tensor *[]){x}, 1, NULL); }
