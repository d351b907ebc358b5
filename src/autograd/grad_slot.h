/* Grad slots: where a tensor's gradient accumulates. A leaf has one; a node one for each output.
 *
 *                  moved in, or written            accumulated
 *        EMPTY -----------------------------> FULL <----.
 *          |                                   ^  \_____/
 *          | first slice written               | the last slice is written, or zeros are
 *          v                                   | written into the rest, as the slot is read
 *       PARTIAL -------------------------------' or a whole gradient is added
 *          ^  \  next slice, at an end of what is not written
 *           \_/
 *
 * EMPTY    sum is NULL.
 * PARTIAL  sum is row-major; of one dim, indices [start, end) are not written yet. A leaf's slot is
 *          never partial, as ct_grad shows its sum.
 * FULL     every element of sum is written.
 *
 * The first gradient is moved in: the slot becomes the tensor's owner, and copies it only if it has
 * to. Another gradient is added in place if nothing else holds the sum's memory (its storage's
 * reference count is 1), else to a copy. So an op may return one tensor as the gradient of two
 * inputs. An op of the library can also borrow sum, write its gradient there, and return sum as
 * grad[i]. */
#ifndef CTI_AUTOGRAD_GRAD_SLOT_H
#define CTI_AUTOGRAD_GRAD_SLOT_H

#include "../core/context.h"

struct cti_grad_slot {
    ct_tensor *sum;      /* no scope owns it */
    int64_t start, end;  /* PARTIAL if start < end: the indices that are not written yet */
    int dim;             /* the dim of start and end */
    int lent;            /* how often the running backward has borrowed sum and not returned it */
    bool fresh;          /* sum was made for the first of these loans: undefined until returned */
    bool retain;         /* ct_retain_grad of an op's output */
    unsigned char index; /* of the output, and of this slot in its node */
    /* of a leaf: a number that the context's cti_backward_watch has given it; 0: none */
    unsigned watched;
    ct_tensor *retained; /* with retain: what ct_grad shows */
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
 * in without a copy. False: out of memory, recorded. */
bool cti_grad_slot_receive(cti_grad_slot *slot, ct_tensor *grad, const cti_frame *frame);

void cti_grad_slot_write_rest(cti_grad_slot *slot);
static inline void cti_grad_slot_fill(cti_grad_slot *slot) { /* PARTIAL becomes FULL */
    if (cti_grad_slot_is_partial(slot)) cti_grad_slot_write_rest(slot);
}
/* Adds the sum to `retained`, for ct_retain_grad. False: out of memory, recorded. */
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

/* For inputs whose gradient is wanted. NULL or false: out of memory, recorded. */

/* A row-major tensor of in[i]'s shape, to write in[i]'s gradient to and to return as grad[i]: the
 * slot's sum if nothing else holds its memory, else a new one. If *accumulate is set, the gradient
 * must be added to what it holds; else every element must be written. Finish writing before the
 * next call, as two inputs may share a slot. */
ct_tensor *cti_grad_writable(const ct_call *call, int i, bool *accumulate);

/* As cti_grad_writable, for a backward that reads the sum so far from *base and writes base +
 * gradient in one pass. *base is row-major: the returned tensor itself, or, if others still hold
 * the sum's old memory, a view of that. NULL: no sum so far, every element must be written. */
ct_tensor *cti_grad_writable_onto(const ct_call *call, int i, ct_tensor **base);

/* For the backward of a slice: adds g to indices [start, start + length) of a dim of in[i]'s
 * gradient, and sets grad[i]. If slices come in the order of their indices (either way), they fill
 * the gradient without zeros being written first. */
bool cti_grad_accumulate_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length,
                               const ct_tensor *g, ct_tensor **grad);

/* saved[k] as a row-major tensor that may be overwritten or returned as a gradient: its own memory
 * if this is the last backward and nothing else holds it, else a copy. Once in a backward. */
ct_tensor *cti_saved_writable(const ct_call *call, int k);

#endif
