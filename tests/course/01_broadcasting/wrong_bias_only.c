/* expect 5/10
 * same_shapes passed
 * same_shapes_gradient passed
 * add_broadcast failed: add of (3) and (2, 3): the shape is (3), and must be (2, 3)
 */
/* The result has the first input's shape, and the second is read around and around: right for a
 * bias, and for nothing else. */
#include "exercise.h"

#include <math.h>

/* ---- neuron ---- */

static double value(const ct_call *call, int i) { return *ct_data_f64(call->in[i]); }

/* A new tensor with no dims that holds x. */
static ct_tensor *scalar(const ct_call *call, double x) {
    return ct_from_f64(call->context, CT_SCALAR, &x);
}

static ct_tensor *neuron_forward(ct_call *call) {
    return scalar(call, tanh(value(call, 0) * value(call, 1) + value(call, 2)));
}

/* With z = w x + b, dz = g dy/dz = g (1 - y^2); from there dw = dz x, dx = dz w, db = dz. */
static bool neuron_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const double g = *ct_data_f64(cotangents[0]), y = *ct_data_f64(call->out), dz = g * (1 - y * y);
    grad[0] = scalar(call, dz * value(call, 1));
    grad[1] = scalar(call, dz * value(call, 0));
    grad[2] = scalar(call, dz);
    return grad[0] && grad[1] && grad[2];
}

/* ---- broadcasting ---- */

static ct_tensor *forward(ct_call *call) {
    const ct_shape a = ct_shape_of(call->in[0]), b = ct_shape_of(call->in[1]);
    const int64_t wide_a = a.ndim ? a.dim[a.ndim - 1] : 1, wide_b = b.ndim ? b.dim[b.ndim - 1] : 1;
    if (wide_a != wide_b && wide_a != 1 && wide_b != 1)
        return ct_fail(call->context, CT_ERR_SHAPE, "%s: sizes %lld and %lld do not broadcast",
                       call->op->name, (long long)wide_a, (long long)wide_b);
    ct_tensor *out = ct_empty(call->context, CT_F64, a);
    if (!out) return NULL;
    const double *x0 = ct_data_f64(call->in[0]), *x1 = ct_data_f64(call->in[1]);
    double *y = ct_data_f64(out);
    for (int64_t e = 0; e < ct_numel(out); e++) {
        const double c = x1[e % ct_numel(call->in[1])];
        y[e] = call->op == &add ? x0[e] + c : x0[e] * c;
    }
    return out;
}

static bool backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const double *g = ct_data_f64(cotangents[0]);
    for (int i = 0; i < 2; i++) {
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        if (!grad[i]) return false;
        double *dx = ct_data_f64(grad[i]);
        const double *other = ct_data_f64(call->in[1 - i]);
        const int64_t n = ct_numel(call->in[i]), m = ct_numel(call->in[1 - i]);
        for (int64_t e = 0; e < ct_numel(cotangents[0]); e++)
            dx[e % n] += call->op == &add ? g[e] : g[e] * other[e % m];
    }
    return true;
}

const ct_op neuron = {.name = "neuron", .forward = neuron_forward, .backward = neuron_backward};
const ct_op add = {.name = "add", .forward = forward, .backward = backward};
const ct_op mul = {.name = "mul", .forward = forward, .backward = backward};
