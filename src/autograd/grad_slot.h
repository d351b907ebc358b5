/* Grad slots: where gradients gather. A leaf has one; a recorded op has one for each of its
 * outputs.
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
 * PARTIAL  sum is row-major; of one dim, indices [start, end) are not written yet. Only an op's
 *          slot is ever partial: what a leaf's holds is what ct_grad shows.
 * FULL     every element of sum is written.
 *
 * The first gradient is moved in: the slot takes the tensor over without a copy where it can. A
 * further one is added in place exactly when nothing else holds the sum's memory, which the
 * storage's count tells; else to a copy. So an op may return one tensor as the gradient of two
 * inputs. An op of the library can also ask for the slot's own memory and write its gradient there;
 * it then hands that tensor back as grad[i]. */
#ifndef CTI_AUTOGRAD_GRAD_SLOT_H
#define CTI_AUTOGRAD_GRAD_SLOT_H

#include "../core/context.h"

struct cti_grad_slot {
    ct_tensor *sum;     /* no scope owns it */
    int64_t start, end; /* PARTIAL where start < end: not written yet */
    int dim;            /* of that range */
    /* how often sum was handed to the backward that is running and not yet handed back */
    int lent;
    bool fresh;          /* that backward's first loan made sum */
    bool retain;         /* ct_retain_grad of an op's output */
    unsigned char index; /* in its node: which output it belongs to */
    ct_tensor *retained; /* with retain: what ct_grad shows */
};

/* ---- for backward.c ---- */

/* Hands a gradient to the slot. `frame` is that of the backward that computed it: tensors of that
 * frame can be taken over. False: out of memory, recorded. */
bool cti_grad_slot_receive(cti_grad_slot *slot, ct_tensor *grad, const cti_frame *frame);

void cti_grad_slot_fill(cti_grad_slot *slot); /* PARTIAL becomes FULL */
/* adds the sum to what ct_grad shows. False: as receive */
bool cti_grad_slot_retain(cti_grad_slot *slot, const cti_frame *frame);
void cti_grad_slot_empty(cti_grad_slot *slot);
/* after a backward: sum that was made for it and not handed back holds no gradient */
void cti_grad_slot_end_loans(cti_grad_slot *slot);

/* ---- for the backward of the library's ops ---- */

/* in[i]'s gradient is wanted. NULL or false: out of memory, recorded. */

/* The tensor in which in[i]'s gradient gathers: contiguous, of in[i]'s shape. *accumulate says
 * whether to add to what is there, else every element must be written. Write it before the next is
 * asked for, and hand it back as grad[i]. */
ct_tensor *cti_grad_writable(const ct_call *call, int i, bool *accumulate);

/* For a backward that can write base + its gradient: as cti_grad_writable, with what has gathered
 * so far, contiguous, in *base: NULL for nothing, the tensor itself, or memory that others still
 * read. */
ct_tensor *cti_grad_writable_onto(const ct_call *call, int i, ct_tensor **base);

/* For the backward of a slice: adds g to `length` of a dim from `start` of in[i]'s gradient, and
 * sets grad[i]. Slices that follow one another need no zeros before them. */
bool cti_grad_accumulate_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length,
                               const ct_tensor *g, ct_tensor **grad);

/* saved[k] to write to or hand back as a gradient: the tensor itself where nothing will read it
 * again, else a copy. Row-major; once a call. */
ct_tensor *cti_saved_writable(const ct_call *call, int k);

#endif
