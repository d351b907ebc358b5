/* mse_loss: y = sum d^2 / n,  d = x - target, n elements each, NaN for no elements;
 * dx = 2 d g / n, dtarget = -dx */
#include "support/op.h"

static ct_tensor *mse_loss_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *target = c->in[1];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype(c)) return NULL;
    if (!cti_shape_equal(x->shape, target->shape))
        return ct_fail(c->context, CT_ERR_SHAPE, "mse_loss: shapes differ: %s and %s",
                       SHAPE(x->shape), SHAPE(target->shape));
    c->saved[0] = ct_sub(x, target);
    return ct_mean(ct_mul(c->saved[0], c->saved[0]), CT_ALL, false);
}

static bool mse_loss_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *d = c->saved[0], *dx = ct_mul(d, ct_scale(g[0], 2.0 / (double)d->numel));
    grad[0] = dx;
    return dx && (!c->wants[1] || (grad[1] = ct_neg(dx)));
}

static const ct_op mse_loss_op = {
    .name = "mse_loss", .forward = mse_loss_forward, .backward = mse_loss_backward};

ct_tensor *ct_mse_loss(ct_tensor *x, ct_tensor *target) {
    return ct_apply(&mse_loss_op, (ct_tensor *[]){x, target}, 2, NULL);
}
