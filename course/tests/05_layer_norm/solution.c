/* layer_norm: y = z w + b,  z = (x - mean) rstd,  rstd = 1 / sqrt(var + eps), row by row;
 * dx = rstd (h - mean(h) - z mean(h z)),  h = g w;   dw = sum g z,  db = sum g, over the rows. */
#include "exercise.h"

#include <math.h>

/* forward keeps z and rstd: backward then needs neither x nor mean and variance. */
enum { Z, RSTD };

static bool check(const ct_call *call) {
    const ct_tensor *x = call->in[0], *w = call->in[1], *b = call->in[2];
    if (ct_ndim(x) == 0)
        return ct_fail(call->context, CT_ERR_SHAPE, "layer_norm: a scalar has no last dim");
    const int64_t n = ct_dim(x, -1);
    if (ct_ndim(w) != 1 || ct_ndim(b) != 1 || ct_numel(w) != n || ct_numel(b) != n)
        return ct_fail(call->context, CT_ERR_SHAPE,
                       "layer_norm: the last dim is %lld; weight and bias must be (%lld) too",
                       (long long)n, (long long)n);
    return true;
}

static ct_tensor *layer_norm_forward(ct_call *call) {
    if (!check(call)) return NULL;
    const layer_norm_attrs *attrs = call->attrs;
    const int64_t n = ct_dim(call->in[0], -1), rows = n ? ct_numel(call->in[0]) / n : 0;
    ct_tensor *out = ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
    call->saved[Z] = ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
    call->saved[RSTD] = ct_empty(call->context, CT_F64, CT_SHAPE(rows));
    if (!out || !call->saved[Z] || !call->saved[RSTD]) return NULL;
    const double *x = ct_data_f64(call->in[0]), *w = ct_data_f64(call->in[1]),
                 *b = ct_data_f64(call->in[2]);
    double *y = ct_data_f64(out), *z = ct_data_f64(call->saved[Z]),
           *rstd = ct_data_f64(call->saved[RSTD]);
    for (int64_t row = 0; row < rows; row++, x += n, y += n, z += n) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n; i++) mean += x[i];
        mean /= (double)n;
        for (int64_t i = 0; i < n; i++)
            /* not mean(x^2) - mean^2: far from 0 nothing is left of that */
            var += (x[i] - mean) * (x[i] - mean);
        var /= (double)n;
        rstd[row] = 1 / sqrt(var + attrs->eps);
        for (int64_t i = 0; i < n; i++) {
            z[i] = (x[i] - mean) * rstd[row];
            y[i] = z[i] * w[i] + b[i];
        }
    }
    return out;
}

static bool layer_norm_backward(const ct_call *call, ct_tensor *const *cotangents,
                                ct_tensor **grad) {
    const int64_t n = ct_dim(cotangents[0], -1), rows = n ? ct_numel(cotangents[0]) / n : 0;
    for (int i = 0; i < 3; i++)
        if (!(grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i])))) return false;
    const double *g = ct_data_f64(cotangents[0]), *w = ct_data_f64(call->in[1]);
    const double *z = ct_data_f64(call->saved[Z]), *rstd = ct_data_f64(call->saved[RSTD]);
    double *dx = ct_data_f64(grad[0]), *dw = ct_data_f64(grad[1]), *db = ct_data_f64(grad[2]);
    for (int64_t row = 0; row < rows; row++, g += n, z += n, dx += n) {
        double mean_h = 0, mean_hz = 0;
        for (int64_t i = 0; i < n; i++) {
            const double h = g[i] * w[i];
            mean_h += h / (double)n;
            mean_hz += h * z[i] / (double)n;
            /* every row used the same weight and bias, so each adds to their gradient */
            dw[i] += g[i] * z[i];
            db[i] += g[i];
        }
        for (int64_t i = 0; i < n; i++) dx[i] = rstd[row] * (g[i] * w[i] - mean_h - z[i] * mean_hz);
    }
    return true;
}

const ct_op layer_norm = {.name = "layer_norm",
                          .attrs_size = sizeof(layer_norm_attrs),
                          .forward = layer_norm_forward,
                          .backward = layer_norm_backward};
