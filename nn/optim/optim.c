/* Code that all optimisers share: they hold parameters and their states, and step the parameters
 * that have a gradient. */
#include "optim.h"
#include "../../src/core/assert.h"

#include <math.h>
#include <string.h>

/* ---- parameters and their state ---- */

bool cti_nn_item_start(const cti_nn_rule *rule, cti_nn_item *item) {
    const ct_tensor *of = item->range ? item->range->param : item->param;
    for (int i = 0; i < CTI_NN_STATES && rule->state[i]; i++) {
        CTI_ASSERT(!item->state[i]);
        item->state[i] = ct_zeros(of->context, of->dtype, of->shape);
        if (!item->state[i]) {
            cti_nn_item_reset(item);
            return false;
        }
        cti_tensor_disown(item->state[i]);
    }
    return true;
}

void cti_nn_item_reset(cti_nn_item *item) {
    for (int i = 0; i < CTI_NN_STATES; i++)
        if (item->state[i]) cti_tensor_end(item->state[i]);
    memset(item->state, 0, sizeof item->state);
    item->step = 0;
}

static void item_end(ct_context *context, cti_nn_item *item) {
    CTI_ASSERT(!item->param || item->param->parameter > 0);
    if (item->param && --item->param->parameter == 0) cti_tensor_end(item->param);
    cti_nn_item_reset(item);
    for (cti_nn_name *name = item->names, *next; name; name = next) {
        next = name->next;
        cti_give(context, name, sizeof *name + strlen(name->text) + 1);
    }
}

/* Appends a name to the item's list. */
static bool add_name(ct_context *context, cti_nn_item *item, const char *text) {
    const size_t size = strlen(text) + 1;
    cti_nn_name *name = cti_take(context, sizeof *name + size), **end = &item->names;
    if (!name) return false;
    name->next = NULL;
    memcpy(name->text, text, size);
    while (*end) end = &(*end)->next;
    *end = name;
    return true;
}

/* Fills in parameters and names. In a walk over all names, the first names are in the order of the
 * items; a further name follows the first name of its tensor. */
static bool add_params(ct_optim *optim, const ct_module *module) {
    cti_nn_item *items = optim->items;
    int64_t made = 0;
    for (ct_param param = {0}; ct_module_next(module, &param); made++) {
        items[made] = (cti_nn_item){.param = param.tensor, .lr_scale = 1};
        param.tensor->parameter++;
    }
    int64_t named = 0;
    for (ct_param param = {0}; cti_nn_next_name(module, &param);) {
        cti_nn_item *item = &items[named];
        if (named < made && item->param == param.tensor) named++;
        else do
                item--;
            while (item->param != param.tensor);
        if (!add_name(optim->context, item, param.name)) return false;
    }
    return true;
}

/* ---- checks of numbers ---- */

const cti_nn_number cti_nn_item_numbers[CTI_NN_ITEM_NUMBERS] = {
    {"step", CT_I64, offsetof(cti_nn_item, step), CTI_NN_COUNT},
    {"lr_scale", CT_F64, offsetof(cti_nn_item, lr_scale), CTI_NN_AT_LEAST_0},
    {"weight_decay", CT_F64, offsetof(cti_nn_item, weight_decay), CTI_NN_AT_LEAST_0},
    {"frozen", CT_BOOL, offsetof(cti_nn_item, frozen), CTI_NN_BOOL},
};

enum { COMMON = 4 };
static const cti_nn_number common_numbers[COMMON + 1] = {
    {"lr", CT_F64, offsetof(ct_optim, opts.lr), CTI_NN_AT_LEAST_0},
    {"clip_norm", CT_F64, offsetof(ct_optim, opts.clip_norm), CTI_NN_AT_LEAST_0},
    {"skip_nonfinite", CT_BOOL, offsetof(ct_optim, opts.skip_nonfinite), CTI_NN_BOOL},
    {"skipped", CT_I64, offsetof(ct_optim, skipped), CTI_NN_COUNT},
    {0},
};

const cti_nn_number *cti_nn_number_after(const cti_nn_number *number) {
    number++;
    if (number->name) return number;
    return number == &common_numbers[COMMON] ? NULL : common_numbers;
}

static bool in_bounds(cti_nn_bounds bounds, double x) {
    switch (bounds) {
    case CTI_NN_AT_LEAST_0: return x >= 0 && isfinite(x);
    case CTI_NN_OVER_0: return x > 0 && isfinite(x);
    case CTI_NN_BELOW_1: return x >= 0 && x < 1;
    case CTI_NN_IS_0: return x == 0;
    case CTI_NN_COUNT:
    case CTI_NN_BOOL: return true;
    }
    return false;
}

/* Checks one number of an optimiser or an item. */
static cti_nn_fault number_fault(const cti_nn_number *number, const void *object) {
    static const char *const must[] = {
        [CTI_NN_AT_LEAST_0] = "a number of at least 0",
        [CTI_NN_OVER_0] = "a number greater than 0",
        [CTI_NN_BELOW_1] = "at least 0 and less than 1",
        [CTI_NN_IS_0] = "0, as this optimiser was made without it",
        [CTI_NN_COUNT] = "at least 0 and at most 9223372036854775806",
        [CTI_NN_BOOL] = NULL, /* either value is valid */
    };
    const char *at = (const char *)object + number->offset;
    cti_nn_fault fault = {.name = number->name, .must = must[number->bounds]};
    if (number->dtype == CT_F64) {
        double value;
        memcpy(&value, at, sizeof value);
        if (in_bounds(number->bounds, value)) return (cti_nn_fault){0};
        snprintf(fault.value, sizeof fault.value, "%g", value);
    } else {
        int64_t count = 0;
        if (number->dtype == CT_I64) memcpy(&count, at, sizeof count);
        if (count >= 0 && count <= CTI_NN_LAST_STEP) return (cti_nn_fault){0};
        snprintf(fault.value, sizeof fault.value, "%" PRId64, count);
    }
    return fault;
}

cti_nn_fault cti_nn_optim_fault(const ct_optim *optim) {
    for (const cti_nn_number *number = optim->rule->numbers; number;
         number = cti_nn_number_after(number)) {
        const cti_nn_fault fault = number_fault(number, optim);
        if (fault.name) return fault;
    }
    return optim->rule->conflict ? optim->rule->conflict(optim) : (cti_nn_fault){0};
}

cti_nn_fault cti_nn_item_fault(const cti_nn_item *item) {
    for (int i = 0; i < CTI_NN_ITEM_NUMBERS; i++) {
        const cti_nn_fault fault = number_fault(&cti_nn_item_numbers[i], item);
        if (fault.name) return fault;
    }
    return (cti_nn_fault){0};
}

/* Records a fault of the numbers as the error of a constructor or of ct_optim_set. */
static bool optim_check(const ct_optim *optim) {
    const cti_nn_fault fault = cti_nn_optim_fault(optim);
    if (!fault.name) return true;
    return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: %s is %s, must be %s", optim->rule->name,
                   fault.name, fault.value, fault.must);
}

static bool can_train(const ct_optim *optim, const ct_param *param) {
    if (param->tensor->dtype != CT_BF16) return true;
    return ct_fail(optim->context, CT_ERR_DTYPE,
                   "%s: the parameter %s is bf16, which is not trained: ct_module_to_f32",
                   optim->rule->name, param->name);
}

/* ---- making and freeing ---- */

static void optim_end(cti_nn_dependent *self) {
    ct_optim_free((ct_optim *)((char *)self - offsetof(ct_optim, dependent)));
}

ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, cti_nn_optim_opts opts,
                           cti_op_numbers numbers) {
    ct_context *context = module->context;
    ct_optim made = {
        .object = {.context = context},
        .module = module,
        .changes = module->changes,
        .rule = rule,
        .opts = opts,
        .numbers = numbers,
        .grad_norm = NAN,
        .grad_scale = 1,
    };
    if (!cti_ready(context) || !optim_check(&made)) return NULL;
    for (ct_param param = {0}; ct_module_next(module, &param); made.count++)
        if (!can_train(&made, &param)) return NULL;
    if (!made.count)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the %s has no parameter", rule->name,
                       cti_nn_kind_name(module));
    ct_optim *optim = cti_object_new(context, sizeof *optim, "optimiser");
    if (!optim) return NULL;
    made.object = optim->object;
    made.items = cti_take_zeroed(context, cti_bytes(made.count, sizeof(cti_nn_item)));
    made.steps = cti_take(context, cti_bytes(made.count, sizeof(cti_op_step)));
    *optim = made;
    cti_nn_dependent_add(module, &optim->dependent, optim_end);
    if (optim->items && optim->steps && add_params(optim, module)) return optim;
    ct_optim_free(optim);
    return NULL;
}

void ct_optim_free(ct_optim *optim) {
    if (!optim || optim->object.self != &optim->object) return;
    ct_context *context = optim->context;
    if (optim->dist && cti_in_engine(context, "ct_optim_free")) return;
    if (optim->dist) optim->end_dist(optim->dist);
    cti_nn_dependent_remove(optim->module, &optim->dependent);
    if (optim->items) {
        for (int64_t i = 0; i < optim->count; i++) item_end(context, &optim->items[i]);
        cti_give(context, optim->items, cti_bytes(optim->count, sizeof(cti_nn_item)));
    }
    if (optim->steps) cti_give(context, optim->steps, cti_bytes(optim->count, sizeof(cti_op_step)));
    cti_object_end(&optim->object, optim->rule->name);
}

/* ---- a step ---- */

bool cti_nn_step_is_complete(ct_optim *optim) {
    if (optim->changes == optim->module->changes) return true;
    int64_t i = 0;
    for (ct_param param = {0}; ct_module_next(optim->module, &param);) {
        if (!can_train(optim, &param)) return false;
        int64_t tried = 0; /* the search starts at the previous match */
        while (tried < optim->count && optim->items[i % optim->count].param != param.tensor)
            tried++, i++;
        if (tried == optim->count)
            return ct_fail(optim->context, CT_ERR_ARGUMENT,
                           "%s: the parameter %s has been added since the optimiser was made",
                           optim->rule->name, param.name);
    }
    optim->changes = optim->module->changes;
    return true;
}

static ct_tensor *item_grad(const cti_nn_item *item) {
    if (item->frozen) return NULL;
    if (!item->range) return ct_grad(item->param);
    return item->range->present ? item->range->grad : NULL;
}

void cti_nn_step_collect(ct_optim *optim) {
    int64_t n = 0;
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        item->grad = item_grad(item);
        if (item->grad)
            optim->steps[n++] = (cti_op_step){.p = item->range ? item->range->param : item->param,
                                              .g = item->grad,
                                              .numbers = optim->numbers};
    }
    optim->n_steps = n;
}

bool cti_nn_step_measured(ct_optim *optim, double norm) {
    const double clip_norm = optim->opts.clip_norm;
    optim->grad_norm = norm;
    optim->grad_scale = clip_norm > 0 ? cti_nn_clip_scale(norm, clip_norm) : 1;
    if (!optim->opts.skip_nonfinite || isfinite(norm)) return true;
    optim->skipped += optim->skipped < CTI_NN_LAST_STEP;
    return false;
}

bool cti_nn_step_prepare(ct_optim *optim) {
    cti_op_step *step = optim->steps;
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        if (!item->grad) continue;
        if (item->step == 0 && !cti_nn_item_start(optim->rule, item)) return false;
        memcpy(step->state, item->state, sizeof step->state);
        optim->rule->set(optim, item, step > optim->steps ? &step[-1].numbers : NULL,
                         &step->numbers);
        step++;
    }
    CTI_ASSERT(step == optim->steps + optim->n_steps);
    return true;
}

/* Counts the step. An item whose parameter no longer requires a gradient loses its states. */
static void finish(ct_optim *optim) {
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        if (item->grad) item->step += item->step < CTI_NN_LAST_STEP;
        else if (item->step > 0 && !ct_requires_grad(item->param)) cti_nn_item_reset(item);
        CTI_ASSERT((item->state[0] != NULL) == (item->step > 0 && optim->rule->state[0]));
    }
}

bool cti_nn_step_run(ct_optim *optim) {
    if (!optim->rule->step(optim->steps, optim->n_steps)) return false;
    finish(optim);
    return true;
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
    if (cti_nn_step_prepare(optim) && cti_nn_step_run(optim)) return true;
    cti_nn_step_undo(optim);
    return false;
}

/* A step changes either everything or nothing. */
bool ct_optim_step(ct_optim *optim) {
    if (!cti_nn_optim_ready(optim, "ct_optim_step")) return false;
    if (optim->dist)
        return ct_fail(optim->context, CT_ERR_ARGUMENT,
                       "%s: the optimiser has a ct_dist, and is stepped by ct_dist_step",
                       optim->rule->name);
    return cti_nn_step_is_complete(optim) && cti_nn_step_alone(optim);
}

double ct_optim_grad_norm(const ct_optim *optim) {
    return optim && cti_object_is_open(&optim->object, "ct_optim_grad_norm") ? optim->grad_norm
                                                                             : NAN;
}

int64_t ct_optim_skipped(const ct_optim *optim) {
    return optim && cti_object_is_open(&optim->object, "ct_optim_skipped") ? optim->skipped : 0;
}

void ct_optim_zero_grad(ct_optim *optim) {
    if (!cti_nn_optim_ready(optim, "ct_optim_zero_grad")) return;
    for (int64_t i = 0; i < optim->count; i++) ct_zero_grad(optim->items[i].param);
}

/* ---- options of an optimiser that is made ---- */

/* Finds an option by its name. A count such as `skipped` is not an option. */
static const cti_nn_number *option_named(const ct_optim *optim, const char *name) {
    const cti_nn_number *option = optim->rule->numbers;
    while (option && (option->dtype == CT_I64 || strcmp(option->name, name) != 0))
        option = cti_nn_number_after(option);
    return option;
}

/* Records the error for an unknown option, with the names of all options. */
static bool refuse_option(const ct_optim *optim, const char *name) {
    char known[160] = "";
    size_t used = 0;
    for (const cti_nn_number *option = optim->rule->numbers; option;
         option = cti_nn_number_after(option))
        if (option->dtype != CT_I64 && used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     option->name);
    return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: no option \"%s\": there are %s",
                   optim->rule->name, name, known);
}

static bool set_option(ct_optim *optim, const cti_nn_number *option, double value) {
    ct_optim changed = *optim;
    char *at = (char *)&changed + option->offset;
    value = cti_option(value, 0);
    if (option->dtype == CT_BOOL && value != 0 && value != 1)
        return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: %s is %g, must be 0 or 1",
                       optim->rule->name, option->name, value);
    const bool flag = value == 1;
    if (option->dtype == CT_BOOL) memcpy(at, &flag, sizeof flag);
    else memcpy(at, &value, sizeof value);
    if (!optim_check(&changed)) return false;
    optim->opts = changed.opts;
    optim->numbers = changed.numbers;
    return true;
}

bool ct_optim_set(ct_optim *optim, const char *number, double value) {
    if (!cti_nn_optim_ready(optim, "ct_optim_set")) return false;
    const cti_nn_number *option = number ? option_named(optim, number) : NULL;
    return option ? set_option(optim, option, value)
                  : refuse_option(optim, number ? number : "NULL");
}

void ct_optim_set_lr(ct_optim *optim, double lr) {
    if (!cti_nn_optim_ready(optim, "ct_optim_set_lr")) return;
    set_option(optim, option_named(optim, "lr"), lr);
}
