/* log_softmax: y_i = x_i - max - log sum_j e^(x_j - max);   dx = g - e^y sum_j g_j */
#include "support/along.h"
#include "../src/kernels/rows.h"

static ct_tensor *log_softmax_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_rows(c, c->in[0], kernels(c)->rows->log_softmax);
}

static bool log_softmax_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_rows_backward(c, c->out, g[0], kernels(c)->rows->log_softmax_backward, &grad[0]);
}

static const ct_op log_softmax_op = {
    .name = "log_softmax", .forward = log_softmax_forward, .backward = log_softmax_backward};

ct_tensor *ct_log_softmax(ct_tensor *x, int dim) { return cti_op_along(&log_softmax_op, x, dim); }
