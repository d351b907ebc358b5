/* Objects, and the errors of objects that are used after their end. */
#include "object.h"

#include "context.h"

#include <string.h>

enum { OBJECT_QUEUE_MIN = 4096 }; /* the oldest object is reused if the queue is longer than this */
_Static_assert(sizeof(cti_object) + CTI_OBJECT_NAME <= CTI_OBJECT_BYTES, "a name fits");

static char *name_of(const cti_object *ended) { return (char *)(ended + 1); }

void *cti_object_new(ct_context *context, size_t size, const char *noun) {
    if (!cti_ready(context)) return NULL;
    cti_objects *queue = &context->objects;
    cti_object *object = queue->oldest;
    if (size > CTI_OBJECT_BYTES)
        return ct_fail(context, CT_ERR_MEMORY, "%s: %zu bytes in a struct", noun, size);
    CTI_ASSERT(!queue->queued || (object && !object->self && !queue->newest->next));
    if (queue->queued > OBJECT_QUEUE_MIN) {
        queue->oldest = object->next;
        queue->queued--;
        context->pool.live += CTI_OBJECT_BYTES;
    } else {
        object = cti_take(context, CTI_OBJECT_BYTES);
        if (!object) return NULL;
    }
    memset(object, 0, CTI_OBJECT_BYTES);
    object->context = context;
    object->self = object;
    object->noun = noun;
    return object;
}

void cti_object_end_with_context(cti_object *object, void (*end)(cti_hook *self)) {
    cti_hook_add(&object->context->hooks, &object->hook, end);
}

void cti_object_end(cti_object *object, const char *name) {
    ct_context *context = object->context;
    cti_objects *queue = &context->objects;
    CTI_ASSERT(object->self == object);
    cti_hook_remove(&object->hook);
    object->self = NULL;
    object->next = NULL;
    snprintf(name_of(object), CTI_OBJECT_NAME, "%s", name);
    if (queue->queued) queue->newest->next = object;
    else queue->oldest = object;
    queue->newest = object;
    queue->queued++;
    context->pool.live -= CTI_OBJECT_BYTES;
}

/* Records that an object has ended or belongs to another context. The error is recorded in the
 * object's context and in `beside`. */
static void refuse_object(const cti_object *object, ct_context *beside, const char *function) {
    ct_context *context = object->context;
    if (object->self == object)
        cti_fail_in_both(context, beside, CT_ERR_ARGUMENT,
                         "%s: the %s and another argument are of two contexts", function,
                         object->noun);
    else if (context->debug)
        cti_fail_in_both(context, beside, CT_ERR_ARGUMENT, "%s: the %s %s has ended: it was freed",
                         function, object->noun, name_of(object));
    else
        cti_fail_in_both(context, beside, CT_ERR_ARGUMENT,
                         "%s: the %s has ended: it was freed; CT_DEBUG=1 says which it was",
                         function, object->noun);
}

bool cti_object_is_open(const cti_object *object, const char *function) {
    if (object->self != object) refuse_object(object, NULL, function);
    return object->self == object;
}

bool cti_object_in(const cti_object *object, ct_context *context, const char *function) {
    if (object->self == object && object->context == context) return true;
    refuse_object(object, context, function);
    return false;
}

bool cti_object_is_ready(const cti_object *object, const char *function, const char *noun,
                         ct_context *beside) {
    if (!object)
        return beside && ct_fail(beside, CT_ERR_ARGUMENT, "%s: %s is NULL", function, noun);
    const bool open = object->self == object;
    if (open && cti_ready(object->context)) return true;
    if (!open || (beside && beside != object->context)) refuse_object(object, beside, function);
    return false;
}
