/* softmax: y_i = e^(x_i - max) / sum_j e^(x_j - max);   dx = y (g - <g, y>) */
#include "along.h"

static ct_tensor *softmax_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return op_rows(c, c->in[0], kernels(c)->softmax);
}

static bool softmax_backward(const ct_call *c, ct_tensor *g, ct_tensor **grad) {
    return op_rows_backward(c, c->out, g, kernels(c)->softmax_backward, &grad[0]);
}

static const ct_op softmax = {.name = "softmax", .forward = softmax_forward, .backward = softmax_backward};

ct_tensor *ct_softmax(ct_tensor *x, int dim) { return op_along(&softmax, x, dim); }
