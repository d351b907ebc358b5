/* contiguous: x itself (another handle) if it is row-major, otherwise a row-major copy;   dx = g */
#include "support/op.h"

static ct_tensor *contiguous_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (x->contiguous) return cti_tensor_view(x, x->data, x->shape, NULL);
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (y) cti_tensor_copy(y, x, false);
    return y;
}

static bool contiguous_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = g[0];
    return true;
}

static const ct_op contiguous_op = {.name = "contiguous",
                                    .forward = contiguous_forward,
                                    .backward = contiguous_backward,
                                    .flags = CT_OP_STRIDED};

ct_tensor *ct_contiguous(ct_tensor *x) {
    return ct_apply(&contiguous_op, (ct_tensor *[]){x}, 1, NULL);
}
