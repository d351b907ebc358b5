/* Grad slots. Their states, with a diagram, are described in grad_slot.h. */
#include "grad_slot.h"
#include "tape.h"

#include <string.h>

static bool is_leaf(const cti_grad_slot *slot) { return !cti_node_of(slot)->call.op; }

/* Writes zeros into [start, end) of a dim of a row-major tensor. */
static void zeros_write(ct_tensor *t, int dim, int64_t start, int64_t end) {
    const int64_t size = t->shape.dim[dim],
                  inner = t->stride[dim] * (int64_t)cti_dtype_size(t->dtype);
    const int64_t outer = t->numel ? t->numel / (size * t->stride[dim]) : 0;
    for (int64_t o = 0; o < outer; o++)
        memset(t->data + (o * size + start) * inner, 0, (size_t)((end - start) * inner));
}

void cti_grad_slot_write_rest(cti_grad_slot *slot) {
    cti_grad_slot_assert(slot);
    CTI_ASSERT(cti_grad_slot_is_partial(slot));
    zeros_write(slot->sum, slot->dim, slot->start, slot->end);
    slot->start = slot->end = 0;
}

/* Returns a handle that the slot owns and no scope: grad if the frame of this backward owns it,
 * otherwise a view of it. If ct_grad will show the handle (`shown`) it must be row-major and the
 * only holder of its memory, so another grad is copied. */
static ct_tensor *sum_move_in(ct_tensor *grad, const cti_frame *frame, bool shown) {
    if (grad->frame != frame || grad->slot || (shown && !cti_tensor_is_sole(grad))) {
        ct_tensor *from = grad;
        grad = shown ? cti_tensor_new(from->context, from->dtype, from->shape)
                     : cti_tensor_view(from, from->data, from->shape, from->stride);
        if (!grad) return NULL;
        if (shown) cti_tensor_copy(grad, from, false);
    }
    cti_tensor_disown(grad);
    return grad;
}

/* Gives sum the memory of `from`, a row-major tensor, and ends `from`. The handle `sum` stays,
 * because a caller of ct_grad may have it. */
static void sum_replace_memory(ct_tensor *sum, ct_tensor *from) {
    CTI_ASSERT(from->contiguous && from->dtype == sum->dtype);
    CTI_ASSERT(cti_shape_same(&from->shape, &sum->shape));
    cti_storage *storage = sum->storage;
    sum->storage = from->storage;
    sum->data = from->data;
    sum->contiguous = true;
    memcpy(sum->stride, from->stride, sizeof from->stride);
    from->storage = storage;
    cti_tensor_free(from);
}

/* sum += grad, in place if nothing else holds sum's memory. */
static bool sum_accumulate(ct_tensor *sum, const ct_tensor *grad) {
    if (!cti_tensor_is_sole(sum)) {
        ct_tensor *copy = cti_tensor_new(grad->context, grad->dtype, grad->shape);
        if (!copy) return false;
        cti_tensor_copy(copy, sum, false);
        sum_replace_memory(sum, copy);
    }
    cti_tensor_copy(sum, grad, true);
    return true;
}

bool cti_grad_slot_receive(cti_grad_slot *slot, ct_tensor *grad, const cti_frame *frame) {
    cti_grad_slot_assert(slot);
    CTI_ASSERT(!is_leaf(slot) || !cti_grad_slot_is_partial(slot));
    if (slot->sum == grad && slot->lent) { /* the op has written into the sum */
        slot->lent--;
        return true;
    }
    cti_grad_slot_fill(slot);
    if (slot->sum) return sum_accumulate(slot->sum, grad);
    slot->sum = sum_move_in(grad, frame, is_leaf(slot));
    return slot->sum != NULL;
}

bool cti_grad_slot_retain(cti_grad_slot *slot, const cti_frame *frame) {
    CTI_ASSERT(slot->sum && !cti_grad_slot_is_partial(slot));
    if (slot->retained) return sum_accumulate(slot->retained, slot->sum);
    slot->retained = sum_move_in(slot->sum, frame, true);
    return slot->retained != NULL;
}

/* ---- for the library's ops ---- */

/* The slot of input i: call is the first member of its node. */
static cti_grad_slot *input_slot(const ct_call *call, int i) {
    return ((const cti_node *)call)->edge[i];
}

/* Does the work of cti_grad_writable, but may leave the slot PARTIAL. */
static ct_tensor *sum_lend(const ct_call *call, int i, bool *add) {
    const ct_tensor *in = call->in[i];
    cti_grad_slot *slot = input_slot(call, i);
    CTI_ASSERT(call->wants[i]);
    *add = slot && slot->sum && cti_tensor_is_sole(slot->sum);
    if (*add) {
        slot->lent++;
        return slot->sum;
    }
    ct_tensor *made = cti_tensor_new(call->context, in->dtype, in->shape);
    if (made && slot && !slot->sum) {
        cti_tensor_disown(made);
        slot->sum = made;
        slot->lent = 1;
        slot->fresh = true;
    }
    return made;
}

ct_tensor *cti_grad_writable(const ct_call *call, int i, bool *accumulate) {
    ct_tensor *sum = sum_lend(call, i, accumulate);
    if (*accumulate) cti_grad_slot_fill(input_slot(call, i));
    return sum;
}

ct_tensor *cti_grad_writable_onto(const ct_call *call, int i, ct_tensor **base) {
    cti_grad_slot *slot = input_slot(call, i);
    ct_tensor *sum = slot && !is_leaf(slot) ? slot->sum : NULL;
    if (!sum || cti_tensor_is_sole(sum) || !sum->contiguous) {
        bool add;
        ct_tensor *writable = cti_grad_writable(call, i, &add);
        *base = add ? writable : NULL;
        return writable;
    }
    cti_grad_slot_fill(slot);
    *base = cti_tensor_view(sum, sum->data, sum->shape, NULL); /* keeps the old memory alive */
    ct_tensor *fresh = *base ? cti_tensor_new(call->context, sum->dtype, sum->shape) : NULL;
    if (!fresh) return NULL;
    sum_replace_memory(sum, fresh);
    slot->lent++;
    return sum;
}

/* Returns true if [start, end) of the dim is at an end of the range that is not written yet. It
 * then counts as written, and the slice can be stored, not added. Otherwise makes the slot FULL. */
static bool slice_claim(cti_grad_slot *slot, int dim, int64_t start, int64_t end) {
    CTI_ASSERT(start <= end && end <= slot->sum->shape.dim[dim]);
    const bool same = dim == slot->dim;
    if (same && start == slot->start && end <= slot->end) {
        slot->start = end;
        return true;
    }
    if (same && end == slot->end && start >= slot->start) {
        slot->end = start;
        return true;
    }
    cti_grad_slot_fill(slot);
    return false;
}

bool cti_grad_accumulate_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length,
                               const ct_tensor *g, ct_tensor **grad) {
    cti_grad_slot *slot = input_slot(call, i);
    bool add;
    ct_tensor *sum = sum_lend(call, i, &add);
    if (!sum) return false;
    const bool may_be_partial = slot && !is_leaf(slot) && sum == slot->sum;
    if (!add && may_be_partial) {
        slot->dim = dim;
        slot->start = 0;
        slot->end = sum->shape.dim[dim];
    } else if (!add) {
        zeros_write(sum, dim, 0, sum->shape.dim[dim]);
    }
    const bool fresh = may_be_partial && slice_claim(slot, dim, start, start + length);
    ct_shape shape = sum->shape;
    shape.dim[dim] = length;
    char *data = sum->data + start * sum->stride[dim] * (int64_t)cti_dtype_size(sum->dtype);
    ct_tensor *slice = cti_tensor_view(sum, data, shape, sum->stride);
    if (!slice) return false;
    cti_tensor_copy(slice, g, !fresh);
    *grad = sum;
    return true;
}

ct_tensor *cti_saved_writable(const ct_call *call, int k) {
    cti_node *node = (cti_node *)call;
    ct_tensor *saved = call->saved[k];
    CTI_ASSERT(saved && saved->storage); /* no earlier call in this backward has taken it */
    if (node->last && cti_tensor_is_sole(saved)) {
        ct_tensor *taken = cti_tensor_view(saved, saved->data, saved->shape, NULL);
        if (!taken) return NULL;
        /* the node cannot run again, even if this backward fails */
        node->released = true;
        cti_storage_unref(call->context, saved->storage);
        saved->storage = NULL;
        return taken;
    }
    ct_tensor *copy = cti_tensor_new(saved->context, saved->dtype, saved->shape);
    if (copy) cti_tensor_copy(copy, saved, false);
    return copy;
}
