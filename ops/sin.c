/* sin: y = sin x, for any finite angle, NaN for infinities;   dx = g cos x */
#include "support/op.h"

static ct_tensor *sin_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->sin);
}

static bool sin_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->sin_backward, &grad[0]);
}

static const ct_op sin_op = {.name = "sin", .forward = sin_forward, .backward = sin_backward};

ct_tensor *ct_sin(ct_tensor *x) { return cti_apply(&sin_op, (ct_tensor *[]){x}, 1, NULL); }
