/* Code common to all optimisers: they hold parameters and their state, and step those that have a
 * gradient. */
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

static bool in_range(cti_nn_range range, double x) {
    switch (range) {
    case CTI_NN_AT_LEAST_0: return x >= 0 && isfinite(x);
    case CTI_NN_OVER_0: return x > 0 && isfinite(x);
    case CTI_NN_BELOW_1: return x >= 0 && x < 1;
    case CTI_NN_IS_0: return x == 0;
    case CTI_NN_BOOL: return true;
    }
    return false;
}

cti_nn_fault cti_nn_optim_fault(const ct_optim *optim) {
    static const char *const must[] = {
        [CTI_NN_AT_LEAST_0] = "a number of at least 0",
        [CTI_NN_OVER_0] = "a number greater than 0",
        [CTI_NN_BELOW_1] = "at least 0 and less than 1",
        [CTI_NN_IS_0] = "0, as this optimiser was made without it",
    };
    for (const cti_nn_number *number = optim->rule->numbers; number->name; number++) {
        double value;
        if (number->dtype != CT_F64) continue;
        memcpy(&value, (const char *)optim + number->offset, sizeof value);
        if (!in_range(number->range, value))
            return (cti_nn_fault){
                .name = number->name, .value = value, .must = must[number->range]};
    }
    return optim->rule->conflict ? optim->rule->conflict(optim) : (cti_nn_fault){0};
}

/* The error of a constructor or of ct_optim_set_lr. */
static bool check(const ct_optim *optim) {
    const cti_nn_fault fault = cti_nn_optim_fault(optim);
    if (!fault.name) return true;
    return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: %s is %g, must be %s", optim->rule->name,
                   fault.name, fault.value, fault.must);
}

static void end(cti_nn_dependent *self) {
    ct_optim_free((ct_optim *)((char *)self - offsetof(ct_optim, dependent)));
}

ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, double lr,
                           cti_op_numbers numbers, bool decay_matrices_only, double clip_norm) {
    ct_context *context = module->context;
    ct_optim made = {
        .object = {.context = context},
        .module = module,
        .changes = module->changes,
        .dependent = {module->dependents, end},
        .rule = rule,
        .lr = lr,
        .numbers = numbers,
        .decay_matrices_only = decay_matrices_only,
        .clip_norm = clip_norm,
        .grad_norm = NAN,
        .grad_scale = 1,
    };
    if (!cti_ready(context) || !check(&made)) return NULL;
    for (ct_param param = {0}; ct_module_next(module, &param);) made.count++;
    if (!made.count)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the %s has no parameter", rule->name,
                       cti_nn_kind_name(module));
    ct_optim *optim = cti_object_new(context, sizeof *optim, "optimiser");
    if (!optim) return NULL;
    made.object = optim->object;
    made.slots = cti_take_zeroed(context, cti_bytes(made.count, sizeof(cti_nn_slot)));
    made.steps = cti_take(context, cti_bytes(made.count, sizeof(cti_op_step)));
    *optim = made;
    module->dependents = &optim->dependent;
    int64_t i = 0;
    for (ct_param param = {0}; optim->slots && optim->steps && ct_module_next(module, &param); i++)
        if (!slot_init(optim, &optim->slots[i], &param)) break;
    if (cti_ready(context)) return optim;
    ct_optim_free(optim);
    return NULL;
}

void ct_optim_free(ct_optim *optim) {
    if (!optim || optim->object.self != &optim->object) return;
    ct_context *context = optim->context;
    cti_nn_dependent **link = &optim->module->dependents;
    while (*link != &optim->dependent) link = &(*link)->next;
    *link = optim->dependent.next;
    if (optim->slots) {
        for (int64_t i = 0; i < optim->count; i++) slot_end(context, &optim->slots[i]);
        cti_give(context, optim->slots, cti_bytes(optim->count, sizeof(cti_nn_slot)));
    }
    if (optim->steps) cti_give(context, optim->steps, cti_bytes(optim->count, sizeof(cti_op_step)));
    cti_object_end(&optim->object, optim->rule->name);
}

/* Whether the optimiser has every parameter that its module has now. */
static bool is_complete(ct_optim *optim) {
    if (optim->changes == optim->module->changes) return true;
    int64_t i = 0;
    for (ct_param param = {0}; ct_module_next(optim->module, &param);) {
        int64_t tried = 0; /* from where the last one was, as the order is mostly the same */
        while (tried < optim->count && optim->slots[i % optim->count].param != param.tensor)
            tried++, i++;
        if (tried == optim->count)
            return ct_fail(optim->context, CT_ERR_ARGUMENT,
                           "%s: the parameter %s has been added since the optimiser was made",
                           optim->rule->name, param.name);
    }
    optim->changes = optim->module->changes;
    return true;
}

/* rule->step checks all parameters before it changes any, does nothing while an error is pending
 * (as after a failed norm), and allocates nothing: a step changes either everything or nothing. */
bool ct_optim_step(ct_optim *optim) {
    if (!cti_nn_optim_ready(optim, "ct_optim_step") || !is_complete(optim)) return false;
    cti_nn_slot *const slots = optim->slots, *const end = slots + optim->count;
    cti_op_step *all = optim->steps;
    int64_t n = 0;
    for (cti_nn_slot *slot = slots; slot < end; slot++) {
        slot->grad = ct_grad(slot->param);
        if (slot->grad)
            all[n++] = (cti_op_step){.p = slot->param,
                                     .g = slot->grad,
                                     .state = {slot->state[0], slot->state[1]},
                                     .numbers = optim->numbers};
    }
    const bool clips = optim->clip_norm > 0; /* read at each step: loading a checkpoint sets it */
    optim->grad_norm = clips ? sqrt(cti_op_sum_squares(all, n)) : NAN;
    optim->grad_scale = clips ? cti_nn_clip_scale(optim->grad_norm, optim->clip_norm) : 1;
    n = 0;
    for (cti_nn_slot *slot = slots; slot < end; slot++)
        if (slot->grad) optim->rule->set(optim, slot, &all[n++].numbers);
    if (!optim->rule->step(all, n)) return false;
    for (cti_nn_slot *slot = slots; slot < end; slot++)
        slot->step += slot->grad && slot->step < CTI_NN_LAST_STEP;
    return true;
}

double ct_optim_grad_norm(const ct_optim *optim) {
    return optim && cti_object_is_open(&optim->object, "ct_optim_grad_norm") ? optim->grad_norm
                                                                             : NAN;
}

void ct_optim_zero_grad(ct_optim *optim) {
    if (!cti_nn_optim_ready(optim, "ct_optim_zero_grad")) return;
    for (int64_t i = 0; i < optim->count; i++) ct_zero_grad(optim->slots[i].param);
}

void ct_optim_set_lr(ct_optim *optim, double lr) {
    if (!cti_nn_optim_ready(optim, "ct_optim_set_lr")) return;
    ct_optim changed = *optim;
    changed.lr = lr;
    if (check(&changed)) optim->lr = lr;
}
