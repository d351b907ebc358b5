/* Checks before a tensor is written from another, among them whether the two overlap. */
#include "into.h"

#include "../../src/core/distinct.h"

bool cti_op_writes_from(ct_tensor *to, const ct_tensor *from, const char *name) {
    ct_tensor *const given[] = {to, (ct_tensor *)from};
    ct_context *context = cti_tensors_context(given, 2);
    if (context && !cti_tensors_in(given, 2, context, name)) return false;
    if (!to || !from)
        return context &&
               ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", name, to ? "from" : "to");
    if (!cti_tensor_has_values(to, name) || !cti_ready(context) ||
        !cti_tensor_has_values(from, name))
        return false;
    if (!cti_shape_broadcasts_to(from->shape, to->shape))
        return ct_fail(context, CT_ERR_SHAPE, "%s: %s does not broadcast to %s", name,
                       SHAPE(from->shape), SHAPE(to->shape));
    if (!to->contiguous && !cti_offsets_are_distinct(&to->shape, to->stride))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: elements of %s share memory, as in an expanded tensor", name,
                       SHAPE(to->shape));
    return true;
}

/* All elements are in the bytes from *low up to *high. */
static void address_range(const ct_tensor *t, uintptr_t *low, uintptr_t *high) {
    const int64_t size = (int64_t)cti_dtype_size(t->dtype);
    *low = (uintptr_t)t->data;
    *high = *low + (uintptr_t)size;
    for (int d = 0; d < t->shape.ndim; d++) {
        const int64_t reach = (t->shape.dim[d] - 1) * t->stride[d] * size;
        *(reach < 0 ? low : high) += (uintptr_t)reach;
    }
}

bool cti_op_may_overlap(const ct_tensor *to, const ct_tensor *from) {
    uintptr_t low[2], high[2];
    if (!to->numel || !from->numel) return false;
    address_range(to, &low[0], &high[0]);
    address_range(from, &low[1], &high[1]);
    return low[0] < high[1] && low[1] < high[0];
}

ct_tensor *cti_op_copy_of(const ct_tensor *t) {
    ct_tensor *copy = cti_tensor_new(t->context, t->dtype, t->shape);
    if (copy) cti_tensor_copy(copy, t, false);
    return copy;
}

bool cti_op_update_open(ct_context *context, cti_op_update *update, const char *name) {
    if (!cti_enter(context)) return false;
    update->outer = context->op;
    context->op = name;
    cti_frame_open(context, &update->frame, true);
    cti_update_begin(context, &update->span, name);
    return true;
}

void cti_op_update_close(ct_context *context, cti_op_update *update, int64_t bytes) {
    cti_update_end(context, &update->span, bytes);
    cti_frame_close(context, &update->frame);
    context->op = update->outer;
    cti_leave(context);
}
