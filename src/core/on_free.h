/* Functions that the program has registered to run when a module or a context, their owner, is
 * freed. Each function is a node of its owner's list; the function that was added last runs first.
 */
#ifndef CTI_CORE_ON_FREE_H
#define CTI_CORE_ON_FREE_H

#include "context.h"

typedef struct cti_on_free cti_on_free;
struct cti_on_free {
    cti_closer closer; /* if the owner is a context: the entry in its list of closers (closer.h) */
    cti_on_free *next; /* if the owner is a module: the node that was added before this one */
    ct_context *context;
    void (*fn)(void *arg);
    void *arg;
};

/* Makes a node that is on no list. Returns NULL with an error if memory is short or the context is
 * being freed. */
cti_on_free *cti_on_free_new(ct_context *context, void (*fn)(void *arg), void *arg);

/* Runs the function of a node, which must not be on a list any more, and frees the node. */
void cti_on_free_run(cti_on_free *node);

/* Frees a node that is on no list, without running its function. */
static inline void cti_on_free_give(cti_on_free *node) {
    cti_give(node->context, node, sizeof *node);
}

#endif
