/* Functions that the program has registered to run when a module or a context, their owner, is
 * freed. Each function is a node of its owner's list; the function that was added last runs first.
 * A node holds the memory that its callback (callback.h) needs, so the function runs even if memory
 * is short. */
#ifndef CTI_CORE_ON_FREE_H
#define CTI_CORE_ON_FREE_H

#include "callback.h"

typedef struct cti_on_free cti_on_free;
struct cti_on_free {
    cti_closer closer; /* if the owner is a context: the entry in its list of closers (closer.h) */
    cti_on_free *next; /* if the owner is a module: the node that was added before this one */
    ct_context *context;
    void (*fn)(void *arg);
    void *arg;
    cti_callback_reserve reserve;
};

/* Makes a node that is on no list. Returns NULL with an error if memory is short or the context is
 * being freed. */
cti_on_free *cti_on_free_new(ct_context *context, void (*fn)(void *arg), void *arg);

/* Runs the function of a node, which must not be on a list any more, and frees the node. The
 * function runs as a callback; if it does not return, the error message calls it the `what` of
 * `name`. If a C++ exception or longjmp leaves the function, the node is freed with the context. */
void cti_on_free_run(cti_on_free *node, const char *what, const char *name);

/* Frees a node that is on no list, without running its function. */
static inline void cti_on_free_give(cti_on_free *node) {
    cti_give(node->context, node, sizeof *node);
}

#endif
