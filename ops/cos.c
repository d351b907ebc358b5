/* cos: y = cos x, for any finite angle, NaN for infinities;   dx = -g sin x */
#include "support/op.h"

static ct_tensor *cos_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->cos);
}

static bool cos_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->cos_backward, &grad[0]);
}

static const ct_op cos_op = {.name = "cos", .forward = cos_forward, .backward = cos_backward};

ct_tensor *ct_cos(ct_tensor *x) { return cti_apply(&cos_op, (ct_tensor *[]){x}, 1, NULL); }
