/* abs: y = |x|;   dx = g sign(x), 0 at 0 as in torch.   i64 too */
#include "support/op.h"

static ct_tensor *abs_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->abs);
}

static bool abs_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->abs_backward, &grad[0]);
}

static const ct_op abs_op = {.name = "abs", .forward = abs_forward, .backward = abs_backward};

ct_tensor *ct_abs(ct_tensor *x) { return cti_apply(&abs_op, (ct_tensor *[]){x}, 1, NULL); }
