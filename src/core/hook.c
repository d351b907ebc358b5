/* The functions of the program among the hooks of a context or a module. */
#include "hook.h"

#include "context.h"

typedef struct {
    cti_hook hook; /* must be first */
    void (*fn)(void *arg);
    void *arg;
} function_hook;

/* The `end` of all functions, by which they are told from other hooks. */
static void function_run(cti_hook *self) {
    const function_hook function = *(function_hook *)self;
    cti_give(self->context, self, sizeof function);
    function.fn(function.arg);
}

bool cti_functions_can_be_added(ct_context *context) {
    return cti_ready(context) &&
           (!context->closing || ct_fail(context, CT_ERR_ARGUMENT,
                                         "a function for the end: the context is being freed"));
}

bool cti_function_add(ct_context *context, cti_hook **list, void (*fn)(void *arg), void *arg) {
    if (!cti_functions_can_be_added(context)) return false;
    function_hook *function = cti_take(context, sizeof *function);
    if (!function) return false;
    *function = (function_hook){.hook = {.context = context}, .fn = fn, .arg = arg};
    cti_hook_add(list, &function->hook, function_run);
    return true;
}

void cti_function_remove(cti_hook *list, const void *arg) {
    cti_hook *hook = cti_function_newest(list);
    while (hook && ((function_hook *)hook)->arg != arg) hook = cti_function_newest(hook->next);
    if (!hook) return;
    cti_hook_remove(hook);
    cti_give(hook->context, hook, sizeof(function_hook));
}

cti_hook *cti_function_newest(cti_hook *list) {
    while (list && list->end != function_run) list = list->next;
    return list;
}

bool ct_context_on_free(ct_context *context, void (*fn)(void *), void *arg) {
    if (!context) return false;
    if (fn) return cti_function_add(context, &context->hooks, fn, arg);
    cti_function_remove(context->hooks, arg);
    return true;
}
