/* sgd:
 *
 *     g += wd p
 *     b = momentum b + (1 - dampening) g     (b = g at the first step)
 *     p -= lr (nesterov ? g + momentum b : b) */
#include "optim.h"

static void sgd_set(const ct_optim *optim, const cti_nn_item *item, const cti_op_numbers *before,
                    cti_op_numbers *numbers) {
    cti_sgd_numbers *n = &numbers->sgd;
    (void)before;
    n->first = item->step == 0;
    n->weight_decay = cti_nn_decay(optim, item, n->weight_decay);
    n->lr = cti_nn_lr(optim, item);
    n->grad_scale = optim->grad_scale;
}

/* Without momentum there is no buffer for it, so such an optimiser's momentum must stay 0. */
static const cti_nn_number plain_numbers[] = {
    {"momentum", CT_F64, offsetof(ct_optim, numbers.sgd.momentum), CTI_NN_IS_0},
    {"dampening", CT_F64, offsetof(ct_optim, numbers.sgd.dampening), CTI_NN_AT_LEAST_0},
    {"weight_decay", CT_F64, offsetof(ct_optim, numbers.sgd.weight_decay), CTI_NN_AT_LEAST_0},
    {"nesterov", CT_BOOL, offsetof(ct_optim, numbers.sgd.nesterov), CTI_NN_BOOL},
    {0},
};
static const cti_nn_number momentum_numbers[] = {
    {"momentum", CT_F64, offsetof(ct_optim, numbers.sgd.momentum), CTI_NN_OVER_0},
    {"dampening", CT_F64, offsetof(ct_optim, numbers.sgd.dampening), CTI_NN_AT_LEAST_0},
    {"weight_decay", CT_F64, offsetof(ct_optim, numbers.sgd.weight_decay), CTI_NN_AT_LEAST_0},
    {"nesterov", CT_BOOL, offsetof(ct_optim, numbers.sgd.nesterov), CTI_NN_BOOL},
    {0},
};

static cti_nn_fault conflict(const ct_optim *optim) {
    const cti_sgd_numbers *n = &optim->numbers.sgd;
    if (!n->nesterov || (n->momentum > 0 && n->dampening == 0)) return (cti_nn_fault){0};
    return (cti_nn_fault){
        .name = "nesterov", .value = "1", .must = "0 without a momentum, and with a dampening"};
}

static const cti_nn_rule plain_rule = {.name = "SGD",
                                       .state = {NULL},
                                       .set = sgd_set,
                                       .step = cti_op_sgd_step,
                                       .numbers = plain_numbers,
                                       .conflict = conflict};
static const cti_nn_rule momentum_rule = {.name = "SGD",
                                          .state = {"momentum"},
                                          .set = sgd_set,
                                          .step = cti_op_sgd_step,
                                          .numbers = momentum_numbers,
                                          .conflict = conflict};

ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts o) {
    if (!cti_nn_ready(module, "SGD", NULL)) return NULL;
    const cti_sgd_numbers sgd = {.momentum = cti_option(o.momentum, 0),
                                 .dampening = cti_option(o.dampening, 0),
                                 .weight_decay = cti_option(o.weight_decay, 0),
                                 .nesterov = o.nesterov};
    const cti_nn_optim_opts opts = {.lr = cti_option(o.lr, 1e-3),
                                    .clip_norm = cti_option(o.clip_norm, 0),
                                    .skip_nonfinite = o.skip_nonfinite};
    return cti_nn_optim_new(module, sgd.momentum == 0 ? &plain_rule : &momentum_rule, opts,
                            (cti_op_numbers){.sgd = sgd});
}
