/* sum: y = sum of x over dims;
 * dx = g, repeated (a view: no memory).
 * i64 too; for bool the number of true elements, i64 */
#include "support/reduce.h"

static ct_tensor *sum_forward(ct_call *c) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    unsigned set;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_dim_set(c->context, "sum", attrs->dims, x->shape.ndim, &set)) return NULL;
    return cti_reduce_sum(c, x, set, attrs->keepdim);
}

static bool sum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const cti_reduce_attrs *attrs = c->attrs;
    unsigned set;
    return cti_dim_set(c->context, "sum", attrs->dims, c->in[0]->shape.ndim, &set) &&
           (grad[0] = cti_reduce_expand(g[0], c->in[0]->shape, set));
}

static const ct_op sum_op = {.name = "sum",
                             .attrs_size = sizeof(cti_reduce_attrs),
                             .forward = sum_forward,
                             .backward = sum_backward};

ct_tensor *ct_sum(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ct_apply(&sum_op, (ct_tensor *[]){x}, 1, &(cti_reduce_attrs){dims, keepdim});
}
