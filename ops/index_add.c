/* index_add: y = x, then y[.., index[i], ..] += src[.., i, ..] along dim d, for each i in order,
 * index (n);   dx = g, dsrc[.., i, ..] = g[.., index[i], ..].
 * i64 too */
#include "support/index_rows.h"
#include "support/shape_ops.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *index_add_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
    c->drop = CT_DROP_IN(0) | CT_DROP_IN(2) | CT_DROP_OUT;
    const int dim = cti_op_dim_or_scalar("index_add", x, *(const int *)c->attrs);
    if (dim < 0) return NULL;
    if (!kernels(c)->elementwise->axpy) return cti_op_refuse(c, x->dtype), NULL;
    if (src->dtype != x->dtype) return cti_op_refuse_dtypes(c, 2), NULL;
    if (!cti_index_rows_check(c, dim)) return NULL;
    ct_shape shape = x->shape;
    if (shape.ndim) shape.dim[dim] = index->numel;
    if (!cti_shape_equal(src->shape, shape))
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "index_add: src %s for %lld indices along dim %d of %s", SHAPE(src->shape),
                       (long long)index->numel, dim, SHAPE(x->shape));
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (!y) return NULL;
    cti_tensor_copy(y, x, false);
    cti_index_rows_add(c, dim, index, y, src);
    return y;
}

static bool index_add_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const int dim = cti_op_dim_or_scalar("index_add", c->in[0], *(const int *)c->attrs);
    if (c->wants[0]) grad[0] = g[0];
    if (!c->wants[2]) return true;
    /* a caller's buffer may have changed */
    if (dim < 0 || !cti_index_rows_check(c, dim)) return false;
    ct_tensor *dsrc = cti_op_new(c, g[0]->dtype, c->in[2]->shape);
    if (dsrc) cti_index_rows(c, dim, c->in[1], g[0], dsrc);
    return (grad[2] = dsrc) != NULL;
}

static const ct_op index_add_op = {.name = "index_add",
                                   .attrs_size = sizeof(int),
                                   .forward = index_add_forward,
                                   .backward = index_add_backward,
                                   .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_index_add(ct_tensor *x, int dim, ct_tensor *index, ct_tensor *src) {
    return ct_apply(&index_add_op, (ct_tensor *[]){x, index, src}, 3, &dim);
}
