/* Functions that run when a module is freed, and with it when its context is. */
#include "module.h"

/* The first module of the tree that has functions to run, parents before children. */
static ct_module *first_with_ends(ct_module *module) {
    if (module->ends) return module;
    for (ct_module *child = module->children; child; child = child->next) {
        ct_module *found = first_with_ends(child);
        if (found) return found;
    }
    return NULL;
}

static void unlink_end(ct_module *module, cti_on_free **link) {
    *link = (*link)->next;
    if (!module->ends) cti_closer_remove(&module->context->closers, &module->closer);
}

/* A function may change the tree, so the search begins anew after each. In the frame no function
 * can be added and `module` cannot be freed. */
void cti_nn_run_ends(ct_module *module) {
    ct_context *context = module->context;
    ct_module *owner = first_with_ends(module);
    if (!owner) return;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    frame.module = &module->namer;
    frame.ending = true;
    for (; owner; owner = first_with_ends(module)) {
        cti_on_free *node = owner->ends;
        unlink_end(owner, &owner->ends);
        cti_on_free_run(node);
    }
    cti_frame_close(context, &frame);
}

/* Runs the functions when the context is freed. It runs those of the whole tree at once, so that
 * the order is the same as in ct_module_free. */
static void run_with_context_of(cti_closer *closer) {
    ct_module *module = (ct_module *)((char *)closer - offsetof(ct_module, closer));
    while (module->parent) module = module->parent;
    cti_nn_run_ends(module);
}

void cti_nn_end_add(ct_module *module, cti_on_free *node) {
    if (!module->ends) {
        module->closer.close = run_with_context_of;
        cti_closer_add(&module->context->closers, &module->closer);
    }
    node->next = module->ends;
    module->ends = node;
}

/* Takes off the latest function with that argument, if there is one; never the end of a type, which
 * was added first. */
static void take_off_module(ct_module *module, const void *arg) {
    cti_on_free **link = &module->ends;
    while (*link && (*link)->arg != arg) link = &(*link)->next;
    cti_on_free *node = *link;
    if (!node || (!node->next && module->type && node->fn == module->type->end)) return;
    unlink_end(module, link);
    cti_on_free_give(node);
}

bool ct_module_on_free(ct_module *module, void (*fn)(void *), void *arg) {
    if (!module || !cti_object_is_open(&module->object, "ct_module_on_free")) return false;
    if (!fn) {
        take_off_module(module, arg);
        return true;
    }
    ct_context *context = module->context;
    if (!cti_ready(context)) return false;
    if (cti_nn_is_ending(module))
        return ct_fail(context, CT_ERR_ARGUMENT, "ct_module_on_free: the %s is being freed",
                       cti_nn_kind_name(module));
    cti_on_free *node = cti_on_free_new(context, fn, arg);
    if (node) cti_nn_end_add(module, node);
    return node;
}
