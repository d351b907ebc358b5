/* kl_div: loss = t (log t - x), 0 log 0 = 0, x the logarithms of probabilities; with log_target
 * loss = e^t (t - x); broadcast; y = the mean, the sum, the sum over dim 0's size, or all;
 * dx = -g t, dt = g (log t + 1 - x);  with log_target dx = -g e^t, dt = g e^t (t - x + 1).
 * At t = 0 dt is NaN, as in torch */
#include "support/loss.h"
#include "../src/kernels/rows.h"

static const ct_kl_div_opts *kl_div_options(const ct_call *c) { return c->attrs; }

static ct_tensor *kl_div_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) || !cti_op_reduction_check(c, kl_div_options(c)->reduction, true))
        return NULL;
    ct_tensor *losses = cti_op_binary(
        c, kl_div_options(c)->log_target ? kernels(c)->rows->kl_div_log : kernels(c)->rows->kl_div,
        c->in[0]->dtype);
    return losses ? cti_op_loss_reduced(c, losses, kl_div_options(c)->reduction) : NULL;
}

static bool kl_div_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *x = c->in[0], *t = c->in[1], *e_t = t, *d;
    ct_shape shape;
    if (!cti_shape_broadcast(c->context, "kl_div", x->shape, t->shape, &shape)) return false;
    const double share = cti_op_loss_share(c, cti_shape_numel(shape), kl_div_options(c)->reduction);
    ct_tensor *of_g = ct_expand(ct_scale(g[0], share), shape);
    if (kl_div_options(c)->log_target) e_t = ct_exp(t);
    if (c->wants[0]) {
        d = ct_neg(ct_mul(of_g, e_t));
        if (!d || !cti_op_sum_to_input(c, 0, d, &grad[0])) return false;
    }
    if (!c->wants[1]) return true;
    if (kl_div_options(c)->log_target) d = ct_mul(e_t, ct_add_scalar(ct_sub(t, x), 1));
    else d = ct_sub(cti_op_unary(c, t, kernels(c)->rows->entropy_slope), x);
    d = ct_mul(of_g, d);
    return d && cti_op_sum_to_input(c, 1, d, &grad[1]);
}

static const ct_op kl_div_op = {.name = "kl_div",
                                .attrs_size = sizeof(ct_kl_div_opts),
                                .forward = kl_div_forward,
                                .backward = kl_div_backward};

ct_tensor *ct_kl_div(ct_tensor *input, ct_tensor *target, ct_kl_div_opts opts) {
    return ct_apply(&kl_div_op, (ct_tensor *[]){input, target}, 2, &opts);
}
