/* adam: g += wd p first;  adamw: p *= 1 - lr wd first. Then m += (1 - b1)(g - m);  v = b2 v + (1 - b2) g^2;
 * p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps), t the parameter's own count of steps.
 * Kingma & Ba 2014, arXiv:1412.6980; Loshchilov & Hutter 2017, arXiv:1711.05101 */
#include "optim.h"

#include <math.h>

static void set(const ct_optim *optim, const cti_nn_slot *slot, cti_op_numbers *numbers) {
    cti_adam_numbers *n = &numbers->adam;
    n->weight_decay = cti_nn_decay(optim, slot, n->weight_decay);
    n->bias1 = 1 - pow(n->beta1, (double)(slot->step + 1));
    n->bias2 = 1 - pow(n->beta2, (double)(slot->step + 1));
    n->lr = optim->lr;
    n->grad_scale = optim->grad_scale;
}

static const cti_nn_number numbers[] = {
    {"beta1", CT_F64, offsetof(ct_optim, numbers.adam.beta1)},
    {"beta2", CT_F64, offsetof(ct_optim, numbers.adam.beta2)},
    {"eps", CT_F64, offsetof(ct_optim, numbers.adam.eps)},
    {"weight_decay", CT_F64, offsetof(ct_optim, numbers.adam.weight_decay)},
    {"decay_matrices_only", CT_BOOL, offsetof(ct_optim, decay_matrices_only)},
    {"clip_norm", CT_F64, offsetof(ct_optim, clip_norm)},
    {0},
};
static const cti_nn_rule adam_rule = {"Adam", {"m", "v"}, set, cti_op_adam_step, numbers};
static const cti_nn_rule adamw_rule = {"AdamW", {"m", "v"}, set, cti_op_adam_step, numbers};

static bool check_beta(ct_context *context, const char *name, const char *option, double beta) {
    if (!cti_nn_check_number(context, name, option, beta)) return false;
    if (beta < 1) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is %g, must be less than 1", name, option, beta);
    return false;
}

static ct_optim *make(ct_module *module, const cti_nn_rule *rule, ct_adamw_opts o) {
    if (!module) return NULL;
    ct_context *context = module->context;
    if (o.lr == 0) o.lr = 1e-3;
    if (o.beta1 == 0) o.beta1 = 0.9;
    if (o.beta2 == 0) o.beta2 = 0.999;
    if (o.eps == 0) o.eps = 1e-8;
    if (!cti_nn_check_number(context, rule->name, "lr", o.lr) || !check_beta(context, rule->name, "beta1", o.beta1) ||
        !check_beta(context, rule->name, "beta2", o.beta2) || !cti_nn_check_number(context, rule->name, "eps", o.eps) ||
        !cti_nn_check_number(context, rule->name, "weight_decay", o.weight_decay))
        return NULL;
    cti_op_numbers all = {.adam = {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay}};
    all.adam.decoupled = rule == &adamw_rule;
    return cti_nn_optim_new(module, rule, o.lr, all, o.decay_matrices_only, o.clip_norm);
}

ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts) { return make(module, &adam_rule, opts); }
ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts) { return make(module, &adamw_rule, opts); }
