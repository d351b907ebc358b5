/* Functions of the program that run when a module or a context is freed. Each is a node of its
 * owner's list, the latest first. A node has reserved memory for the callback, so its function runs
 * even if no memory is left. */
#ifndef CTI_CORE_ON_FREE_H
#define CTI_CORE_ON_FREE_H

#include "callback.h"

typedef struct cti_on_free cti_on_free;
struct cti_on_free {
    cti_closer closer; /* for a context's function: its place among the context's closers */
    cti_on_free *next; /* for a module's function: the one that was added before it */
    ct_context *context;
    void (*fn)(void *arg);
    void *arg;
    cti_callback_reserve reserve;
};

/* A new node that is in no list. NULL with an error recorded. */
cti_on_free *cti_on_free_new(ct_context *context, void (*fn)(void *arg), void *arg);

/* Runs the function of a node that is in no list any more, as the callback `what` of `name`, and
 * gives the node's memory back. If the function is left, the memory waits for the context's end. */
void cti_on_free_run(cti_on_free *node, const char *what, const char *name);

static inline void cti_on_free_give(cti_on_free *node) {
    cti_give(node->context, node, sizeof *node);
}

#endif
