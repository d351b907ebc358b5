/* cross_entropy: loss_r = lse_r - (1 - s) x_rt - s mean_j(x_rj),  lse = logsumexp(x_r),
 * t the target, s the label smoothing; y = mean or sum of the loss_r, or all of them;
 * dx_rj = g w (softmax(x_r)_j - (1 - s) [j = t] - s / C),  w = 1 or 1 / count.
 * With weights v of the classes: loss_r = (1 - s) v_t (lse_r - x_rt) + s / C sum_j v_j (lse_r -
 * x_rj), and w = 1 or 1 / sum of the v_t.
 * With a z_loss z: loss_r + z lse_r^2, and dx_rj + g w 2 z lse_r softmax(x_r)_j.
 * Chowdhery et al. 2022, arXiv:2204.02311
 *
 * Saved for backward: the logits and each row's max and 1 / sum e^(x - max), not the softmax. The
 * max and the sum are kept separately, because lse = max + log sum has the rounding error of a
 * large max, which e^(x - lse) would inherit. */
#include "support/loss.h"

static ct_tensor *cross_entropy_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *targets = c->in[1];
    c->drop = CT_DROP_OUT;
    if (!cti_op_is_real(c, 0)) return NULL;
    if (x->shape.ndim == 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "cross_entropy: the logits () are not (..., C)");
    const int64_t classes = x->shape.dim[x->shape.ndim - 1];
    if (!cti_op_loss_check(c, 1, classes)) return NULL;
    ct_tensor *losses = cti_op_new(c, x->dtype, targets->shape);
    ct_tensor *statistics = c->saved[0] = cti_op_loss_statistics(c, targets->numel);
    if (!losses || !statistics) return NULL;
    cti_op_loss_rows(
        c, 1, targets->numel,
        &(cti_loss_rows){
            .classes = classes, .x = x->data, .losses = losses, .statistics = statistics});
    return cti_op_loss_total(c, losses, cti_op_loss_weight(c, 1));
}

static bool cross_entropy_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *x = c->in[0];
    const int64_t classes = x->shape.dim[x->shape.ndim - 1];
    /* the targets are checked again, because they may be in a buffer of the caller that has
     * changed */
    if (!cti_op_loss_check(c, 1, classes)) return false;
    ct_tensor *dx = cti_op_new(c, x->dtype, x->shape);
    if (!dx) return false;
    cti_op_loss_rows(
        c, 1, c->in[1]->numel,
        &(cti_loss_rows){.classes = classes,
                         .x = x->data,
                         .statistics = c->saved[0],
                         .dx = dx->data,
                         .scale = cti_op_loss_scale(c, g[0], cti_op_loss_weight(c, 1))});
    grad[0] = dx;
    return true;
}

static const ct_op cross_entropy_op = {.name = "cross_entropy",
                                       .attrs_size = sizeof(ct_cross_entropy_opts),
                                       .forward = cross_entropy_forward,
                                       .backward = cross_entropy_backward};

ct_tensor *ct_cross_entropy(ct_tensor *logits, ct_tensor *targets, ct_cross_entropy_opts opts) {
    return cti_op_weighted_loss(&cross_entropy_op, (ct_tensor *[3]){logits, targets}, 2,
                                opts.weight, &opts);
}
