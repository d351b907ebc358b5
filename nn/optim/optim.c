/* Making and freeing an optimiser, its items and their states. */
#include "optim.h"
#include "../../src/core/assert.h"

#include <math.h>
#include <string.h>

/* ---- parameters and their state ---- */

bool cti_nn_item_start(const ct_optim *optim, cti_nn_item *item) {
    const ct_tensor *of = item->range ? item->range->param : item->param;
    const ct_dtype dtype = optim->state_dtype == CT_BF16 ? CT_BF16 : of->dtype;
    for (int i = 0; i < cti_nn_rule_of(optim, item)->n_states; i++) {
        CTI_ASSERT(!item->state[i]);
        item->state[i] = ct_zeros(of->context, dtype, of->shape);
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
static bool optim_add_name(ct_context *context, cti_nn_item *item, const char *text) {
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
static bool optim_add_params(ct_optim *optim, const ct_module *module) {
    cti_nn_item *items = optim->items;
    int64_t made = 0;
    for (ct_param param = {0}; ct_module_next(module, &param);) {
        if (cti_nn_leaves_out(param.tensor)) continue;
        items[made++] = (cti_nn_item){.param = param.tensor, .lr_scale = 1};
        param.tensor->parameter++;
    }
    int64_t named = 0;
    for (ct_param param = {0}; cti_nn_next_name(module, &param);) {
        if (cti_nn_leaves_out(param.tensor)) continue;
        cti_nn_item *item = &items[named];
        if (named < made && item->param == param.tensor) named++;
        else do
                item--;
            while (item->param != param.tensor);
        if (!optim_add_name(optim->context, item, param.name)) return false;
    }
    return true;
}

/* Finds the rule of each parameter. The items have names and hold their parameters already, so what
 * a rule's function does to the module's children is harmless. */
static bool optim_add_rules(ct_optim *optim) {
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        item->rule = cti_nn_rule_for(optim, item);
        if (item->rule < 0) return false;
    }
    return true;
}

bool cti_nn_can_train(const ct_optim *optim, const ct_param *param) {
    const ct_dtype dtype = param->tensor->dtype;
    if (cti_is_real(dtype) || param->tensor->frozen) return true;
    return ct_fail(optim->context, CT_ERR_DTYPE,
                   "%s: the parameter %s is %s, which is not trained: ct_module_to",
                   cti_nn_optim_name(optim), param->name, cti_dtype_name(dtype));
}

/* ---- making and freeing ---- */

static bool optim_may_end(const cti_hook *self, const char *function) {
    const ct_optim *optim = (const ct_optim *)self;
    const cti_optim_client *client = optim->client;
    if (!cti_optim_is_idle(optim, function)) return false;
    if (cti_optim_is_running(optim))
        return ct_fail(optim->context, CT_ERR_ARGUMENT,
                       "%s: a step, a save or a load of the optimiser is running", function);
    return !client || client->may_end(client, function);
}

static void optim_end(cti_hook *self) {
    ct_optim *optim = (ct_optim *)self;
    ct_context *context = optim->context;
    if (optim->client) optim->client->end(optim->client);
    if (optim->items) {
        for (int64_t i = 0; i < optim->count; i++) item_end(context, &optim->items[i]);
        cti_give(context, optim->items, cti_bytes(optim->count, sizeof(cti_nn_item)));
    }
    cti_give(context, optim->steps, cti_bytes(optim->count, sizeof(ct_optim_item)));
    cti_give(context, optim->value, cti_bytes(optim->values, sizeof(double)));
    cti_object_end(&optim->object, cti_nn_optim_name(optim));
}

/* Checks the numbers, and counts the parameters. */
static bool can_be_made(ct_optim *optim) {
    if (!cti_nn_optim_check(optim, optim)) return false;
    if (optim->state_dtype != CT_F32 && optim->state_dtype != CT_BF16)
        return ct_fail(optim->context, CT_ERR_DTYPE,
                       "%s: state_dtype is %s, must be 0 (the parameter's dtype) or bf16",
                       cti_nn_optim_name(optim), cti_dtype_name(optim->state_dtype));
    for (ct_param param = {0}; ct_module_next(optim->module, &param);) {
        if (!cti_nn_can_train(optim, &param)) return false;
        optim->count += !cti_nn_leaves_out(param.tensor);
    }
    return optim->count || ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: the %s has no parameter%s",
                                   cti_nn_optim_name(optim), cti_nn_kind_name(optim->module),
                                   ct_module_count(optim->module) ? " that is trained" : "");
}

/* Makes the object of an optimiser whose values are filled in. On failure the values are the
 * caller's. */
static ct_optim *object_of(ct_optim *made) {
    ct_context *context = made->context;
    if (!can_be_made(made)) return NULL;
    ct_optim *optim = cti_object_new(context, sizeof *optim, "optimiser");
    if (!optim) return NULL;
    made->object = optim->object;
    made->items = cti_take_zeroed(context, cti_bytes(made->count, sizeof(cti_nn_item)));
    made->steps = cti_take(context, cti_bytes(made->count, sizeof(ct_optim_item)));
    *optim = *made;
    cti_hook_add(&optim->module->hooks, &optim->object.hook, optim_end);
    optim->object.hook.may_end = optim_may_end;
    return optim;
}

ct_optim *cti_nn_optim_new(ct_module *module, const ct_optim_rule *rule, ct_optim_opts opts,
                           bool own) {
    ct_context *context = module->context;
    ct_optim made = {
        .object = {.context = context},
        .module = module,
        .changes = module->changes,
        .own = own,
        .state_dtype = opts.state_dtype,
        .user = opts.user,
        .grad_norm = NAN,
        .grad_scale = 1,
    };
    if (!cti_ready(context) || !cti_nn_rules_fit(context, &made, rule)) return NULL;
    const size_t bytes = cti_bytes(made.values, sizeof(double));
    made.value = cti_take(context, bytes);
    if (!made.value) return NULL;
    cti_nn_options_fill(&made, &opts);
    ct_optim *optim = object_of(&made);
    if (!optim) {
        cti_give(context, made.value, bytes);
        return NULL;
    }
    if (optim->items && optim->steps && optim_add_params(optim, module) && optim_add_rules(optim))
        return optim;
    ct_optim_free(optim);
    return NULL;
}

ct_optim *ct_optim_new(ct_module *module, const ct_optim_rule *rule, ct_optim_opts opts) {
    if (!cti_nn_ready(module, rule && rule->name ? rule->name : "ct_optim_new", NULL)) return NULL;
    if (!rule) return ct_fail(module->context, CT_ERR_ARGUMENT, "ct_optim_new: the rule is NULL");
    return cti_nn_optim_new(module, rule, opts, false);
}

void ct_optim_free(ct_optim *optim) {
    if (!optim || optim->object.self != &optim->object) return;
    if (optim_may_end(&optim->object.hook, "ct_optim_free")) optim_end(&optim->object.hook);
}

/* ---- reading ---- */

double ct_optim_grad_norm(const ct_optim *optim) {
    return optim && cti_object_is_open(&optim->object, "ct_optim_grad_norm") ? optim->grad_norm
                                                                             : NAN;
}

int64_t ct_optim_skipped(const ct_optim *optim) {
    return optim && cti_object_is_open(&optim->object, "ct_optim_skipped") ? optim->skipped : 0;
}
