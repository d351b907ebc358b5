/* adam:  g += wd p first.   adamw: p *= 1 - lr wd first.   Then
 *
 *     m += (1 - b1) (g - m)
 *     v = b2 v + (1 - b2) g^2
 *     p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
 *
 * with t the number of updates of this parameter. Kingma & Ba 2014, arXiv:1412.6980; Loshchilov &
 * Hutter 2017, arXiv:1711.05101 */
#include "adam.h"

const char *const cti_nn_adam_states[2] = {"m", "v"};

static const ct_optim_number adam_numbers[CTI_OP_ADAM_NUMBERS] = {
    [CTI_OP_BETA1] = CTI_NN_BETA1, [CTI_OP_BETA2] = CTI_NN_BETA2, [CTI_OP_EPS] = CTI_NN_EPS};

static bool adam_step(ct_optim_item *items, int64_t n, void *user) {
    (void)user;
    return cti_op_adam_step(items, n, false);
}
bool cti_nn_adamw_step(ct_optim_item *items, int64_t n, void *user) {
    (void)user;
    return cti_op_adam_step(items, n, true);
}

static const ct_optim_rule adam_rule = {.name = "Adam",
                                        .states = cti_nn_adam_states,
                                        .n_states = 2,
                                        .numbers = adam_numbers,
                                        .n_numbers = CTI_OP_ADAM_NUMBERS,
                                        .step_all = adam_step,
                                        .bf16_states = true,
                                        .elementwise = true};
static const ct_optim_rule adamw_rule = {.name = "AdamW",
                                         .states = cti_nn_adam_states,
                                         .n_states = 2,
                                         .numbers = adam_numbers,
                                         .n_numbers = CTI_OP_ADAM_NUMBERS,
                                         .step_all = cti_nn_adamw_step,
                                         .bf16_states = true,
                                         .elementwise = true};

static ct_optim *adam_make(ct_module *module, const ct_optim_rule *rule, const ct_adamw_opts *o) {
    const double numbers[] = {
        [CTI_OP_BETA1] = o->beta1, [CTI_OP_BETA2] = o->beta2, [CTI_OP_EPS] = o->eps};
    if (!cti_nn_ready(module, rule->name, NULL)) return NULL;
    return cti_nn_optim_new(module, rule,
                            (ct_optim_opts){.lr = o->lr,
                                            .weight_decay = o->weight_decay,
                                            .decay_matrices_only = o->decay_matrices_only,
                                            .clip_norm = o->clip_norm,
                                            .skip_nonfinite = o->skip_nonfinite,
                                            .state_dtype = o->state_dtype,
                                            .numbers = numbers},
                            true);
}

ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts) {
    return adam_make(module, &adam_rule, &opts);
}
ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts) {
    return adam_make(module, &adamw_rule, &opts);
}
const ct_optim_rule *ct_adamw_rule(void) { return &adamw_rule; }
