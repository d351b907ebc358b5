/* A neuron of one weight by the chain rule, and addition and multiplication that broadcast. */
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

/* The result's shape, and by how much the place in each input moves when an index of the result
 * grows by one. A dim that is repeated has the step 0. */
typedef struct {
    ct_shape shape;
    int64_t step[2][CT_MAX_DIMS];
} broadcast;

static bool broadcast_of(const ct_call *call, broadcast *b) {
    const ct_shape in[2] = {ct_shape_of(call->in[0]), ct_shape_of(call->in[1])};
    int64_t next[2] = {1, 1}; /* the step of a dense tensor's next dim to the left */
    b->shape.ndim = in[0].ndim > in[1].ndim ? in[0].ndim : in[1].ndim;
    for (int d = b->shape.ndim - 1; d >= 0; d--) {
        int64_t size[2];
        for (int i = 0; i < 2; i++) {
            int own = d - (b->shape.ndim - in[i].ndim); /* the last dims stand below each other */
            size[i] = own >= 0 ? in[i].dim[own] : 1;
            b->step[i][d] = size[i] == 1 ? 0 : next[i];
            next[i] *= size[i];
        }
        if (size[0] != size[1] && size[0] != 1 && size[1] != 1)
            return ct_fail(call->context, CT_ERR_SHAPE, "%s: sizes %lld and %lld do not broadcast",
                           call->op->name, (long long)size[0], (long long)size[1]);
        b->shape.dim[d] = size[0] == 1 ? size[1] : size[0];
    }
    return true;
}

/* Where the element of input i stands that makes element e of the result. */
static int64_t place(const broadcast *b, int i, int64_t e) {
    int64_t at = 0;
    for (int d = b->shape.ndim - 1; d >= 0; e /= b->shape.dim[d--])
        at += e % b->shape.dim[d] * b->step[i][d];
    return at;
}

static ct_tensor *forward(ct_call *call) {
    broadcast b;
    if (!broadcast_of(call, &b)) return NULL;
    ct_tensor *out = ct_empty(call->context, CT_F64, b.shape);
    if (!out) return NULL;
    const double *x0 = ct_data_f64(call->in[0]), *x1 = ct_data_f64(call->in[1]);
    double *y = ct_data_f64(out);
    for (int64_t e = 0; e < ct_numel(out); e++) {
        const double a = x0[place(&b, 0, e)], c = x1[place(&b, 1, e)];
        y[e] = call->op == &add ? a + c : a * c;
    }
    return out;
}

/* An element that was used several times gets the sum of what each use sends back: hence zeros, and
 * +=. For a product each use sends g times the other factor. */
static bool backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    broadcast b;
    if (!broadcast_of(call, &b)) return false;
    const double *g = ct_data_f64(cotangents[0]);
    for (int i = 0; i < 2; i++) {
        if (!call->wants[i]) continue;
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        if (!grad[i]) return false;
        double *dx = ct_data_f64(grad[i]);
        const double *other = ct_data_f64(call->in[1 - i]);
        for (int64_t e = 0; e < ct_numel(cotangents[0]); e++)
            dx[place(&b, i, e)] += call->op == &add ? g[e] : g[e] * other[place(&b, 1 - i, e)];
    }
    return true;
}

const ct_op neuron = {.name = "neuron", .forward = neuron_forward, .backward = neuron_backward};
const ct_op add = {.name = "add", .forward = forward, .backward = backward};
const ct_op mul = {.name = "mul", .forward = forward, .backward = backward};
