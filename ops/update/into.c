/* Checks before a tensor is written from another, and whether they overlap. */
#include "into.h"

/* Sorts the dims of more than one element by the distance of their elements: a dim whose distance
 * is more than all nearer ones reach has no address twice. A caller's strides (ct_wrap) that are
 * interleaved otherwise are refused too. */
static bool has_an_address_each(const ct_tensor *t) {
    int64_t distance[CT_MAX_DIMS], size[CT_MAX_DIMS], reach = 0;
    int n = 0;
    if (t->contiguous || t->numel <= 1) return true;
    for (int d = 0; d < t->shape.ndim; d++) {
        const int64_t step = t->stride[d] < 0 ? -t->stride[d] : t->stride[d];
        int at = n;
        if (t->shape.dim[d] == 1) continue;
        for (; at > 0 && distance[at - 1] > step; at--)
            distance[at] = distance[at - 1], size[at] = size[at - 1];
        distance[at] = step, size[at] = t->shape.dim[d];
        n++;
    }
    for (int i = 0; i < n; i++) {
        if (distance[i] <= reach) return false;
        reach += (size[i] - 1) * distance[i];
    }
    return true;
}

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
    if (!has_an_address_each(to))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: elements of %s share memory, as in an expanded tensor", name,
                       SHAPE(to->shape));
    return true;
}

/* The bytes from *low up to *high hold all elements. */
static void extent(const ct_tensor *t, uintptr_t *low, uintptr_t *high) {
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
    extent(to, &low[0], &high[0]);
    extent(from, &low[1], &high[1]);
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
