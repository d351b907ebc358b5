/* The memory of handles (ct_tensor). It is laid out so that the library finds each use of a handle
 * that has ended. A handle lies in a cell, at an offset that differs from the offset of the
 * previous handle in this cell:
 *
 *     cell   context | ...... ct_tensor ......     512 bytes, aligned to 512
 *                     ^ at one of 32 offsets, 8 bytes apart
 *
 * The test for a stale handle is `tensor->self != tensor`. The states of a cell are:
 *
 *                   cti_handle_take                cti_handle_give
 *     FREE -------------------------> IN USE -------------------------> FREE
 *                                     ^    |
 *       cti_handle_take, if no cell   |    |  cti_handle_give of the handle
 *       is FREE and the queue is long |    v  at the last of 32 offsets
 *                                     QUEUED
 *
 * FREE    The cell is on the free list and has offsets left.
 * IN USE  The cell has a handle.
 * QUEUED  The cell is in the queue. It has had a handle at each of its offsets since it was QUEUED
 *         before.
 *
 * Invariants:
 *
 * 1. A handle has its own address in `self` until it ends.
 * 2. The next handle in a cell begins 8 bytes behind the previous one, or at the first offset if
 *    the previous one was at the last. So the bytes that were `self` in the old handle lie in
 *    another field of the new handle, whose value is not the old address. A stale handle is found
 *    until its address is used again.
 * 3. A cell leaves the queue after at least 128 other cells were queued behind it. If memory is
 *    short it may leave earlier.
 * 4. By 2 and 3, if memory was never short, an address is used again after at least 159 other
 *    handles have ended: 31 in the same cell, and one in each of the 128 cells behind it. The
 *    least number needs 128 cells that had a single offset left each. In a program that has one
 *    handle at a time, at least 4,127 handles have ended: 31 in the same cell, and 32 in each of
 *    the others.
 * 5. Cells are used for nothing else and live as long as the context. So `self` and the context
 *    of a cell can be read through a stale handle, however old it is.
 * 6. In debug mode, without a memory limit, a cell is QUEUED after each handle, and leaves the
 *    queue after at least 65,536 others were queued behind it. Until then the handle that has ended
 *    keeps its shape and the name of its op, which its error names.
 *
 * The free list is last in, first out, so the cache lines of a new handle are still in L1d. A queue
 * of all ended handles would need no offsets, but each new handle would be a cache miss or more. */
#ifndef CTI_CORE_HANDLE_H
#define CTI_CORE_HANDLE_H

#include "memory.h"
#include "tensor.h"

enum {
    CTI_CELL_BYTES = 512,
    CTI_CELL_STEP = 8, /* the offsets are 1 to 32 steps of this many bytes */
    CTI_CELL_OFFSETS = 32
};
_Static_assert(sizeof(ct_context *) <= CTI_CELL_STEP, "the first offset is behind the context");
_Static_assert(CTI_CELL_OFFSETS *CTI_CELL_STEP + sizeof(ct_tensor) <= CTI_CELL_BYTES,
               "a handle fits at the last offset");
_Static_assert(CTI_CELL_STEP % _Alignof(ct_tensor) == 0, "a handle is aligned at each offset");

/* The cells of a context. A cell on a list is represented by the last handle in it that has
 * ended, and these handles are linked by `next`. */
typedef struct {
    ct_tensor *free;            /* the free list */
    ct_tensor *oldest, *newest; /* the first and the last cell of the queue */
    int64_t queued;             /* the length of the queue */
    int64_t queue_min;          /* the oldest cell is used again if the queue is longer than this */
    int64_t cells;              /* the number of all cells of the context */
    uintptr_t offset_mask;      /* 31, in debug mode 0: a cell is queued after offset_mask + 1
                                 * handles */
} cti_handles;

/* The address of the cell of a handle. */
static inline uintptr_t cti_cell_of(const ct_tensor *tensor) {
    return (uintptr_t)tensor & ~(uintptr_t)(CTI_CELL_BYTES - 1);
}

/* The address of the next handle in the cell of this handle. It is one step further, and after the
 * last offset it is at the first. The last offset is 32 steps, 256 bytes, and the only one with
 * this bit. */
static inline ct_tensor *cti_cell_next(const ct_tensor *tensor) {
    const uintptr_t last_offset = CTI_CELL_OFFSETS * CTI_CELL_STEP;
    return (ct_tensor *)(((uintptr_t)tensor & ~last_offset) + CTI_CELL_STEP);
}

/* Whether a cell is queued after this handle. The first offset that is used in a cell depends
 * on the cell's address, so that the handles in use are spread over all L1d sets. */
static inline bool cti_cell_is_last(const cti_handles *handles, const ct_tensor *tensor) {
    const uintptr_t offset = (uintptr_t)tensor / CTI_CELL_STEP,
                    cell = (uintptr_t)tensor / CTI_CELL_BYTES;
    return ((offset - cell) & handles->offset_mask) == 0;
}

/* The value of `self` after a handle has ended, until the next handle in its cell overwrites it.
 * As long as `self` has this value the handle's other fields, such as its shape, can be read. */
static inline const ct_tensor *cti_handle_ended(const ct_tensor *tensor) {
    return (const ct_tensor *)((const char *)tensor + 1);
}

/* The context of a handle, even if the handle has ended. */
static inline ct_context *cti_handle_context(const ct_tensor *tensor) {
    return tensor->self == tensor ? tensor->context : *(ct_context *const *)cti_cell_of(tensor);
}

/* Whether the address is at one of the offsets of a cell of the context, as the address of a
 * handle is. */
static inline bool cti_handle_is_placed(const ct_context *context, const ct_tensor *tensor) {
    const uintptr_t cell = cti_cell_of(tensor), offset = (uintptr_t)tensor - cell;
    return offset % CTI_CELL_STEP == 0 && offset / CTI_CELL_STEP - 1 < CTI_CELL_OFFSETS &&
           *(ct_context *const *)cell == context;
}

void cti_handles_init(ct_context *context);
int64_t cti_handles_used(const ct_context *context); /* the number of handles that have not ended */

/* These are the general cases of cti_handle_take and cti_handle_give (context.h). */
ct_tensor *cti_handle_take_any(ct_context *context);
void cti_handle_enqueue(ct_context *context, ct_tensor *ended);

#endif
