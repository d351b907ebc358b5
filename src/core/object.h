/* What a caller holds by pointer and may free: modules, optimisers, caches. The struct of each
 * begins with a cti_object, by which a use of one that was freed is found. Its memory waits in a
 * queue until 4,096 others have been freed, and then serves objects only. */
#ifndef CTI_CORE_OBJECT_H
#define CTI_CORE_OBJECT_H

#include <cotangent/context.h>

enum { CTI_OBJECT_BYTES = 448, CTI_OBJECT_NAME = 256 };

typedef struct cti_object cti_object;
struct cti_object {
    ct_context *context;
    const cti_object *self; /* its own address, until it ends */
    const char *noun;       /* "module" */
    cti_object *next;       /* in the queue; there the name follows the struct */
};

typedef struct {
    cti_object *oldest, *newest; /* the queue */
    int64_t queued;
} cti_objects;

/* A zeroed struct of `size` bytes, at most CTI_OBJECT_BYTES, with its cti_object filled in. NULL:
 * an error is pending or was recorded. */
void *cti_object_new(ct_context *context, size_t size, const char *noun);

/* Ends it. `name` is what debug mode's messages call it. */
void cti_object_end(cti_object *object, const char *name);

/* Whether it has not ended. If it has, the function's error is recorded. */
bool cti_object_is_open(const cti_object *object, const char *function);

/* Whether it has not ended, and is of the context, which another argument of the call has. If not,
 * the function's error is recorded in both contexts, as the caller may look at either. */
bool cti_object_in(const cti_object *object, ct_context *context, const char *function);

/* Whether a function may begin with an object that a caller hands in: it is not NULL, has not
 * ended, and its context has no error pending. `beside` is the context of another argument, or
 * NULL: the function's error is recorded there too, also if it is that the object is NULL. Whether
 * an object that is ready is of the context `beside` is the caller's to check. */
bool cti_object_is_ready(const cti_object *object, const char *function, const char *noun,
                         ct_context *beside);

#endif
