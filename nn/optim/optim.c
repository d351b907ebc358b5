/* What all optimisers do: hold parameters and their state, step those that have a gradient. */
#include "optim.h"

#include <math.h>
#include <string.h>

static bool slot_init(ct_optim *optim, cti_nn_slot *slot, const ct_param *param) {
    ct_context *context = optim->context;
    slot->param = param->tensor;
    slot->param->parameter++;
    slot->name = cti_take_string(context, param->name);
    for (int i = 0; i < CTI_NN_STATES && optim->rule->state[i]; i++) {
        slot->state[i] = ct_zeros(context, param->tensor->dtype, param->tensor->shape);
        if (slot->state[i]) cti_tensor_disown(slot->state[i]);
    }
    return cti_ready(context);
}

static void slot_end(ct_context *context, cti_nn_slot *slot) {
    if (slot->param && --slot->param->parameter == 0) cti_tensor_end(slot->param);
    for (int i = 0; i < CTI_NN_STATES; i++)
        if (slot->state[i]) cti_tensor_end(slot->state[i]);
    if (slot->name) cti_give(context, slot->name, strlen(slot->name) + 1);
}

ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, double lr, cti_op_numbers numbers, bool decay_matrices_only, double clip_norm) {
    ct_context *context = module->context;
    if (!cti_ready(context) || !cti_nn_check_number(context, rule->name, "clip_norm", clip_norm)) return NULL;
    int64_t count = 0;
    for (ct_param param = {0}; ct_module_next(module, &param);) count++;
    ct_optim *optim = cti_take(context, sizeof *optim);
    if (!optim) return NULL;
    *optim = (ct_optim){
        .context = context,
        .module = module,
        .next = module->optims,
        .rule = rule,
        .lr = lr,
        .numbers = numbers,
        .decay_matrices_only = decay_matrices_only,
        .clip_norm = clip_norm,
        .grad_norm = NAN,
        .grad_scale = 1,
        .slots = cti_take_zeroed(context, cti_bytes(count, sizeof(cti_nn_slot))),
        .steps = cti_take(context, cti_bytes(count, sizeof(cti_op_step))),
        .count = count,
    };
    module->optims = optim;
    int64_t i = 0;
    for (ct_param param = {0}; optim->slots && optim->steps && ct_module_next(module, &param); i++)
        if (!slot_init(optim, &optim->slots[i], &param)) break;
    if (cti_ready(context)) return optim;
    ct_optim_free(optim);
    return NULL;
}

void ct_optim_free(ct_optim *optim) {
    if (!optim) return;
    ct_context *context = optim->context;
    ct_optim **link = &optim->module->optims;
    while (*link != optim) link = &(*link)->next;
    *link = optim->next;
    if (optim->slots) {
        for (int64_t i = 0; i < optim->count; i++) slot_end(context, &optim->slots[i]);
        cti_give(context, optim->slots, cti_bytes(optim->count, sizeof(cti_nn_slot)));
    }
    if (optim->steps) cti_give(context, optim->steps, cti_bytes(optim->count, sizeof(cti_op_step)));
    cti_give(context, optim, sizeof *optim);
}

/* Nothing is changed unless all can be, nor after an error in the norm: the step asks whether one is pending, and takes no memory. */
bool ct_optim_step(ct_optim *optim) {
    if (!optim || !cti_ready(optim->context)) return false;
    cti_nn_slot *const slots = optim->slots, *const end = slots + optim->count;
    cti_op_step *all = optim->steps;
    int64_t n = 0;
    for (cti_nn_slot *slot = slots; slot < end; slot++) {
        slot->grad = ct_grad(slot->param);
        if (slot->grad) all[n++] = (cti_op_step){slot->param, slot->grad, {slot->state[0], slot->state[1]}, optim->numbers, 0};
    }
    if (optim->clip_norm > 0) {
        optim->grad_norm = sqrt(cti_op_sum_squares(all, n));
        optim->grad_scale = cti_nn_clip_scale(optim->grad_norm, optim->clip_norm);
    }
    n = 0;
    for (cti_nn_slot *slot = slots; slot < end; slot++)
        if (slot->grad) optim->rule->set(optim, slot, &all[n++].numbers);
    if (!optim->rule->step(all, n)) return false;
    for (cti_nn_slot *slot = slots; slot < end; slot++) slot->step += slot->grad != NULL;
    return true;
}

double ct_optim_grad_norm(const ct_optim *optim) { return optim ? optim->grad_norm : NAN; }

void ct_optim_zero_grad(ct_optim *optim) {
    if (!optim || !cti_ready(optim->context)) return;
    for (int64_t i = 0; i < optim->count; i++) ct_zero_grad(optim->slots[i].param);
}

void ct_optim_set_lr(ct_optim *optim, double lr) {
    if (optim && cti_nn_check_number(optim->context, optim->rule->name, "lr", lr)) optim->lr = lr;
}
