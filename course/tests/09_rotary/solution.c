/* rotary: pair j of the row at position p turns by t = p base^(-2j/d): (a, b) -> (a cos t - b sin
 * t, a sin t + b cos t). A rotation's gradient is the cotangent turned back: the transpose of the
 * matrix is its inverse. */
#include "exercise.h"

#include <math.h>

/* x turned by the angles times `sign`. */
static ct_tensor *turn(const ct_call *call, ct_tensor *x, double sign) {
    const rotary_attrs *attrs = call->attrs;
    ct_tensor *y = ct_empty(call->context, CT_F64, ct_shape_of(x));
    if (!y) return NULL;
    const int64_t d = ct_dim(x, -1), half = d / 2, rows = ct_dim(x, -2),
                  count = d ? ct_numel(x) / d : 0;
    const double *in = ct_data_f64(x);
    double *out = ct_data_f64(y);
    for (int64_t r = 0; r < count; r++, in += d, out += d)
        for (int64_t j = 0; j < half; j++) {
            /* every sequence of the batch begins anew */
            const double position = (double)(r % rows + attrs->offset);
            const double t = sign * position * pow(attrs->base, -2.0 * (double)j / (double)d),
                         c = cos(t), s = sin(t);
            const int64_t a = attrs->interleaved ? 2 * j : j,
                          b = attrs->interleaved ? 2 * j + 1 : j + half;
            out[a] = in[a] * c - in[b] * s;
            out[b] = in[a] * s + in[b] * c;
        }
    return y;
}

static ct_tensor *rotary_forward(ct_call *call) {
    ct_tensor *x = call->in[0];
    if (ct_ndim(x) < 2)
        return ct_fail(call->context, CT_ERR_SHAPE, "rotary: %d dims are not (..., T, d)",
                       ct_ndim(x));
    if (ct_dim(x, -1) % 2 != 0)
        return ct_fail(call->context, CT_ERR_SHAPE, "rotary: %lld columns are not pairs",
                       (long long)ct_dim(x, -1));
    call->drop = CT_DROP_INPUTS | CT_DROP_OUT; /* the angles depend on no value */
    return turn(call, x, 1);
}

static bool rotary_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    grad[0] = turn(call, cotangents[0], -1);
    return grad[0] != NULL;
}

const ct_op rotary = {.name = "rotary",
                      .attrs_size = sizeof(rotary_attrs),
                      .forward = rotary_forward,
                      .backward = rotary_backward};
