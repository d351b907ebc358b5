/* div: y = a / b, broadcast;   da = g / b, db = -(g / b) y, each summed to its input's shape */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *div_forward(ct_call *c) {
    c->drop = CT_DROP_IN(0) | (c->wants[1] ? 0 : CT_DROP_OUT);
    return cti_op_binary(c, kernels(c)->elementwise->div, c->in[0]->dtype);
}

static bool div_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *da = ct_div(g[0], c->in[1]), *sum;
    if (c->wants[0] && !cti_op_sum_to_input(c, 0, da, &grad[0])) return false;
    if (!c->wants[1]) return true;
    if (!cti_op_sum_to_input(c, 1, ct_mul(da, c->out), &sum)) return false;
    grad[1] = ct_neg(sum);
    return grad[1] != NULL;
}

static const ct_op div_op = {.name = "div", .forward = div_forward, .backward = div_backward};

ct_tensor *ct_div(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&div_op, (ct_tensor *[]){a, b}, 2, NULL);
}
