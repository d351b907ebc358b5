/* add: y = a + b, broadcast;   da = g, db = g, each summed to its input's shape.   i64 too */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *add_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_binary(c, kernels(c)->elementwise->add, c->in[0]->dtype);
}

static bool add_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    for (int i = 0; i < 2; i++)
        if (c->wants[i] && !cti_op_sum_to_input(c, i, g[0], &grad[i])) return false;
    return true;
}

static const ct_op add_op = {.name = "add", .forward = add_forward, .backward = add_backward};

ct_tensor *ct_add(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&add_op, (ct_tensor *[]){a, b}, 2, NULL);
}
