/* neg: y = -x;   dx = -g.   i64 too */
#include "support/op.h"
#include "../src/kernels/unary.h"

static ct_tensor *neg_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->unary->neg);
}

static bool neg_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    return (grad[0] = ct_neg(g[0]));
}

static const ct_op neg_op = {.name = "neg", .forward = neg_forward, .backward = neg_backward};

ct_tensor *ct_neg(ct_tensor *x) { return ct_apply(&neg_op, (ct_tensor *[]){x}, 1, NULL); }
