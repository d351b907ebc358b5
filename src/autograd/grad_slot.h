/* Grad slots: where gradients accumulate. A leaf has one; a recorded op has one for each output.
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
 * The first gradient is moved in: the slot becomes the tensor's owner, without a copy where it can.
 * Another is added in place exactly if nothing else holds the sum's memory (its storage's count is
 * 1), else to a copy. So an op may return one tensor as the gradient of two inputs. An op of the
 * library can also borrow sum, write its gradient there, and return sum as grad[i]. */
#ifndef CTI_AUTOGRAD_GRAD_SLOT_H
#define CTI_AUTOGRAD_GRAD_SLOT_H

#include "../core/context.h"

struct cti_grad_slot {
    ct_tensor *sum;      /* no scope owns it */
    int64_t start, end;  /* PARTIAL where start < end: not written yet */
    int dim;             /* of that range */
    int lent;            /* loans of sum to the backward that is running, less those returned */
    bool fresh;          /* sum was made for the first of these loans */
    bool retain;         /* ct_retain_grad of an op's output */
    unsigned char index; /* of the output, and of this slot in its node */
    ct_tensor *retained; /* with retain: what ct_grad shows */
};

/* ---- for backward.c ---- */

/* Adds a gradient to the slot. `frame` is that of the op's backward: tensors that it owns can be
 * moved in. False: out of memory, recorded. */
bool cti_grad_slot_receive(cti_grad_slot *slot, ct_tensor *grad, const cti_frame *frame);

void cti_grad_slot_fill(cti_grad_slot *slot); /* PARTIAL becomes FULL */
/* Adds the sum to `retained`. False: out of memory, recorded. */
bool cti_grad_slot_retain(cti_grad_slot *slot, const cti_frame *frame);
void cti_grad_slot_empty(cti_grad_slot *slot);
/* After an op's backward. A sum that was made for a loan and not returned is removed. */
void cti_grad_slot_end_loans(cti_grad_slot *slot);

/* ---- for the backward of the library's ops ---- */

/* For inputs whose gradient is wanted. NULL or false: out of memory, recorded. */

/* A row-major tensor of in[i]'s shape to write in[i]'s gradient to, and to return as grad[i]: the
 * slot's sum where nothing else holds it. *accumulate: the gradient must be added to it, else every
 * element must be written. Finish with it before borrowing another, as two inputs may share a
 * slot. */
ct_tensor *cti_grad_writable(const ct_call *call, int i, bool *accumulate);

/* For a backward that writes base + its gradient in one pass: as cti_grad_writable, with the sum so
 * far, row-major, in *base. That is NULL if there is none, the returned tensor itself, or memory
 * that others still read. */
ct_tensor *cti_grad_writable_onto(const ct_call *call, int i, ct_tensor **base);

/* For the backward of a slice: adds g to indices [start, start + length) of a dim of in[i]'s
 * gradient, and sets grad[i]. Where slices are adjacent, nothing is zeroed before. */
bool cti_grad_accumulate_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length,
                               const ct_tensor *g, ct_tensor **grad);

/* saved[k] as a row-major tensor to overwrite or to return as a gradient: its own memory if this is
 * the last backward and nothing else holds it, else a copy. At most once in a call. */
ct_tensor *cti_saved_writable(const ct_call *call, int k);

#endif
