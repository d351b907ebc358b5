/* Running modules: the library's by their kind, a user's by the function it was given. */
#include "module.h"

bool nn_is(const ct_module *module, const nn_kind *kind, const char *function) {
    if (!module || !ct_ready(module->context)) return false;
    if (module->kind == kind) return true;
    ct_fail(module->context, CT_ERR_ARGUMENT, "%s: expected a %s, got a %s", function, kind->name, nn_kind_name(module));
    return false;
}

ct_tensor *ct_forward(ct_module *module, ct_tensor *x) {
    if (!module || !ct_ready(module->context)) return NULL;
    ct_context *context = module->context;
    const char *name = nn_kind_name(module);
    if (!x) return ct_fail(context, CT_ERR_ARGUMENT, "%s: the input is NULL", name);
    if (x->context != context) return ct_fail(context, CT_ERR_ARGUMENT, "%s: the input is of another context", name);
    if (!module->forward && !module->kind->forward) return ct_fail(context, CT_ERR_ARGUMENT, "%s has no forward of one input", name);

    ct_frame frame;
    ct_frame_open(context, &frame, false);
    ct_tensor *y = module->forward ? module->forward(module->self, x) : module->kind->forward(module, x);
    if (!y) ct_fail(context, CT_ERR_ARGUMENT, "%s: its forward returned nothing", name);
    else ct_same_context(context, y->context, name);
    return ct_frame_return(context, &frame, ct_ready(context) ? y : NULL);
}

ct_tensor *nn_forward(ct_module *module, const char *child, ct_tensor *x) { return ct_forward(ct_module_child(module, child), x); }

ct_tensor *nn_dropout(const ct_module *module, ct_tensor *x, double p) { return p > 0 && module->training ? ct_dropout(x, p, true) : x; }

/* ---- a user's ---- */

static const nn_kind user_kind = {.name = "Module"};

ct_module *ct_module_new(ct_context *context, const char *kind) {
    if (!ct_ready(context)) return NULL;
    if (!kind || !*kind) return ct_fail(context, CT_ERR_ARGUMENT, "ct_module_new: a module needs the name of its kind");
    ct_module *module = nn_new(context, &user_kind);
    if (module) module->label = ct_take_string(context, kind);
    return nn_made(module);
}

ct_module *ct_module_set_forward(ct_module *module, ct_tensor *(*forward)(void *self, ct_tensor *x), void *self) {
    if (!nn_is(module, &user_kind, "ct_module_set_forward")) return NULL;
    module->forward = forward;
    module->self = self;
    return module;
}
