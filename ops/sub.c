/* sub: y = a - b, broadcast;   da = g, db = -g, each summed to its input's shape.   i64 too */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *sub_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_binary(c, kernels(c)->elementwise->sub, c->in[0]->dtype);
}

static bool sub_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *sum;
    if (c->wants[0] && !cti_op_sum_to_input(c, 0, g[0], &grad[0])) return false;
    if (!c->wants[1]) return true;
    /* sum first, then negate: the sum has fewer elements */
    if (!cti_op_sum_to_input(c, 1, g[0], &sum)) return false;
    grad[1] = ct_neg(sum);
    return grad[1] != NULL;
}

static const ct_op sub_op = {.name = "sub", .forward = sub_forward, .backward = sub_backward};

ct_tensor *ct_sub(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&sub_op, (ct_tensor *[]){a, b}, 2, NULL);
}
