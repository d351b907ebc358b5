/* adam:  g += wd p first.   adamw: p *= 1 - lr wd first.   Then
 *
 *     m += (1 - b1) (g - m)
 *     v = b2 v + (1 - b2) g^2
 *     p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
 *
 * with t the number of updates of this parameter. Kingma & Ba 2014, arXiv:1412.6980; Loshchilov &
 * Hutter 2017, arXiv:1711.05101 */
#include "optim.h"

#include <math.h>

static void adam_set(const ct_optim *optim, const cti_nn_item *item, const cti_op_numbers *before,
                     cti_op_numbers *numbers) {
    cti_adam_numbers *n = &numbers->adam;
    n->t = item->step + 1;
    if (before &&
        before->adam.t == n->t) { /* the usual case; two calls of pow take 250 instructions */
        n->bias1 = before->adam.bias1;
        n->bias2 = before->adam.bias2;
    } else {
        n->bias1 = 1 - pow(n->beta1, (double)n->t);
        n->bias2 = 1 - pow(n->beta2, (double)n->t);
    }
    n->weight_decay = cti_nn_decay(optim, item, n->weight_decay);
    n->lr = cti_nn_lr(optim, item);
    n->grad_scale = optim->grad_scale;
}

/* eps may be 0 as in torch; then v = 0 gives NaN. */
static const cti_nn_number adam_numbers[] = {
    {"beta1", CT_F64, offsetof(ct_optim, numbers.adam.beta1), CTI_NN_BELOW_1},
    {"beta2", CT_F64, offsetof(ct_optim, numbers.adam.beta2), CTI_NN_BELOW_1},
    {"eps", CT_F64, offsetof(ct_optim, numbers.adam.eps), CTI_NN_AT_LEAST_0},
    {"weight_decay", CT_F64, offsetof(ct_optim, numbers.adam.weight_decay), CTI_NN_AT_LEAST_0},
    {"decay_matrices_only", CT_BOOL, offsetof(ct_optim, opts.decay_matrices_only), CTI_NN_BOOL},
    {0},
};
static const cti_nn_rule adam_rule = {.name = "Adam",
                                      .state = {"m", "v"},
                                      .set = adam_set,
                                      .step = cti_op_adam_step,
                                      .numbers = adam_numbers};
static const cti_nn_rule adamw_rule = {.name = "AdamW",
                                       .state = {"m", "v"},
                                       .set = adam_set,
                                       .step = cti_op_adam_step,
                                       .numbers = adam_numbers};

static ct_optim *adam_make(ct_module *module, const cti_nn_rule *rule, ct_adamw_opts o) {
    if (!cti_nn_ready(module, rule->name, NULL)) return NULL;
    const cti_adam_numbers adam = {.beta1 = cti_option(o.beta1, 0.9),
                                   .beta2 = cti_option(o.beta2, 0.999),
                                   .eps = cti_option(o.eps, 1e-8),
                                   .weight_decay = cti_option(o.weight_decay, 0),
                                   .decoupled = rule == &adamw_rule};
    const cti_nn_optim_opts opts = {.lr = cti_option(o.lr, 1e-3),
                                    .clip_norm = cti_option(o.clip_norm, 0),
                                    .skip_nonfinite = o.skip_nonfinite,
                                    .decay_matrices_only = o.decay_matrices_only};
    return cti_nn_optim_new(module, rule, opts, (cti_op_numbers){.adam = adam});
}

ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts) {
    return adam_make(module, &adam_rule, opts);
}
ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts) {
    return adam_make(module, &adamw_rule, opts);
}
