/* Handles: new slots, and the queue of slots whose offsets have all been used. */
#include "context.h"
#include "int_math.h"

enum {
    HANDLE_QUEUE_MIN = 128,    /* slots in the queue before its oldest is used again */
    QUEUE_MIN_DEBUG = 1 << 16, /* the same in debug mode */
    CHUNK_MIN = 8,             /* slots made at once: as many as the context has, */
    CHUNK_MAX = 128            /* within these limits */
};
_Static_assert(HANDLE_QUEUE_MIN *CTI_SLOT_OFFSETS >= 4096, "what handle.h says");

/* With a memory limit, which may not have room for debug mode's 32 MB of queued slots, debug mode
 * uses the short queue. */
void cti_handles_init(ct_context *context) {
    const bool queue_all = context->debug && !context->pool.limit;
    context->handles.offset_mask = queue_all ? 0 : CTI_SLOT_OFFSETS - 1;
    context->handles.queue_min = queue_all ? QUEUE_MIN_DEBUG : HANDLE_QUEUE_MIN;
}

/* The address of a slot's handle after which it is queued: see cti_slot_is_last. */
static ct_tensor *last_handle(uintptr_t slot) {
    const uintptr_t offset = slot / CTI_SLOT_BYTES % CTI_SLOT_OFFSETS;
    return (ct_tensor *)(slot + (offset ? offset : CTI_SLOT_OFFSETS) * CTI_SLOT_STEP);
}

/* Makes `queue` slots for the queue and `free` slots for the free list. False: out of memory. */
static bool add_slots(ct_context *context, int64_t queue, int64_t free) {
    const int64_t count = queue + free;
    char *chunk = cti_take_lasting(context, (size_t)(count + 1) * CTI_SLOT_BYTES - CTI_ALIGN);
    if (!chunk) return false;
    uintptr_t slot = ((uintptr_t)chunk + CTI_SLOT_BYTES - 1) & ~(uintptr_t)(CTI_SLOT_BYTES - 1);
    for (int64_t i = 0; i < count; i++, slot += CTI_SLOT_BYTES) {
        *(ct_context **)slot = context;
        ct_tensor *last = last_handle(slot); /* as if one had been there and ended */
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

/* Adds slots to the free list. The first time, it also fills the queue to its length, so that this
 * needs no memory later. */
static void grow_handles(ct_context *context) {
    const cti_handles *handles = &context->handles;
    const bool fill = !handles->slots && handles->offset_mask && !context->pool.limit;
    const int64_t free = cti_min(cti_max(handles->slots, CHUNK_MIN), CHUNK_MAX);
    if (!fill || !add_slots(context, HANDLE_QUEUE_MIN, free)) add_slots(context, 0, free);
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
    if (!handles->free && handles->queued <= handles->queue_min) grow_handles(context);
    ct_tensor *ended = handles->free;
    if (ended) handles->free = ended->next;
    else if (handles->queued) ended = dequeue(handles); /* out of memory: a shorter queue */
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
