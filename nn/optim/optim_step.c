/* The stages of a step of all parameters that have a gradient. */
#include "optim.h"
#include "../../src/core/assert.h"

#include <math.h>
#include <string.h>

bool cti_nn_step_is_complete(ct_optim *optim) {
    if (optim->changes == optim->module->changes) return true;
    int64_t i = 0;
    for (ct_param param = {0}; ct_module_next(optim->module, &param);) {
        if (!cti_nn_can_train(optim, &param)) return false;
        int64_t tried = 0; /* the search starts at the previous match */
        while (tried < optim->count && optim->items[i % optim->count].param != param.tensor)
            tried++, i++;
        if (tried == optim->count && !cti_nn_leaves_out(param.tensor))
            return ct_fail(optim->context, CT_ERR_ARGUMENT,
                           "%s: the parameter %s has been added since the optimiser was made",
                           cti_nn_optim_name(optim), param.name);
    }
    optim->changes = optim->module->changes;
    return true;
}

static ct_tensor *item_grad(const cti_nn_item *item) {
    if (item->frozen) return NULL;
    if (!item->range) return ct_grad(item->param);
    return item->range->present ? item->range->grad : NULL;
}

/* The tensor that the step changes: the parameter, or the client's range of it. */
static ct_tensor *item_param(const cti_nn_item *item) {
    return item->range ? item->range->param : item->param;
}

void cti_nn_step_collect(ct_optim *optim) {
    int64_t n = 0;
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        item->grad = item_grad(item);
        if (item->grad) optim->steps[n++].grad = item->grad;
    }
    optim->n_steps = n;
}

bool cti_nn_step_needs_norm(const ct_optim *optim) {
    return optim->value[CTI_NN_CLIP_NORM] > 0 || optim->value[CTI_NN_SKIP_NONFINITE] != 0;
}

bool cti_nn_step_measured(ct_optim *optim, double norm) {
    const double clip_norm = optim->value[CTI_NN_CLIP_NORM];
    optim->grad_norm = norm;
    optim->grad_scale = clip_norm > 0 ? cti_nn_clip_scale(norm, clip_norm) : 1;
    if (optim->value[CTI_NN_SKIP_NONFINITE] == 0 || isfinite(norm)) return true;
    optim->skipped += optim->skipped < CTI_NN_LAST_STEP;
    return false;
}

/* The learning rate and the weight decay of an item: the group's, or the optimiser's. With
 * decay_matrices_only a vector without a group has weight decay 0. */
static double item_lr(const ct_optim *optim, const cti_nn_rule *rule, const cti_nn_item *item) {
    const double lr = optim->value[CTI_NN_LR] * item->lr_scale;
    return rule->lr_scale < 0 ? lr : lr * optim->value[rule->lr_scale];
}
static double item_decay(const ct_optim *optim, const cti_nn_rule *rule, const cti_nn_item *item) {
    if (item->grouped) return item->weight_decay;
    if (item->param->shape.ndim < 2 && optim->value[rule->matrices_only] != 0) return 0;
    return optim->value[rule->weight_decay];
}

static void step_fill(const ct_optim *optim, const cti_nn_rule *rule, const cti_nn_item *item,
                      ct_optim_item *step) {
    step->name = item->names->text;
    step->param = item_param(item);
    step->grad = item->grad;
    memcpy(step->state, item->state, sizeof step->state);
    step->step = item->step + 1;
    step->lr = item_lr(optim, rule, item);
    step->weight_decay = item_decay(optim, rule, item);
    step->grad_scale = optim->grad_scale;
    step->numbers = optim->value + rule->first;
    step->element = item->range ? item->range->start : 0;
}

bool cti_nn_step_prepare(ct_optim *optim) {
    ct_optim_item *step = optim->steps;
    for (int r = 0; r < optim->rules; r++) {
        cti_nn_rule *rule = &optim->rule[r];
        ct_optim_item *first = step;
        for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
            if (!item->grad || item->rule != r) continue;
            if (item->step == 0 && !cti_nn_item_start(optim, item)) return false;
            if (item_param(item)->numel) step_fill(optim, rule, item, step++);
        }
        rule->steps = step - first;
    }
    CTI_ASSERT(step <= optim->steps + optim->n_steps);
    optim->n_steps = step - optim->steps;
    return true;
}

/* Counts an update of the first `done` items in steps. */
static void updates_count(ct_optim *optim, int64_t done) {
    for (int r = 0; r < optim->rules; r++)
        for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
            if (!item->grad || item->rule != r || !item_param(item)->numel) continue;
            if (done-- <= 0) return;
            item->step += item->step < CTI_NN_LAST_STEP;
        }
}

/* Counts the step, also of items without elements. An item whose parameter no longer requires a
 * gradient loses its states. */
static void step_finish(ct_optim *optim) {
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        if (item->grad) item->step += item->step < CTI_NN_LAST_STEP;
        else if (item->step > 0 && !ct_requires_grad(item->param)) cti_nn_item_reset(item);
        CTI_ASSERT((item->state[0] != NULL) ==
                   (item->step > 0 && cti_nn_rule_of(optim, item)->n_states > 0));
    }
}

bool cti_nn_step_run(ct_optim *optim) {
    const int64_t done = cti_nn_rules_run(optim);
    if (done == optim->n_steps) {
        step_finish(optim);
        return true;
    }
    updates_count(optim, done);
    cti_nn_step_undo(optim);
    return false;
}

void cti_nn_step_undo(ct_optim *optim) {
    for (int64_t i = 0; i < optim->count; i++)
        if (optim->items[i].step == 0) cti_nn_item_reset(&optim->items[i]);
}

bool cti_nn_step_alone(ct_optim *optim) {
    CTI_ASSERT(!optim->items[0].range);
    cti_nn_step_collect(optim);
    const double norm = cti_nn_step_needs_norm(optim)
                            ? sqrt(cti_op_sum_squares(optim->steps, optim->n_steps))
                            : NAN;
    if (!cti_ready(optim->context)) return false;
    if (!cti_nn_step_measured(optim, norm)) return true;
    if (cti_nn_step_prepare(optim)) return cti_nn_step_run(optim);
    cti_nn_step_undo(optim);
    return false;
}

static bool step_run_whole(void *arg) {
    ct_optim *optim = arg;
    return cti_nn_step_is_complete(optim) && cti_nn_step_alone(optim);
}

bool ct_optim_step(ct_optim *optim) {
    if (!cti_nn_optim_ready(optim, "ct_optim_step")) return false;
    if (optim->client)
        return ct_fail(optim->context, CT_ERR_ARGUMENT,
                       "%s: the optimiser has a %s, and is stepped by %s", cti_nn_optim_name(optim),
                       optim->client->noun, optim->client->function);
    return cti_optim_run(optim, step_run_whole, optim);
}

void ct_optim_zero_grad(ct_optim *optim) {
    if (!cti_nn_optim_ready(optim, "ct_optim_zero_grad")) return;
    for (int64_t i = 0; i < optim->count; i++) ct_zero_grad(optim->items[i].param);
}
