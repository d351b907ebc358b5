/* mean: y = sum of x over dims / n, n elements each; NaN for no elements;   dx = g / n, repeated */
#include "support/reduce.h"

static ct_tensor *divided(const ct_call *c, ct_tensor *t, unsigned set) {
    return ct_div(t,
                  ct_full(c->context, t->dtype, CT_SCALAR, cti_reduce_count(c->in[0]->shape, set)));
}

static ct_tensor *mean_forward(ct_call *c) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0], *sum;
    unsigned set;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) || !cti_dim_set(c->context, "mean", attrs->dims, x->shape.ndim, &set))
        return NULL;
    return (sum = cti_reduce_sum(c, x, set, attrs->keepdim)) ? divided(c, sum, set) : NULL;
}

static bool mean_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *quotient;
    unsigned set;
    return cti_dim_set(c->context, "mean", attrs->dims, c->in[0]->shape.ndim, &set) &&
           (quotient = divided(c, g[0], set)) &&
           (grad[0] = cti_reduce_expand(quotient, c->in[0]->shape, set));
}

static const ct_op mean_op = {.name = "mean",
                              .attrs_size = sizeof(cti_reduce_attrs),
                              .forward = mean_forward,
                              .backward = mean_backward};

ct_tensor *ct_mean(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ct_apply(&mean_op, (ct_tensor *[]){x}, 1, &(cti_reduce_attrs){dims, keepdim});
}
