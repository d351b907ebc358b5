/* The memory of handles: new cells, and the queue. States and invariants are in handle.h. */
#include "context.h"
#include "int_math.h"

enum {
    HANDLE_QUEUE_MIN = 128,    /* queue_min */
    QUEUE_MIN_DEBUG = 1 << 16, /* queue_min in debug mode */
    /* The number of new cells, within these limits, is the number that the context has
     * already. */
    CHUNK_MIN = 8,
    CHUNK_MAX = 128
};
_Static_assert(HANDLE_QUEUE_MIN + CTI_CELL_OFFSETS - 1 == 159, "handle.h has these numbers");
_Static_assert((HANDLE_QUEUE_MIN + 1) * CTI_CELL_OFFSETS - 1 == 4127, "handle.h has these numbers");

/* With a memory limit debug mode uses the short queue, because the limit may have no room for the
 * 32 MB of the long one. */
void cti_handles_init(ct_context *context) {
    const bool queue_all = context->debug && !context->pool.limit;
    context->handles.offset_mask = queue_all ? 0 : CTI_CELL_OFFSETS - 1;
    context->handles.queue_min = queue_all ? QUEUE_MIN_DEBUG : HANDLE_QUEUE_MIN;
}

/* The address of the handle in this cell after which the cell is queued: see
 * cti_cell_is_last. */
static ct_tensor *last_handle(uintptr_t cell) {
    const uintptr_t offset = cell / CTI_CELL_BYTES % CTI_CELL_OFFSETS;
    return (ct_tensor *)(cell + (offset ? offset : CTI_CELL_OFFSETS) * CTI_CELL_STEP);
}

/* Makes `queue` cells for the queue and `free` cells for the free list. Returns false if memory
 * is short. */
static bool add_cells(ct_context *context, int64_t queue, int64_t free) {
    const int64_t count = queue + free;
    char *chunk = cti_take_lasting(context, (size_t)(count + 1) * CTI_CELL_BYTES - CTI_ALIGN);
    if (!chunk) return false;
    uintptr_t cell = ((uintptr_t)chunk + CTI_CELL_BYTES - 1) & ~(uintptr_t)(CTI_CELL_BYTES - 1);
    for (int64_t i = 0; i < count; i++, cell += CTI_CELL_BYTES) {
        *(ct_context **)cell = context;
        ct_tensor *last = last_handle(cell); /* represents the cell, like a handle that ended */
        last->self = NULL;
        if (i < queue) {
            cti_handle_enqueue(context, last);
        } else {
            last->next = context->handles.free;
            context->handles.free = last;
        }
    }
    context->handles.cells += count;
    return true;
}

/* Adds cells to the free list. The first call also fills the queue, so that later calls need no
 * memory for it. */
static void grow_handles(ct_context *context) {
    const cti_handles *handles = &context->handles;
    const bool fill = !handles->cells && handles->offset_mask && !context->pool.limit;
    const int64_t free = cti_min(cti_max(handles->cells, CHUNK_MIN), CHUNK_MAX);
    if (!fill || !add_cells(context, HANDLE_QUEUE_MIN, free)) add_cells(context, 0, free);
}

static ct_tensor *dequeue(cti_handles *handles) {
    ct_tensor *oldest = handles->oldest;
    CTI_ASSERT(oldest && handles->newest && handles->queued > 0);
    CTI_ASSERT(!oldest->next == (oldest == handles->newest));
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
    else if (handles->queued) ended = dequeue(handles); /* the queue may be short if memory is */
    else
        return ct_fail(context, CT_ERR_MEMORY, "%s: out of memory: no handle (%lld bytes in use)",
                       context->op ? context->op : "memory", (long long)context->pool.live);
    cti_handle_count(context, 1);
    CTI_ASSERT(cti_handle_is_placed(context, ended) && ended->self != ended);
    return cti_cell_next(ended);
}

void cti_handle_enqueue(ct_context *context, ct_tensor *ended) {
    cti_handles *handles = &context->handles;
    CTI_ASSERT(cti_handle_is_placed(context, ended) && ended->self != ended);
    CTI_ASSERT(!handles->newest == !handles->queued && !handles->oldest == !handles->queued);
    ended->next = NULL;
    *(handles->newest ? &handles->newest->next : &handles->oldest) = ended;
    handles->newest = ended;
    handles->queued++;
}

int64_t cti_handles_used(const ct_context *context) {
    int64_t used = context->handles.cells - context->handles.queued;
    for (const ct_tensor *ended = context->handles.free; ended; ended = ended->next) used--;
    return used;
}
