/* sum_to: x summed to a shape that broadcasts to x's;
 * dx = g, broadcast back (a view). If nothing is summed, y is a view */
#include "support/reduce.h"

/* Returns the set of dims to sum over: `to` lacks them or has them with size 1. */
static unsigned summed(ct_shape from, ct_shape to) {
    int new = from.ndim - to.ndim;
    unsigned set = 0;
    for (int d = 0; d < from.ndim; d++)
        if (d < new || to.dim[d - new] != from.dim[d]) set |= 1u << d;
    return set;
}

static ct_tensor *sum_to_forward(ct_call *c) {
    ct_shape to = *(const ct_shape *)c->attrs;
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) ||
        !cti_shape_check(c->context, "sum_to", to, cti_dtype_size(x->dtype)))
        return NULL;
    if (!cti_shape_broadcasts_to(to, x->shape))
        return ct_fail(c->context, CT_ERR_SHAPE, "sum_to: %s does not broadcast to %s", SHAPE(to),
                       SHAPE(x->shape));
    unsigned set = summed(x->shape, to);
    if (!set) return cti_tensor_view(x, x->data, to, x->stride);
    /* the dims of the set have size 1 now; the leading ones are removed */
    ct_tensor *y = cti_reduce_sum(c, x, set, true);
    return y ? cti_tensor_view(y, y->data, to, NULL) : NULL;
}

static bool sum_to_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_expand(g[0], c->in[0]->shape));
}

static const ct_op sum_to_op = {.name = "sum_to",
                                .attrs_size = sizeof(ct_shape),
                                .forward = sum_to_forward,
                                .backward = sum_to_backward,
                                .flags = CT_OP_STRIDED};

ct_tensor *ct_sum_to(ct_tensor *x, ct_shape shape) {
    return ct_apply(&sum_to_op, (ct_tensor *[]){x}, 1, &shape);
}

bool cti_op_sum_to_input(const ct_call *c, int i, ct_tensor *g, ct_tensor **grad) {
    *grad = g && !cti_shape_same(&g->shape, &c->in[i]->shape) ? ct_sum_to(g, c->in[i]->shape) : g;
    return *grad != NULL;
}
