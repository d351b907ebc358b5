/* select: the slice at one index of a dim, without that dim; a view;
 * dx = g at this index, 0 elsewhere */
#include "support/shape_ops.h"

typedef struct {
    int dim;
    int64_t index;
} select_attrs;

/* Converts a negative dim and index. */
static bool select_resolve(ct_context *context, ct_shape shape, select_attrs *s) {
    const int dim = cti_dim_index(context, "select", s->dim, shape.ndim);
    if (dim < 0) return false;
    const int64_t size = shape.dim[dim], index = s->index < 0 ? s->index + size : s->index;
    if (index < 0 || index >= size)
        return ct_fail(context, CT_ERR_SHAPE, "select: index %lld is outside dim %d of %s",
                       (long long)s->index, dim, SHAPE(shape));
    *s = (select_attrs){dim, index};
    return true;
}

static ct_tensor *select_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    select_attrs s = *(const select_attrs *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!select_resolve(c->context, x->shape, &s)) return NULL;
    ct_shape shape;
    int64_t stride[CT_MAX_DIMS];
    cti_op_without_dim(x, s.dim, &shape, stride);
    return cti_tensor_view(
        x, x->data + s.index * x->stride[s.dim] * (int64_t)cti_dtype_size(x->dtype), shape, stride);
}

static bool select_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    select_attrs s = *(const select_attrs *)c->attrs;
    if (!select_resolve(c->context, c->in[0]->shape, &s)) return false;
    ct_tensor *slice = ct_unsqueeze(g[0], s.dim);
    return slice && cti_grad_accumulate_slice(c, 0, s.dim, s.index, 1, slice, &grad[0]);
}

static const ct_op select_op = {.name = "select",
                                .attrs_size = sizeof(select_attrs),
                                .forward = select_forward,
                                .backward = select_backward,
                                .flags = CT_OP_STRIDED};

ct_tensor *ct_select(ct_tensor *x, int dim, int64_t index) {
    return ct_apply(&select_op, (ct_tensor *[]){x}, 1, &(select_attrs){dim, index});
}
