/* Functions of the program that run when a module or a context is freed. Each is a node of its
 * owner's list, and the function that was added last runs first. A node has reserved memory for the
 * callback, so its function runs even if memory is short. */
#ifndef CTI_CORE_ON_FREE_H
#define CTI_CORE_ON_FREE_H

#include "callback.h"

typedef struct cti_on_free cti_on_free;
struct cti_on_free {
    cti_closer closer; /* in a context's function: its closer on the context's list */
    cti_on_free *next; /* in a module's function: the function that was added before it */
    ct_context *context;
    void (*fn)(void *arg);
    void *arg;
    cti_callback_reserve reserve;
};

/* Makes a node that is on no list. Returns NULL with an error if memory is short or the context is
 * being freed. */
cti_on_free *cti_on_free_new(ct_context *context, void (*fn)(void *arg), void *arg);

/* Runs the function of a node that was removed from its list, as the callback `what` of `name`, and
 * gives the node's memory back. If an exception or longjmp leaves the function, the memory is given
 * back with the context. */
void cti_on_free_run(cti_on_free *node, const char *what, const char *name);

/* Gives a node's memory back. */
static inline void cti_on_free_give(cti_on_free *node) {
    cti_give(node->context, node, sizeof *node);
}

#endif
