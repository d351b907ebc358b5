/* index_select: y[.., i, ..] = x[.., index[i], ..] along dim d, index (n);
 * dx[.., j, ..] = sum of g[.., i, ..] over the i with index[i] = j, in their order.
 * x of any dtype; of blocks along dim 0 only */
#include "../src/core/block_matrix.h"
#include "support/index_rows.h"
#include "support/shape_ops.h"

#include <string.h>

/* Selects rows of a tensor of blocks. */
static ct_tensor *select_block_rows(const ct_call *c, int dim) {
    const ct_tensor *x = c->in[0], *index = c->in[1];
    if (dim != 0)
        return ct_fail(c->context, CT_ERR_DTYPE, "index_select: of %s only along dim 0, not %d",
                       cti_dtype_name(x->dtype), dim);
    ct_tensor *y = cti_op_new(c, x->dtype, CT_SHAPE(index->numel, x->shape.dim[1]));
    const int64_t *row = (const int64_t *)index->data;
    for (int64_t i = 0; y && i < index->numel; i++)
        memcpy(cti_block_row(y, i), cti_block_row(x, row[i]), (size_t)cti_block_row_bytes(x));
    return y;
}

static ct_tensor *index_select_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *index = c->in[1];
    c->drop = CT_DROP_IN(0) | CT_DROP_OUT;
    const int dim = cti_op_dim_or_scalar("index_select", x, *(const int *)c->attrs);
    if (dim < 0 || !cti_index_rows_check(c, dim)) return NULL;
    if (cti_is_blocks(x->dtype)) return select_block_rows(c, dim);
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
                                      .flags = CTI_OP_EXACT_ATTRS | CTI_OP_READS_BLOCKS};

ct_tensor *ct_index_select(ct_tensor *x, int dim, ct_tensor *index) {
    return ct_apply(&index_select_op, (ct_tensor *[]){x, index}, 2, &dim);
}
