/* Hooks: what is done when their owner, a context or a module, is freed. A hook belongs to an
 * object, which then closes or lets go of something (each object begins with a hook, see object.h),
 * or to a function of the program (ct_context_on_free, ct_module_on_free).
 *
 *                  cti_hook_add               cti_hook_end, which calls `end`
 *     on no list ---------------> on a list ----------------------------------> on no list
 *          ^                          |
 *          '---- cti_hook_remove -----'
 *
 * Invariants:
 *
 * 1. A hook is on the list of one owner, newest first, or on none. `link` points to the pointer
 *    that points to it; it is NULL if the hook is on no list.
 * 2. A hook leaves its list before its `end` is called. So `end` is called once. It may end other
 *    hooks of the list and add new ones; an owner is done when its list is empty.
 * 3. ct_context_free ends the hooks of the context: files, tokens, comms, functions and modules,
 *    from the newest to the oldest.
 * 4. A module is a hook of its context while it has functions: those of ct_module_on_free, and the
 *    `end` of its type. Its `end` runs the functions of its whole tree, as ct_module_free does.
 * 5. ct_module_free asks may_end of all hooks in the tree. Then it runs the functions, those of a
 *    module before those of its children, while all that is in the tree still exists. Then it
 *    ends the other hooks, which are optimisers and caches, and the modules. */
#ifndef CTI_CORE_HOOK_H
#define CTI_CORE_HOOK_H

#include <cotangent/context.h>

#include "assert.h"

typedef struct cti_hook cti_hook;
struct cti_hook {
    ct_context *context; /* must be first: objects begin with it */
    cti_hook *next, **link;
    /* Returns whether the object may end now. If not, it records an error that names the calling
     * function. NULL: it may end at any time. */
    bool (*may_end)(const cti_hook *self, const char *function);
    void (*end)(cti_hook *self);
};

/* Puts a hook, whose context is set, at the front of a list. */
static inline void cti_hook_add(cti_hook **list, cti_hook *hook, void (*end)(cti_hook *self)) {
    CTI_ASSERT(hook->context && !hook->link);
    hook->end = end;
    hook->next = *list;
    if (*list) (*list)->link = &hook->next;
    *list = hook;
    hook->link = list;
}

/* Takes a hook off its list, if it is on one. */
static inline void cti_hook_remove(cti_hook *hook) {
    if (!hook->link) return;
    CTI_ASSERT(*hook->link == hook);
    if (hook->next) hook->next->link = hook->link;
    *hook->link = hook->next;
    hook->next = NULL, hook->link = NULL;
}

/* Takes a hook off its list and calls its `end`. */
static inline void cti_hook_end(cti_hook *hook) {
    cti_hook_remove(hook);
    hook->end(hook);
}

/* ---- functions of the program ---- */

/* Returns whether functions can still be added; not while the context is being freed. Otherwise
 * records an error. */
bool cti_functions_can_be_added(ct_context *context);
/* Adds fn(arg) to a list. Returns false with an error if it cannot. */
bool cti_function_add(ct_context *context, cti_hook **list, void (*fn)(void *arg), void *arg);
/* Removes the newest function of a list with this arg, if there is one. */
void cti_function_remove(cti_hook *list, const void *arg);
/* Returns the newest function of a list; NULL if there is none. */
cti_hook *cti_function_newest(cti_hook *list);

#endif
