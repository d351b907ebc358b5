/* Functions that run when a module or a context is freed. */
#include "on_free.h"

cti_on_free *cti_on_free_new(ct_context *context, void (*fn)(void *arg), void *arg) {
    if (context->closing)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "a function for the end: the context is being freed");
    cti_on_free *node = cti_take(context, sizeof *node);
    if (!node) return NULL;
    node->next = NULL;
    node->context = context;
    node->fn = fn;
    node->arg = arg;
    return node;
}

void cti_on_free_run(cti_on_free *node) {
    node->fn(node->arg);
    cti_on_free_give(node);
}

/* ---- the functions of a context ---- */

static cti_on_free *node_of(cti_closer *closer) {
    return (cti_on_free *)((char *)closer - offsetof(cti_on_free, closer));
}

static void run_with_context(cti_closer *closer) {
    cti_on_free *node = node_of(closer);
    cti_closer_remove(&node->context->closers, closer);
    cti_on_free_run(node);
}

/* Removes the function with this argument that was added last, if there is one. */
static void take_off(ct_context *context, const void *arg) {
    cti_closer *closer = context->closers;
    while (closer && (closer->close != run_with_context || node_of(closer)->arg != arg))
        closer = closer->next;
    if (!closer) return;
    cti_closer_remove(&context->closers, closer);
    cti_on_free_give(node_of(closer));
}

bool ct_context_on_free(ct_context *context, void (*fn)(void *), void *arg) {
    if (!context) return false;
    if (!fn) {
        take_off(context, arg);
        return true;
    }
    if (!cti_ready(context)) return false;
    cti_on_free *node = cti_on_free_new(context, fn, arg);
    if (!node) return false;
    node->closer.close = run_with_context;
    cti_closer_add(&context->closers, &node->closer);
    return true;
}
