/* sgd:
 *
 *     g += wd p
 *     b = momentum b + (1 - dampening) g     (b = g at the first step)
 *     p -= lr (nesterov ? g + momentum b : b) */
#include "optim.h"

/* Without momentum there is no buffer for it, so such an optimiser's momentum must stay 0. */
static const ct_optim_number plain_numbers[CTI_OP_SGD_NUMBERS] = {
    [CTI_OP_MOMENTUM] = {.name = "momentum"},
    [CTI_OP_DAMPENING] = {.name = "dampening"},
    [CTI_OP_NESTEROV] = {.name = "nesterov", .flag = true},
};
static const ct_optim_number momentum_numbers[CTI_OP_SGD_NUMBERS] = {
    [CTI_OP_MOMENTUM] = {.name = "momentum", .open_least = true},
    [CTI_OP_DAMPENING] = {.name = "dampening"},
    [CTI_OP_NESTEROV] = {.name = "nesterov", .flag = true},
};

static const char *momentum_fault(const double *numbers) {
    const bool allowed = numbers[CTI_OP_MOMENTUM] > 0 && numbers[CTI_OP_DAMPENING] == 0;
    return numbers[CTI_OP_NESTEROV] != 0 && !allowed
               ? "nesterov is 1, must be 0 without a momentum, and with a dampening"
               : NULL;
}
static const char *plain_fault(const double *numbers) {
    return numbers[CTI_OP_MOMENTUM] != 0
               ? "momentum must be 0, as this optimiser was made without it"
               : momentum_fault(numbers);
}

static bool sgd_step(ct_optim_item *items, int64_t n, void *user) {
    (void)user;
    return cti_op_sgd_step(items, n);
}

static const char *const momentum_states[] = {"momentum"};
static const ct_optim_rule plain_rule = {.name = "SGD",
                                         .numbers = plain_numbers,
                                         .n_numbers = CTI_OP_SGD_NUMBERS,
                                         .step_all = sgd_step,
                                         .bf16_states = true,
                                         .fault = plain_fault,
                                         .elementwise = true};
static const ct_optim_rule momentum_rule = {.name = "SGD",
                                            .states = momentum_states,
                                            .n_states = 1,
                                            .numbers = momentum_numbers,
                                            .n_numbers = CTI_OP_SGD_NUMBERS,
                                            .step_all = sgd_step,
                                            .bf16_states = true,
                                            .fault = momentum_fault,
                                            .elementwise = true};

ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts o) {
    const double numbers[] = {[CTI_OP_MOMENTUM] = o.momentum,
                              [CTI_OP_DAMPENING] = o.dampening,
                              [CTI_OP_NESTEROV] = o.nesterov};
    const bool plain = cti_option(o.momentum, 0) == 0;
    if (!cti_nn_ready(module, "SGD", NULL)) return NULL;
    return cti_nn_optim_new(module, plain ? &plain_rule : &momentum_rule,
                            (ct_optim_opts){.lr = o.lr,
                                            .weight_decay = o.weight_decay,
                                            .clip_norm = o.clip_norm,
                                            .skip_nonfinite = o.skip_nonfinite,
                                            .state_dtype = o.state_dtype,
                                            .numbers = numbers},
                            true);
}
