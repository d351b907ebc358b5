/* Where handles (ct_tensor) live, so that a use of one that has ended is found by its address.
 *
 *     slot    context | ...... ct_tensor ......     512 bytes, aligned to 512
 *                     ^ at one of 32 offsets, 8 bytes apart
 *
 * A handle has its own address in `self`, until it ends. The next handle in a slot begins 8
 * bytes further on, so at the address of the old one is the middle of another handle, where no
 * field has that address as its value. When a slot has had a handle at each of its offsets it waits
 * at the end of a queue. So an address is used again after 32 * 128 = 4,096 other handles have
 * ended, at the earliest; until then a stale handle is an error, and `self` tells.
 *
 * The slot that was left last is taken first, as its lines are in L1d: a plain queue of 4,096
 * handles would be a miss or more for each. Slots are used for nothing else and are never given
 * back, so `self` and the slot's context can be read through any stale handle, however old.
 *
 * In debug mode each handle that ends sends its slot into the queue, which is 65,536 long then, and
 * keeps its shape and its op's name for the message of the error. */
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

typedef struct {
    ct_tensor *free;            /* handles that ended in slots with offsets left, by `next` */
    ct_tensor *oldest, *newest; /* the queue of slots without, likewise */
    int64_t queued, queue_min;  /* its length, and from which on its oldest slot is used again */
    int64_t slots;              /* all there are */
    uintptr_t phases;           /* how many handles a slot has in turn, less 1: 31; debug mode: 0 */
} cti_handles;

static inline uintptr_t cti_slot_of(const ct_tensor *tensor) {
    return (uintptr_t)tensor & ~(uintptr_t)(CTI_SLOT_BYTES - 1);
}

/* Where the handle after this one is in its slot. Offset 32 is the only one with that bit. */
static inline ct_tensor *cti_slot_next(const ct_tensor *tensor) {
    const uintptr_t last_offset = CTI_SLOT_OFFSETS * CTI_SLOT_STEP;
    return (ct_tensor *)(((uintptr_t)tensor & ~last_offset) + CTI_SLOT_STEP);
}

/* Is it the last of the slot's handles, before the slot goes into the queue? Slots differ in where
 * they begin, so that the handles in use spread over all sets of L1d. */
static inline bool cti_slot_is_last(const cti_handles *handles, const ct_tensor *tensor) {
    const uintptr_t offset = (uintptr_t)tensor / CTI_SLOT_STEP,
                    slot = (uintptr_t)tensor / CTI_SLOT_BYTES;
    return ((offset - slot) & handles->phases) == 0;
}

/* What `self` is from a handle's end until the next one in its slot begins, which overwrites it: so
 * long the handle's other fields are still there. */
static inline const ct_tensor *cti_handle_ended(const ct_tensor *tensor) {
    return (const ct_tensor *)((const char *)tensor + 1);
}

/* The context of a handle, also of one that has ended. */
static inline ct_context *cti_handle_context(const ct_tensor *tensor) {
    return tensor->self == tensor ? tensor->context : *(ct_context *const *)cti_slot_of(tensor);
}

void cti_handles_init(ct_context *context);
int64_t cti_handles_used(const ct_context *context); /* how many have not ended */

/* The general cases of cti_handle_take and cti_handle_give (context.h). */
ct_tensor *cti_handle_take_any(ct_context *context);
void cti_handle_enqueue(ct_context *context, ct_tensor *ended);

#endif
