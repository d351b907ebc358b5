/* argsort: the index along dim of the smallest element (descending: of the largest), then of the
 * next, and so on, i64; equal elements keep their order; NaN counts as largest, -0 as 0;   no
 * gradient.
 * x of any dtype */
#include "support/ranking.h"
#include "support/shape_ops.h"

typedef struct {
    int dim;
    bool descending;
} argsort_attrs;

static ct_tensor *argsort_forward(ct_call *c) {
    const argsort_attrs *o = c->attrs;
    const ct_tensor *x = c->in[0];
    if (x->dtype == CT_BF16) return cti_op_refuse(c, x->dtype), NULL;
    const int dim = cti_op_dim_or_scalar("argsort", x, o->dim);
    if (dim < 0) return NULL;
    ct_tensor *y = cti_op_new(c, CT_I64, x->shape);
    return y && cti_rank(c, x, dim, o->descending, y) ? y : NULL;
}

static const ct_op argsort_op = {
    .name = "argsort", .attrs_size = sizeof(argsort_attrs), .forward = argsort_forward};

ct_tensor *ct_argsort(ct_tensor *x, int dim, bool descending) {
    return ct_apply(&argsort_op, (ct_tensor *[]){x}, 1, &(argsort_attrs){dim, descending});
}
