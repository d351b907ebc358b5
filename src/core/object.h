/* Objects: modules, optimisers, caches, files and others, which a program holds by a pointer and
 * frees. Each begins with a cti_object, by which the library finds a use of an object that was
 * freed, and which is a hook (hook.h): some objects end with a module or the context.
 *
 *                cti_object_new            cti_object_end
 *     no object ----------------> OPEN ---------------------> ENDED
 *                                  ^                            |
 *                                  `----------------------------'
 *                 cti_object_new, after 4,096 other objects have ended
 *
 * OPEN   self is the object's own address.
 * ENDED  self is NULL, and the object is in the context's queue. Its name follows the cti_object.
 *
 * Invariants:
 *
 * 1. An object that has ended stays ENDED until at least 4,096 objects of its context have ended
 *    after it. So a use of it is found until then.
 * 2. The memory of an object is never given back to the pool before the context is freed, and is
 *    only used for objects. So `self`, `context` and `noun` can be read through an old pointer.
 * 3. The queue has the ended objects in the order of their ends, and its first object is reused
 *    first.
 * 4. An object that has ended is on no list of hooks. */
#ifndef CTI_CORE_OBJECT_H
#define CTI_CORE_OBJECT_H

#include "hook.h"

enum { CTI_OBJECT_BYTES = 448, CTI_OBJECT_NAME = 256 };

typedef struct cti_object cti_object;
struct cti_object {
    union {
        cti_hook hook; /* must be first */
        ct_context *context;
    };
    const cti_object *self; /* the object's own address; NULL after its end */
    const char *noun;       /* the word for the object in messages: "module" */
    cti_object *next;       /* the next object in the queue */
};

/* The queue of ended objects. */
typedef struct {
    cti_object *oldest, *newest;
    int64_t queued; /* the length of the queue */
} cti_objects;

/* Makes an object of `size` bytes, at most CTI_OBJECT_BYTES. Its cti_object is filled in, and all
 * other bytes are 0. Returns NULL if an error is pending or memory is short. */
void *cti_object_new(ct_context *context, size_t size, const char *noun);

/* Makes ct_context_free end the object by `end`, in the order of ct_context_on_free. */
void cti_object_end_with_context(cti_object *object, void (*end)(cti_hook *self));

/* Ends an object and takes it off the list of hooks on which it is. Messages of debug mode call it
 * `name`. */
void cti_object_end(cti_object *object, const char *name);

/* Whether an object has not ended. If it has, the error is recorded under the function's name. */
bool cti_object_is_open(const cti_object *object, const char *function);

/* Whether an object has not ended and belongs to `context`, the context of another argument of the
 * call. If not, the error is recorded in both contexts, because the caller may look at either. */
bool cti_object_in(const cti_object *object, ct_context *context, const char *function);

/* Whether a function may begin with an object that is an argument: the object is not NULL, has not
 * ended, and its context has no pending error. `beside` is the context of another argument, or
 * NULL. If the object is NULL the error is recorded in `beside`; if `beside` is NULL too, none is
 * recorded. If the object has ended, the error is recorded in its context and in `beside`. If its
 * context has a pending error and is not `beside`, `beside` gets an error too. The caller must
 * still check whether an object that is ready belongs to `beside`. */
bool cti_object_is_ready(const cti_object *object, const char *function, const char *noun,
                         ct_context *beside);

#endif
