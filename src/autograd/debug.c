/* Debug mode: which op made the first NaN. */
#include "debug.h"
#include "../core/strided_loop.h"

static int64_t nan_in_row(const ct_tensor *t, int64_t offset, int64_t n, int64_t step) {
    if (t->dtype == CT_F64) {
        const double *x = (const double *)(const void *)t->data + offset;
        for (int64_t i = 0; i < n; i++)
            if (x[i * step] != x[i * step]) return i;
    } else {
        const float *x = (const float *)(const void *)t->data + offset;
        for (int64_t i = 0; i < n; i++)
            if (x[i * step] != x[i * step]) return i;
    }
    return -1;
}

/* Has it a NaN, and at which index the first one? */
static bool find_nan(const ct_tensor *t, ct_shape *index) {
    if (!t || !t->storage || !cti_is_real(t->dtype)) return false;
    cti_strided_loop walk;
    cti_strided_loop_over(&walk, t->shape, 1, &t);
    for (int64_t row = 0; row < t->numel; row += walk.n) {
        int64_t offset[CTI_STRIDED_MOST];
        cti_strided_loop_at(&walk, row, offset);
        int64_t at = nan_in_row(t, offset[0], walk.n, walk.step[0]);
        if (at < 0) continue;
        at += row;
        index->ndim = t->shape.ndim;
        for (int d = t->shape.ndim - 1; d >= 0; at /= t->shape.dim[d--]) index->dim[d] = at % t->shape.dim[d];
        return true;
    }
    return false;
}

bool cti_debug_result(const ct_call *call, const ct_tensor *out) {
    ct_shape at, ignored;
    bool given = false, made = find_nan(out, &at);
    for (int i = 0; !given && i < call->n; i++) given = find_nan(call->in[i], &ignored);
    if (out->node) out->node->tainted = given || made;
    made = made && !given;
    if (made)
        ct_fail(call->context, CT_ERR_ARGUMENT, "%s: forward made the first NaN: element %s of a result %s, from inputs without one", call->op->name,
                SHAPE(at), SHAPE(out->shape));
    return !made;
}

/* The same of what gathers in a node, but for a hole in it that nothing has been written to. */
static bool find_nan_gathered(const cti_node *node, ct_shape *index) {
    const ct_tensor *t = node->call.op ? node->incoming : node->grad;
    if (!t || node->hole_start >= node->hole_end) return find_nan(t, index);
    const int dim = node->hole_dim;
    ct_tensor part = *t;
    part.contiguous = false;
    part.shape.dim[dim] = node->hole_start;
    part.numel = cti_shape_numel(part.shape);
    if (find_nan(&part, index)) return true;
    part.data += node->hole_end * t->stride[dim] * (int64_t)cti_dtype_size(t->dtype);
    part.shape.dim[dim] = t->shape.dim[dim] - node->hole_end;
    part.numel = cti_shape_numel(part.shape);
    if (!find_nan(&part, index)) return false;
    index->dim[dim] += node->hole_end;
    return true;
}

bool cti_debug_watches(const cti_node *node) {
    ct_shape ignored;
    bool clean = !node->tainted && !find_nan_gathered(node, &ignored);
    for (int i = 0; clean && i < node->call.n; i++) clean = !node->edge[i] || !find_nan_gathered(node->edge[i], &ignored);
    return clean;
}

bool cti_debug_gradients(const cti_node *node) {
    const ct_call *call = &node->call;
    ct_shape at;
    for (int i = 0; i < call->n; i++) {
        if (!node->edge[i] || !find_nan_gathered(node->edge[i], &at)) continue;
        return ct_fail(call->context, CT_ERR_GRAD, "%s: backward made the first NaN: element %s of the gradient of input %d %s", call->op->name, SHAPE(at),
                       i, SHAPE(call->in[i]->shape));
    }
    return true;
}
