/* index_select: y[.., i, ..] = x[.., index[i], ..] along dim d, index (n);
 * dx[.., j, ..] = sum of g[.., i, ..] over the i with index[i] = j, in their order.
 * x of any dtype */
#include "support/index_rows.h"
#include "support/shape_ops.h"

static ct_tensor *index_select_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *index = c->in[1];
    c->drop = CT_DROP_IN(0) | CT_DROP_OUT;
    const int dim = cti_op_dim_or_scalar("index_select", x, *(const int *)c->attrs);
    if (dim < 0 || !cti_index_rows_check(c, dim)) return NULL;
    ct_shape shape = x->shape;
    if (shape.ndim) shape.dim[dim] = index->numel;
    ct_tensor *y = cti_op_new(c, x->dtype, shape);
    if (y) cti_index_rows(c, dim, index, x, y);
    return y;
}

static bool index_select_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const int dim = cti_op_dim_or_scalar("index_select", c->in[0], *(const int *)c->attrs);
    /* a caller's buffer may have changed */
    if (dim < 0 || !cti_index_rows_check(c, dim)) return false;
    ct_tensor *dx = cti_op_grad_sum(c, 0);
    if (dx) cti_index_rows_add(c, dim, c->in[1], dx, g[0]);
    return (grad[0] = dx) != NULL;
}

static const ct_op index_select_op = {.name = "index_select",
                                      .attrs_size = sizeof(int),
                                      .forward = index_select_forward,
                                      .backward = index_select_backward,
                                      .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_index_select(ct_tensor *x, int dim, ct_tensor *index) {
    return ct_apply(&index_select_op, (ct_tensor *[]){x, index}, 2, &dim);
}
