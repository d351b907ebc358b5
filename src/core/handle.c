/* Handles: new slots, and the queue of slots whose offsets have all been used. */
#include "context.h"
#include "int_math.h"

enum {
    QUEUE_MIN = 128,           /* slots in the queue before its oldest is used again */
    QUEUE_MIN_DEBUG = 1 << 16, /* the same where each handle that ends sends its slot there */
    CHUNK_MIN = 8,             /* slots made at once: as many as there are, from this number */
    CHUNK_MAX = 128            /* to this one */
};
_Static_assert(QUEUE_MIN *CTI_SLOT_OFFSETS >= 4096, "what handle.h says");

/* A memory limit may not have room for the longer queue of debug mode. */
void cti_handles_init(ct_context *context) {
    const bool once = context->debug && !context->pool.limit;
    context->handles.phases = once ? 0 : CTI_SLOT_OFFSETS - 1;
    context->handles.queue_min = once ? QUEUE_MIN_DEBUG : QUEUE_MIN;
}

/* Where the last of a slot's handles is: see cti_slot_is_last. */
static ct_tensor *last_place(uintptr_t slot) {
    const uintptr_t offset = slot / CTI_SLOT_BYTES % CTI_SLOT_OFFSETS;
    return (ct_tensor *)(slot + (offset ? offset : CTI_SLOT_OFFSETS) * CTI_SLOT_STEP);
}

/* Makes new slots: `queue` of them for the queue, the others for the free list. False: there is no
 * memory. */
static bool add_slots(ct_context *context, int64_t queue, int64_t free) {
    const int64_t count = queue + free;
    char *chunk = cti_take_lasting(context, (size_t)(count + 1) * CTI_SLOT_BYTES - CTI_ALIGN);
    if (!chunk) return false;
    uintptr_t slot = ((uintptr_t)chunk + CTI_SLOT_BYTES - 1) & ~(uintptr_t)(CTI_SLOT_BYTES - 1);
    for (int64_t i = 0; i < count; i++, slot += CTI_SLOT_BYTES) {
        *(ct_context **)slot = context;
        ct_tensor *last = last_place(slot); /* as if it had been there and ended */
        last->self = NULL;
        if (i < queue) {
            cti_handle_enqueue(context, last);
        } else {
            last->next = context->handles.free;
            context->handles.free = last;
        }
    }
    context->handles.slots += count;
    return true;
}

/* With its first slots the queue is filled, so that its growth asks for no memory later on. */
static void grow(ct_context *context) {
    const cti_handles *handles = &context->handles;
    const bool fill = !handles->slots && handles->phases && !context->pool.limit;
    const int64_t free = cti_min(cti_max(handles->slots, CHUNK_MIN), CHUNK_MAX);
    if (!fill || !add_slots(context, QUEUE_MIN, free)) add_slots(context, 0, free);
}

static ct_tensor *dequeue(cti_handles *handles) {
    ct_tensor *oldest = handles->oldest;
    handles->oldest = oldest->next;
    if (!oldest->next) handles->newest = NULL;
    handles->queued--;
    return oldest;
}

ct_tensor *cti_handle_take_any(ct_context *context) {
    cti_handles *handles = &context->handles;
    if (!handles->free && handles->queued <= handles->queue_min) grow(context);
    ct_tensor *ended = handles->free;
    if (ended) handles->free = ended->next;
    else if (handles->queued) ended = dequeue(handles); /* before its time, if there is no memory */
    else
        return ct_fail(context, CT_ERR_MEMORY, "%s: out of memory: no handle (%lld bytes in use)",
                       context->op ? context->op : "memory", (long long)context->pool.live);
    cti_handle_count(context, 1);
    return cti_slot_next(ended);
}

void cti_handle_enqueue(ct_context *context, ct_tensor *ended) {
    cti_handles *handles = &context->handles;
    ended->next = NULL;
    *(handles->newest ? &handles->newest->next : &handles->oldest) = ended;
    handles->newest = ended;
    handles->queued++;
}

int64_t cti_handles_used(const ct_context *context) {
    int64_t used = context->handles.slots - context->handles.queued;
    for (const ct_tensor *ended = context->handles.free; ended; ended = ended->next) used--;
    return used;
}
