/* argmax: index of the largest element along dim, i64; the first of equal ones; NaN counts as the
 * largest; no gradient. i64 too */
#include "support/reduce.h"
#include "support/shape_ops.h"
#include "../src/kernels/rows.h"

static ct_tensor *argmax_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const int dim = cti_op_dim_or_scalar("argmax", x, *(const int *)c->attrs);
    if (dim < 0) return NULL;
    if (x->shape.ndim && !x->shape.dim[dim])
        return ct_fail(c->context, CT_ERR_SHAPE, "argmax: dim %d of %s has no element", dim,
                       SHAPE(x->shape));
    return cti_reduce_dims(c, kernels(c)->rows->argmax, NULL, CT_I64, x, 1u << dim, false);
}

static const ct_op argmax_op = {
    .name = "argmax", .attrs_size = sizeof(int), .forward = argmax_forward};

ct_tensor *ct_argmax(ct_tensor *x, int dim) {
    return ct_apply(&argmax_op, (ct_tensor *[]){x}, 1, &dim);
}
