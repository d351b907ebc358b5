/* one_hot: y[.., j] = (ids[..] = j), ids (...) -> (..., n), of any dtype;   no gradient */
#include "support/index.h"
#include "../src/core/isa.h"
#include "../src/kernels/elementwise.h"

#include <string.h>

typedef struct {
    int64_t n;
    ct_dtype dtype;
} one_hot_attrs;

static ct_tensor *one_hot_forward(ct_call *c) {
    const one_hot_attrs *w = c->attrs;
    const ct_tensor *ids = c->in[0];
    ct_shape shape = ids->shape;
    if (!cti_op_is(c, 0, CT_I64)) return NULL;
    if (shape.ndim == CT_MAX_DIMS)
        return ct_fail(c->context, CT_ERR_SHAPE, "one_hot: ids %s have %d dims already",
                       SHAPE(shape), CT_MAX_DIMS);
    shape.dim[shape.ndim++] = w->n;
    if (!cti_shape_check(c->context, "one_hot", shape, cti_dtype_size(w->dtype)) ||
        !cti_op_indices_inside(c, ids, "index", w->n, 0))
        return NULL;
    ct_tensor *y = ct_zeros(c->context, w->dtype, shape);
    if (!y) return NULL;
    double one; /* the number 1 in the dtype */
    const size_t size = cti_dtype_size(w->dtype);
    c->context->isa->of[w->dtype]->elementwise->fill(1, 1, &one);
    for (int64_t i = 0; i < ids->numel; i++)
        memcpy(y->data + (size_t)(i * w->n + ((const int64_t *)ids->data)[i]) * size, &one, size);
    return y;
}

static const ct_op one_hot_op = {
    .name = "one_hot", .attrs_size = sizeof(one_hot_attrs), .forward = one_hot_forward};

ct_tensor *ct_one_hot(ct_tensor *ids, int64_t n, ct_dtype dtype) {
    if (ids &&
        (!cti_tensor_ready(ids, "one_hot") || !cti_dtype_check(ids->context, "one_hot", dtype)))
        return NULL;
    return ct_apply(&one_hot_op, (ct_tensor *[]){ids}, 1, &(one_hot_attrs){n, dtype});
}
