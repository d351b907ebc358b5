/* clone: a row-major copy, always;   dx = g */
#include "support/op.h"

static ct_tensor *clone_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *y = cti_op_new(c, x->dtype, x->shape);
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (y) cti_tensor_copy(y, x, false);
    return y;
}

static bool clone_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = g[0];
    return true;
}

static const ct_op clone_op = {.name = "clone",
                               .forward = clone_forward,
                               .backward = clone_backward,
                               .flags = CT_OP_STRIDED | CTI_OP_READS_BLOCKS};

ct_tensor *ct_clone(ct_tensor *x) { return ct_apply(&clone_op, (ct_tensor *[]){x}, 1, NULL); }
