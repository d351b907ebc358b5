/* narrow: `length` indices of a dim from `start` on, a view;   dx = g in this range, 0 elsewhere */
#include "support/shape_ops.h"

typedef struct {
    int dim;
    int64_t start, length;
} narrow_attrs;

/* Converts a negative dim and start. */
static bool narrow_resolve(ct_context *context, ct_shape shape, narrow_attrs *p) {
    const int dim = cti_dim_index(context, "narrow", p->dim, shape.ndim);
    if (dim < 0) return false;
    const int64_t size = shape.dim[dim], start = p->start < 0 ? p->start + size : p->start;
    if (start < 0 || start > size || p->length < 0 || p->length > size - start)
        return ct_fail(context, CT_ERR_SHAPE, "narrow: %lld from %lld is outside dim %d of %s",
                       (long long)p->length, (long long)p->start, dim, SHAPE(shape));
    *p = (narrow_attrs){dim, start, p->length};
    return true;
}

static ct_tensor *narrow_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    narrow_attrs p = *(const narrow_attrs *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!narrow_resolve(c->context, x->shape, &p)) return NULL;
    ct_shape shape = x->shape;
    shape.dim[p.dim] = p.length;
    return cti_tensor_view(x,
                           x->data + p.start * x->stride[p.dim] * (int64_t)cti_dtype_size(x->dtype),
                           shape, x->stride);
}

static bool narrow_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    narrow_attrs p = *(const narrow_attrs *)c->attrs;
    return narrow_resolve(c->context, c->in[0]->shape, &p) &&
           cti_grad_accumulate_slice(c, 0, p.dim, p.start, p.length, g[0], &grad[0]);
}

static const ct_op narrow_op = {.name = "narrow",
                                .attrs_size = sizeof(narrow_attrs),
                                .forward = narrow_forward,
                                .backward = narrow_backward,
                                .flags = CT_OP_STRIDED};

ct_tensor *ct_narrow(ct_tensor *x, int dim, int64_t start, int64_t length) {
    return ct_apply(&narrow_op, (ct_tensor *[]){x}, 1, &(narrow_attrs){dim, start, length});
}
