/* sgd: g += wd p;  b = momentum b + (1 - dampening) g, the first b = g;  p -= lr (nesterov ? g + momentum b : b). */
#include "optim.h"

static void set(const ct_optim *optim, const cti_nn_slot *slot, cti_op_numbers *numbers) {
    cti_sgd_numbers *n = &numbers->sgd;
    n->first = slot->step == 0;
    n->lr = optim->lr;
    n->grad_scale = optim->grad_scale;
}

static const cti_nn_number numbers[] = {
    {"momentum", CT_F64, offsetof(ct_optim, numbers.sgd.momentum)},
    {"dampening", CT_F64, offsetof(ct_optim, numbers.sgd.dampening)},
    {"weight_decay", CT_F64, offsetof(ct_optim, numbers.sgd.weight_decay)},
    {"nesterov", CT_BOOL, offsetof(ct_optim, numbers.sgd.nesterov)},
    {"clip_norm", CT_F64, offsetof(ct_optim, clip_norm)},
    {0},
};
static const cti_nn_rule plain_rule = {"SGD", {NULL}, set, cti_op_sgd_step, numbers};
static const cti_nn_rule momentum_rule = {"SGD", {"momentum"}, set, cti_op_sgd_step, numbers};

ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts o) {
    if (!module) return NULL;
    if (o.lr == 0) o.lr = 1e-3;
    const char *name = plain_rule.name;
    if (!cti_nn_check_number(module->context, name, "lr", o.lr) || !cti_nn_check_number(module->context, name, "momentum", o.momentum) ||
        !cti_nn_check_number(module->context, name, "dampening", o.dampening) ||
        !cti_nn_check_number(module->context, name, "weight_decay", o.weight_decay))
        return NULL;
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
        return ct_fail(module->context, CT_ERR_ARGUMENT, "%s: nesterov needs a momentum and no dampening", name);
    cti_op_numbers all = {.sgd = {.momentum = o.momentum, .dampening = o.dampening, .weight_decay = o.weight_decay, .nesterov = o.nesterov}};
    return cti_nn_optim_new(module, o.momentum > 0 ? &momentum_rule : &plain_rule, o.lr, all, false, o.clip_norm);
}
