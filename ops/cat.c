/* cat: tensors concatenated along a dim;   d in[i] = the range of g that came from in[i], a view */
#include "support/op.h"

static ct_tensor *cat_forward(ct_call *c) {
    const ct_tensor *first = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (first->shape.ndim == 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "cat: a scalar has no dim to join along");
    const int dim =
        cti_dim_index(c->context, c->op->name, *(const int *)c->attrs, first->shape.ndim);
    if (dim < 0 || !cti_op_same_dtype(c)) return NULL;
    ct_shape shape = first->shape;
    shape.dim[dim] = 0;
    for (int i = 0; i < c->n; i++) {
        ct_shape other = c->in[i]->shape;
        const int64_t size = dim < other.ndim ? other.dim[dim] : 0;
        if (dim < other.ndim) other.dim[dim] = first->shape.dim[dim];
        if (!cti_shape_equal(other, first->shape))
            return ct_fail(c->context, CT_ERR_SHAPE, "cat: sizes differ beyond dim %d: %s and %s",
                           dim, SHAPE(first->shape), SHAPE(c->in[i]->shape));
        if (size > INT64_MAX - shape.dim[dim])
            return ct_fail(c->context, CT_ERR_MEMORY, "cat: the size of dim %d overflows", dim);
        shape.dim[dim] += size;
    }
    ct_tensor *y = cti_op_new(c, first->dtype, shape);
    int64_t at = 0;
    for (int i = 0; y && i < c->n; i++) {
        const int64_t size = c->in[i]->shape.dim[dim];
        ct_tensor *slice = ct_narrow(y, dim, at, size);
        if (!slice) return NULL;
        cti_tensor_copy(slice, c->in[i], false);
        at += size;
    }
    return y;
}

static bool cat_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const int dim = *(const int *)c->attrs;
    int64_t at = 0;
    for (int i = 0; i < c->n; i++) {
        const ct_shape shape = c->in[i]->shape;
        const int64_t size = shape.dim[dim < 0 ? dim + shape.ndim : dim];
        if (c->wants[i]) {
            grad[i] = ct_narrow(g[0], dim, at, size);
            if (!grad[i]) return false;
        }
        at += size;
    }
    return true;
}

static const ct_op cat_op = {.name = "cat",
                             .attrs_size = sizeof(int),
                             .forward = cat_forward,
                             .backward = cat_backward,
                             .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_cat(ct_tensor *const *tensors, int n, int dim) {
    return tensors && n > 0 ? ct_apply(&cat_op, tensors, n, &dim) : NULL;
}
