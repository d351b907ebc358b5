/* The memory of handles (ct_tensor), laid out so that a use of a handle that has ended is detected.
 *
 *     slot    context | ...... ct_tensor ......     512 bytes, aligned to 512
 *                     ^ at one of 32 offsets, 8 bytes apart
 *
 * The test for a stale handle is `tensor->self != tensor`. A live handle has its own address in
 * `self`. When it ends, the next handle in its slot begins 8 bytes further on: what is read as
 * `self` through the old address is then another field, which never has the old address as its
 * value.
 *
 * A slot that has had a handle at each of its 32 offsets goes to the end of a queue, and is taken
 * from there again when more than 128 slots are in it. So an address is used again after 32 x 128 =
 * 4,096 other handles have ended, at the earliest, and until then a stale handle is found.
 *
 * Before that a slot is on the free list, which is last in, first out: its lines are in L1d still.
 * A queue of all ended handles would need no offsets, but each new handle would be a cache miss or
 * more. Slots are used for nothing else and live as long as the context, so `self` and the slot's
 * context can be read through a stale handle however old it is.
 *
 * In debug mode a slot goes to the queue after every handle, and the queue has 65,536 slots. The
 * ended handle keeps its shape and its op's name for the error's message. */
#ifndef CTI_CORE_HANDLE_H
#define CTI_CORE_HANDLE_H

#include "memory.h"
#include "tensor.h"

enum {
    CTI_SLOT_BYTES = 512,
    CTI_SLOT_STEP = 8, /* the offsets are 1 ... 32 steps */
    CTI_SLOT_OFFSETS = 32
};
_Static_assert(sizeof(ct_context *) <= CTI_SLOT_STEP, "the first offset is behind the context");
_Static_assert(CTI_SLOT_OFFSETS *CTI_SLOT_STEP + sizeof(ct_tensor) <= CTI_SLOT_BYTES,
               "a handle fits at the last offset");
_Static_assert(CTI_SLOT_STEP % _Alignof(ct_tensor) == 0, "a handle is aligned at each offset");

/* A slot on a list is represented by its handle that ended last, linked by `next`. */
typedef struct {
    ct_tensor *free;            /* the free list: slots with offsets left */
    ct_tensor *oldest, *newest; /* the queue: slots without */
    int64_t queued, queue_min;  /* its length; above queue_min, its oldest slot is used again */
    int64_t slots;              /* all that the context has */
    uintptr_t offset_mask; /* 31; debug mode: 0. A slot is queued after offset_mask + 1 handles */
} cti_handles;

static inline uintptr_t cti_slot_of(const ct_tensor *tensor) {
    return (uintptr_t)tensor & ~(uintptr_t)(CTI_SLOT_BYTES - 1);
}

/* The address of the next handle in the slot of this one: one step further, from the last offset
 * around to the first. The last, 32 steps or 256 bytes, is the only offset with that bit. */
static inline ct_tensor *cti_slot_next(const ct_tensor *tensor) {
    const uintptr_t last_offset = CTI_SLOT_OFFSETS * CTI_SLOT_STEP;
    return (ct_tensor *)(((uintptr_t)tensor & ~last_offset) + CTI_SLOT_STEP);
}

/* Does the slot go into the queue after this handle? Each slot goes through its offsets from
 * another one on, by its number, so that the handles in use are spread over all L1d sets. */
static inline bool cti_slot_is_last(const cti_handles *handles, const ct_tensor *tensor) {
    const uintptr_t offset = (uintptr_t)tensor / CTI_SLOT_STEP,
                    slot = (uintptr_t)tensor / CTI_SLOT_BYTES;
    return ((offset - slot) & handles->offset_mask) == 0;
}

/* The value of `self` after a handle has ended, until the next one in its slot is written over it.
 * As long as it is there, so are the handle's other fields, such as its shape for a message. */
static inline const ct_tensor *cti_handle_ended(const ct_tensor *tensor) {
    return (const ct_tensor *)((const char *)tensor + 1);
}

/* The context of a handle, even if that has ended. */
static inline ct_context *cti_handle_context(const ct_tensor *tensor) {
    return tensor->self == tensor ? tensor->context : *(ct_context *const *)cti_slot_of(tensor);
}

void cti_handles_init(ct_context *context);
int64_t cti_handles_used(const ct_context *context); /* how many have not ended */

/* The general cases of cti_handle_take and cti_handle_give (context.h). */
ct_tensor *cti_handle_take_any(ct_context *context);
void cti_handle_enqueue(ct_context *context, ct_tensor *ended);

#endif
