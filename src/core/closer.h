/* A struct that holds a file, a thread or another resource besides memory embeds a cti_closer, so
 * that ct_context_free closes the struct. The struct removes its closer from the list when it is
 * closed. */
#ifndef CTI_CORE_CLOSER_H
#define CTI_CORE_CLOSER_H

#include "assert.h"

typedef struct cti_closer cti_closer;
struct cti_closer {
    cti_closer *next, *prev;
    void (*close)(cti_closer *self); /* closes the struct, which removes this closer */
};

static inline void cti_closer_add(cti_closer **list, cti_closer *closer) {
    closer->prev = NULL;
    closer->next = *list;
    if (*list) (*list)->prev = closer;
    *list = closer;
}

static inline void cti_closer_remove(cti_closer **list, cti_closer *closer) {
    CTI_ASSERT(closer == (closer->prev ? closer->prev->next : *list));
    CTI_ASSERT(!closer->next || closer->next->prev == closer);
    if (closer->next) closer->next->prev = closer->prev;
    *(closer->prev ? &closer->prev->next : list) = closer->next;
}

#endif
