/* silu: y = x s,  s = 1 / (1 + e^-x);
 * dx = g s (1 + x (1 - s)).
 * Elfwing et al. 2018, arXiv:1702.03118 */
#include "support/op.h"

static ct_tensor *silu_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->silu);
}

static bool silu_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->silu_backward, &grad[0]);
}

static const ct_op silu_op = {.name = "silu", .forward = silu_forward, .backward = silu_backward};

ct_tensor *ct_silu(ct_tensor *x) { return cti_apply(&silu_op, (ct_tensor *[]){x}, 1, NULL); }
