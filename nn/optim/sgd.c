/* sgd: g += wd p;  b = momentum b + (1 - dampening) g, the first b = g;  p -= lr (nesterov ? g + momentum b : b). */
#include "optim.h"

static void set(const ct_optim *optim, const nn_slot *slot, op_numbers *numbers) {
    ct_sgd_numbers *n = &numbers->sgd;
    n->first = slot->step == 0;
    n->lr = optim->lr;
    n->grad_scale = optim->grad_scale;
}

/* Without a momentum there is no buffer to keep it in. */
#define NUMBERS(momentum_range)                                                                    \
    {                                                                                              \
        {"lr", CT_F64, offsetof(ct_optim, lr), NN_AT_LEAST_0},                                     \
        {"momentum", CT_F64, offsetof(ct_optim, numbers.sgd.momentum), momentum_range},            \
        {"dampening", CT_F64, offsetof(ct_optim, numbers.sgd.dampening), NN_AT_LEAST_0},           \
        {"weight_decay", CT_F64, offsetof(ct_optim, numbers.sgd.weight_decay), NN_AT_LEAST_0},     \
        {"nesterov", CT_BOOL, offsetof(ct_optim, numbers.sgd.nesterov), NN_BOOL},                  \
        {"clip_norm", CT_F64, offsetof(ct_optim, clip_norm), NN_AT_LEAST_0},                       \
        {0},                                                                                       \
    }
static const nn_number plain_numbers[] = NUMBERS(NN_IS_0), momentum_numbers[] = NUMBERS(NN_OVER_0);

static nn_fault conflict(const ct_optim *optim) {
    const ct_sgd_numbers *n = &optim->numbers.sgd;
    if (!n->nesterov || (n->momentum > 0 && n->dampening == 0)) return (nn_fault){0};
    return (nn_fault){"nesterov", 1, "0 without a momentum, and with a dampening"};
}

static const nn_rule plain_rule = {"SGD", {NULL}, set, op_sgd_step, plain_numbers, conflict};
static const nn_rule momentum_rule = {"SGD", {"momentum"}, set, op_sgd_step, momentum_numbers, conflict};

ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts o) {
    if (!module) return NULL;
    if (o.lr == 0) o.lr = 1e-3;
    op_numbers all = {.sgd = {.momentum = o.momentum, .dampening = o.dampening, .weight_decay = o.weight_decay, .nesterov = o.nesterov}};
    return nn_optim_new(module, o.momentum == 0 ? &plain_rule : &momentum_rule, o.lr, all, false, o.clip_norm);
}
