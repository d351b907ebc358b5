/* log: y = ln x;   dx = g / x */
#include "support/op.h"

static ct_tensor *log_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->log);
}

static bool log_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->log_backward, &grad[0]);
}

static const ct_op log_op = {.name = "log", .forward = log_forward, .backward = log_backward};

ct_tensor *ct_log(ct_tensor *x) { return cti_apply(&log_op, (ct_tensor *[]){x}, 1, NULL); }
