/* The functions that run when a module is freed, by ct_module_free or with the context: hook.h. */
#include "module.h"

#include "bare.h"

static bool module_has_functions(const ct_module *module) {
    return module->ends_data || cti_function_newest(module->hooks);
}

/* The first module of the tree that has functions to run, parents before children. */
static ct_module *first_with_functions(ct_module *root) {
    ct_module *module = root;
    while (module && !module_has_functions(module)) module = cti_nn_after(root, module);
    return module;
}

/* Runs the newest function, and the `end` of the type after all others. */
static void functions_run_next(ct_module *module) {
    cti_hook *function = cti_function_newest(module->hooks);
    if (function) {
        cti_hook_end(function);
    } else {
        module->ends_data = false;
        module->type->end(module->self);
    }
    if (!module_has_functions(module)) cti_hook_remove(&module->object.hook);
}

/* A function may change the tree, so the search begins anew after each. In the frame no function
 * can be added and `module` cannot be freed. */
void cti_nn_run_functions(ct_module *module) {
    ct_module *owner = first_with_functions(module);
    if (!owner) return;
    cti_frame frame;
    cti_frame_open(module->context, &frame, true);
    frame.module = &module->namer;
    frame.ending = true;
    for (; owner; owner = first_with_functions(module)) functions_run_next(owner);
    cti_frame_close(module->context, &frame);
}

/* Runs the functions of the whole tree at once, so that the order is that of ct_module_free. */
static void module_end_with_context(cti_hook *self) {
    ct_module *module = (ct_module *)self;
    while (module->parent) module = module->parent;
    cti_nn_run_functions(module);
}

void cti_nn_functions_added(ct_module *module) {
    cti_hook *hook = &module->object.hook;
    if (!hook->link) cti_hook_add(&module->context->hooks, hook, module_end_with_context);
}

bool ct_module_on_free(ct_module *module, void (*fn)(void *), void *arg) {
    if (!module || !cti_object_is_open(&module->object, "ct_module_on_free")) return false;
    ct_context *context = module->context;
    if (!fn) {
        cti_function_remove(module->hooks, arg);
        if (!module_has_functions(module)) cti_hook_remove(&module->object.hook);
        return true;
    }
    if (!cti_ready(context)) return false;
    if (cti_nn_is_ending(module))
        return ct_fail(context, CT_ERR_ARGUMENT, "ct_module_on_free: the %s is being freed",
                       cti_nn_kind_name(module));
    if (!cti_function_add(context, &module->hooks, fn, arg)) return false;
    cti_nn_functions_added(module);
    return true;
}

void cti_nn_end_with(ct_module *module, cti_object *object, void (*end)(cti_hook *self)) {
    cti_hook_add(&module->hooks, &object->hook, end);
}
