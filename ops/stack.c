/* stack: tensors of one shape along a new dim;   d in[i] = g at index i of that dim, a view */
#include "support/op.h"

static ct_tensor *stack_forward(ct_call *c) {
    const ct_shape one = c->in[0]->shape;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (one.ndim == CT_MAX_DIMS)
        return ct_fail(c->context, CT_ERR_SHAPE, "stack: %s has %d dims already", SHAPE(one),
                       CT_MAX_DIMS);
    const int dim = cti_dim_index(c->context, c->op->name, *(const int *)c->attrs, one.ndim + 1);
    if (dim < 0 || !cti_op_same_dtype(c)) return NULL;
    for (int i = 1; i < c->n; i++)
        if (!cti_shape_equal(c->in[i]->shape, one))
            return ct_fail(c->context, CT_ERR_SHAPE, "stack: shapes differ: %s and %s", SHAPE(one),
                           SHAPE(c->in[i]->shape));
    ct_shape shape = {.ndim = one.ndim + 1};
    for (int d = 0; d < shape.ndim; d++)
        shape.dim[d] = d == dim ? c->n : one.dim[d < dim ? d : d - 1];
    ct_tensor *y = cti_op_new(c, c->in[0]->dtype, shape);
    for (int i = 0; y && i < c->n; i++) {
        ct_tensor *slice = ct_select(y, dim, i);
        if (!slice) return NULL;
        cti_tensor_copy(slice, c->in[i], false);
    }
    return y;
}

static bool stack_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    for (int i = 0; i < c->n; i++) {
        if (!c->wants[i]) continue;
        grad[i] = ct_select(g[0], *(const int *)c->attrs, i);
        if (!grad[i]) return false;
    }
    return true;
}

static const ct_op stack_op = {.name = "stack",
                               .attrs_size = sizeof(int),
                               .forward = stack_forward,
                               .backward = stack_backward,
                               .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_stack(ct_tensor *const *tensors, int n, int dim) {
    return tensors && n > 0 ? ct_apply(&stack_op, tensors, n, &dim) : NULL;
}
