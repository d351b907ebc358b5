/* dropout: y_i = x_i m_i,  m_i = 0 where u_i < p, else 1 / (1 - p),  u uniform in [0, 1);   dx_i =
 * g_i m_i */
#include "exercise.h"

/* y = a b, element by element, in a new tensor. */
static ct_tensor *product(ct_context *context, ct_tensor *a, ct_tensor *b) {
    ct_tensor *out = ct_empty(context, CT_F64, ct_shape_of(a));
    if (!out) return NULL;
    const double *from = ct_data_f64(a), *times = ct_data_f64(b);
    double *to = ct_data_f64(out);
    for (int64_t i = 0; i < ct_numel(a); i++) to[i] = from[i] * times[i];
    return out;
}

/* The mask with its scale takes the place of the numbers drawn. 1 - p is never divided by where it
 * is 0, as every u is below 1. */
static ct_tensor *draw_mask(ct_context *context, ct_shape shape, double p) {
    ct_tensor *mask = ct_rand(context, CT_F64, shape);
    if (!mask) return NULL;
    double *m = ct_data_f64(mask);
    for (int64_t i = 0; i < ct_numel(mask); i++) m[i] = m[i] < p ? 0 : 1 / (1 - p);
    return mask;
}

static ct_tensor *dropout_forward(ct_call *call) {
    const dropout_attrs *attrs = call->attrs;
    if (!(attrs->p >= 0 && attrs->p <= 1)) /* and not p < 0 || p > 1, which NaN would pass */
        return ct_fail(call->context, CT_ERR_ARGUMENT, "dropout: p is %g, not in [0, 1]", attrs->p);
    /* backward reads the mask alone: the tape need not keep x and y */
    call->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!attrs->training) return call->in[0];
    call->saved[0] = draw_mask(call->context, ct_shape_of(call->in[0]), attrs->p);
    return call->saved[0] ? product(call->context, call->in[0], call->saved[0]) : NULL;
}

/* With the mask that forward drew: another one would be the gradient of another function. */
static bool dropout_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const dropout_attrs *attrs = call->attrs;
    grad[0] =
        attrs->training ? product(call->context, cotangents[0], call->saved[0]) : cotangents[0];
    return grad[0] != NULL;
}

const ct_op dropout = {.name = "dropout",
                       .attrs_size = sizeof(dropout_attrs),
                       .forward = dropout_forward,
                       .backward = dropout_backward};
