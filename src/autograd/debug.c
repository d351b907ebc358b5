/* Debug mode: finds the op that made the first NaN. */
#include "debug.h"
#include "../core/strided_loop.h"

static int64_t nan_in_row(const ct_tensor *t, int64_t offset, int64_t n, int64_t step) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(cti_real_get(t->dtype, t->data, offset + i * step))) return i;
    return -1;
}

/* Whether a tensor has a NaN; *index is the index of the first. */
static bool nan_find(const ct_tensor *t, ct_shape *index) {
    if (!t || !t->storage || !cti_is_real(t->dtype)) return false;
    cti_strided_loop loop;
    cti_strided_loop_over(&loop, t->shape, 1, &t);
    for (int64_t row = 0; row < t->numel; row += loop.n) {
        int64_t offset[CTI_STRIDED_MOST];
        cti_strided_loop_at(&loop, row, offset);
        const int64_t column = nan_in_row(t, offset[0], loop.n, loop.step[0]);
        if (column < 0) continue;
        int64_t element = row + column;
        index->ndim = t->shape.ndim;
        for (int d = t->shape.ndim - 1; d >= 0; d--) {
            index->dim[d] = element % t->shape.dim[d];
            element /= t->shape.dim[d];
        }
        return true;
    }
    return false;
}

/* Whether the call was made inside another op's forward or backward, whose frame is still open. The
 * results of that op are searched when it has returned. In the second run of ct_recompute calls are
 * recorded, and in other backwards they are not, so the frame around the call tells them apart.
 */
static bool is_part_of_an_op(const ct_context *context) {
    const bool in_forward = context->running && context->running->call;
    return in_forward || (context->backward && context->frame->outer->no_grad);
}

static bool any_has_nan(ct_tensor *const *tensors, int n) {
    ct_shape ignored;
    for (int i = 0; i < n; i++)
        if (nan_find(tensors[i], &ignored)) return true;
    return false;
}

bool cti_debug_result(const ct_call *call) {
    if (is_part_of_an_op(call->context)) return true;
    const bool made = any_has_nan(call->outs, call->n_outs), given = any_has_nan(call->in, call->n);
    for (int k = 0; k < call->n_outs; k++)
        if (call->outs[k]->slot) cti_node_of(call->outs[k]->slot)->tainted = given || made;
    if (given || !made) return true;
    ct_tensor *const *results = call->outs;
    ct_shape at;
    while (!nan_find(*results, &at)) results++;
    return ct_fail(
        call->context, CT_ERR_ARGUMENT,
        "%s: forward made the first NaN: element %s of a result %s, from inputs without one",
        call->op->name, SHAPE(at), SHAPE((*results)->shape));
}

/* Whether a slot's sum has a NaN. The range of a partial slot that is not written yet is left out.
 */
static bool nan_gathered_find(const cti_grad_slot *slot, ct_shape *index) {
    const ct_tensor *t = slot->sum;
    const int64_t start = slot->start, end = slot->end;
    if (!t || start >= end) return nan_find(t, index);
    const int dim = slot->dim;
    ct_tensor side = *t;
    side.contiguous = false;
    side.shape.dim[dim] = start;
    side.numel = cti_shape_numel(side.shape);
    if (nan_find(&side, index)) return true;
    side.data += end * t->stride[dim] * (int64_t)cti_dtype_size(t->dtype);
    side.shape.dim[dim] = t->shape.dim[dim] - end;
    side.numel = cti_shape_numel(side.shape);
    if (!nan_find(&side, index)) return false;
    index->dim[dim] += end;
    return true;
}

bool cti_debug_node_is_clean(const cti_node *node) {
    ct_shape ignored;
    bool clean = !node->tainted;
    for (int k = 0; clean && k < node->call.n_outs; k++)
        clean = !nan_gathered_find(&node->slot[k], &ignored);
    for (int i = 0; clean && i < node->call.n; i++)
        clean = !node->edge[i] || !nan_gathered_find(node->edge[i], &ignored);
    return clean;
}

bool cti_debug_gradients(const cti_node *node) {
    const ct_call *call = &node->call;
    ct_shape at;
    for (int i = 0; i < call->n; i++) {
        if (!node->edge[i] || !nan_gathered_find(node->edge[i], &at)) continue;
        return ct_fail(call->context, CT_ERR_GRAD,
                       "%s: backward made the first NaN: element %s of the gradient of input %d %s",
                       call->op->name, SHAPE(at), i, SHAPE(call->in[i]->shape));
    }
    return true;
}
