/* Grad slots. A slot accumulates the gradient of a tensor. A leaf has one slot, and a node has one
 * for each output.
 *
 *                  moved in, or written            accumulated
 *        EMPTY -----------------------------> FULL <----.
 *          |                                   ^  \_____/
 *          | first slice written               | the last slice is written, or the rest is
 *          v                                   | filled with zeros because the slot is read
 *       PARTIAL -------------------------------' or a whole gradient is added
 *          ^  \  next slice, at an end of the range that is not written
 *           \_/
 *
 * EMPTY    sum is NULL.
 * PARTIAL  sum is row-major, and the indices [start, end) of one dim are not written yet.
 * FULL     every element of sum is written.
 *
 * Invariants:
 *
 * 1. The slot owns sum, and no scope does. The first gradient is moved in: the slot takes its
 *    handle over or makes a view of it. Only the slot of a leaf may have to copy it, because
 *    ct_grad shows the sum.
 * 2. Another gradient is added in place if nothing else holds the sum's memory (its storage has one
 *    reference), and otherwise to a copy. So an op may return one tensor as the gradient of two
 *    inputs.
 * 3. The slot of a leaf is never PARTIAL, because ct_grad returns its sum. The handle stays the
 *    same until ct_zero_grad; only its memory may be replaced.
 * 4. An op of the library can borrow sum, write its gradient into it, and return it as grad[i].
 *    `lent` counts these loans. It is 0 before and after each op's backward: a sum that was made
 *    for a loan and not returned is removed. */
#ifndef CTI_AUTOGRAD_GRAD_SLOT_H
#define CTI_AUTOGRAD_GRAD_SLOT_H

#include "../core/context.h"

struct cti_grad_slot {
    ct_tensor *sum;     /* the gradient so far; no scope owns this handle */
    int64_t start, end; /* the indices of dim that are not written yet; PARTIAL if start < end */
    int dim;            /* the dim along which slices are written */
    int lent;           /* loans of sum that the running backward has not returned */
    bool fresh;  /* sum was made for the first of these loans and is undefined until its return */
    bool retain; /* ct_retain_grad was called for an op's output */
    unsigned char index; /* the output's number, and this slot's place in its node */
    /* the number that the context's watcher has given to a leaf, from 1; 0 if none */
    unsigned watched;
    ct_tensor *retained; /* the gradient that ct_grad shows if `retain` is set */
};

static inline bool cti_grad_slot_is_partial(const cti_grad_slot *slot) {
    return slot->start < slot->end;
}

/* Asserts that the slot is in one of the three states. */
static inline void cti_grad_slot_assert(const cti_grad_slot *slot) {
    CTI_ASSERT(slot->lent >= 0 && slot->start <= slot->end);
    CTI_ASSERT(slot->sum || (slot->start == slot->end && !slot->lent && !slot->fresh));
    CTI_ASSERT(!slot->sum || !slot->sum->frame);
    CTI_ASSERT(!cti_grad_slot_is_partial(slot) || slot->sum->contiguous);
    CTI_ASSERT(!cti_grad_slot_is_partial(slot) ||
               (slot->start >= 0 && slot->end <= slot->sum->shape.dim[slot->dim]));
}

/* ---- for backward.c ---- */

/* Adds a gradient to the slot. `frame` is the frame of the op's backward: its tensors can be moved
 * in without a copy. Returns false with an error if memory is short. */
bool cti_grad_slot_receive(cti_grad_slot *slot, ct_tensor *grad, const cti_frame *frame);

void cti_grad_slot_write_rest(cti_grad_slot *slot);
static inline void cti_grad_slot_fill(cti_grad_slot *slot) { /* PARTIAL becomes FULL */
    if (cti_grad_slot_is_partial(slot)) cti_grad_slot_write_rest(slot);
}
/* Adds the sum to `retained`, for ct_retain_grad. Returns false with an error if memory is short.
 */
bool cti_grad_slot_retain(cti_grad_slot *slot, const cti_frame *frame);
static inline void cti_grad_slot_empty(cti_grad_slot *slot) {
    if (slot->sum) cti_tensor_free(slot->sum);
    slot->sum = NULL;
    slot->start = slot->end = 0;
}
/* Called after an op's backward. Removes a sum that was made for a loan and not returned. */
static inline void cti_grad_slot_end_loans(cti_grad_slot *slot) {
    if (slot->fresh && slot->lent) cti_grad_slot_empty(slot);
    slot->lent = 0;
    slot->fresh = false;
    cti_grad_slot_assert(slot);
}

/* ---- for the backward of the library's ops ---- */

/* These functions serve inputs whose gradient is wanted. They return NULL or false with an error if
 * memory is short. */

/* Returns a row-major tensor of in[i]'s shape. The op writes in[i]'s gradient into it and returns
 * it as grad[i]. It is the slot's sum if nothing else holds the sum's memory, otherwise a new
 * tensor. If *accumulate is set the gradient must be added to the elements, otherwise every element
 * must be written. The op finishes writing before its next call, because two inputs may have one
 * slot. */
ct_tensor *cti_grad_writable(const ct_call *call, int i, bool *accumulate);

/* Does the same for a backward that reads the sum so far from *base and writes base + gradient in
 * one pass. *base is row-major: it is the returned tensor, or a view of the sum's old memory if
 * something else still holds that. *base is NULL if there is no sum so far; then every element must
 * be written. */
ct_tensor *cti_grad_writable_onto(const ct_call *call, int i, ct_tensor **base);

/* Adds g, the cotangent of a slice, to indices [start, start + length) of a dim of in[i]'s
 * gradient, and sets grad[i]. Slices that come in the order of their indices (either way) fill the
 * gradient, and no zeros are written first. */
bool cti_grad_accumulate_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length,
                               const ct_tensor *g, ct_tensor **grad);

/* Returns saved[k] as a row-major tensor that may be overwritten or returned as a gradient. It has
 * the saved memory if this is the last backward and nothing else holds that memory, otherwise a
 * copy. An op calls this once in a backward. */
ct_tensor *cti_saved_writable(const ct_call *call, int k);

#endif
