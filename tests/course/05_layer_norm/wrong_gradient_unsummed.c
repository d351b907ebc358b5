/* expect 8/10
 * gradient_of_bias failed: has shape (3, 5)
 * gradients_together failed: has shape (3, 5)
 */
/* The bias's gradient is the cotangent as it is, which has one row too many. */
#include "exercise.h"

#include <math.h>

static ct_tensor *layer_norm_forward(ct_call *call) {
    const layer_norm_attrs *attrs = call->attrs;
    ct_tensor *X = call->in[0], *W = call->in[1], *B = call->in[2];
    if (ct_ndim(X) < 1) return ct_fail(call->context, CT_ERR_SHAPE, "layer_norm: x is a scalar");
    int64_t D = ct_dim(X, -1), rows = D ? ct_numel(X) / D : 0;
    if (ct_ndim(W) != 1 || ct_ndim(B) != 1 || ct_dim(W, 0) != D || ct_dim(B, 0) != D)
        return ct_fail(call->context, CT_ERR_SHAPE, "layer_norm: weight and bias do not fit x");
    ct_tensor *Y = ct_empty(call->context, CT_F64, ct_shape_of(X));
    call->saved[0] = ct_empty(call->context, CT_F64, ct_shape_of(X));
    call->saved[1] = ct_empty(call->context, CT_F64, CT_SHAPE(rows));
    if (!Y || !call->saved[0] || !call->saved[1]) return NULL;
    double *w = ct_data_f64(W), *b = ct_data_f64(B), *rstd = ct_data_f64(call->saved[1]);
    for (int64_t r = 0; r < rows; r++) {
        double *x = ct_data_f64(X) + r * D, *y = ct_data_f64(Y) + r * D,
               *xhat = ct_data_f64(call->saved[0]) + r * D;
        double mean = 0, var = 0;
        for (int64_t d = 0; d < D; d++) mean += x[d] / D;
        for (int64_t d = 0; d < D; d++) var += (x[d] - mean) * (x[d] - mean) / D;
        rstd[r] = 1 / sqrt(var + attrs->eps);
        for (int64_t d = 0; d < D; d++) xhat[d] = (x[d] - mean) * rstd[r];
        for (int64_t d = 0; d < D; d++) y[d] = xhat[d] * w[d] + b[d];
    }
    return Y;
}

static bool layer_norm_backward(const ct_call *call, ct_tensor *const *cotangents,
                                ct_tensor **grad) {
    int64_t D = ct_dim(call->in[0], -1), rows = D ? ct_numel(call->in[0]) / D : 0;
    for (int i = 0; i < 3; i++) {
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        if (!grad[i]) return false;
    }
    double *w = ct_data_f64(call->in[1]), *rstd = ct_data_f64(call->saved[1]),
           *dw = ct_data_f64(grad[1]);
    for (int64_t r = 0; r < rows; r++) {
        double *g = ct_data_f64(cotangents[0]) + r * D, *xhat = ct_data_f64(call->saved[0]) + r * D,
               *dx = ct_data_f64(grad[0]) + r * D;
        double a = 0, b = 0;
        for (int64_t d = 0; d < D; d++) dw[d] += g[d] * xhat[d];
        for (int64_t d = 0; d < D; d++) a += g[d] * w[d] / D;
        for (int64_t d = 0; d < D; d++) b += g[d] * w[d] * xhat[d] / D;
        for (int64_t d = 0; d < D; d++) dx[d] = rstd[r] * (g[d] * w[d] - a - xhat[d] * b);
    }
    grad[2] = cotangents[0];
    return true;
}

const ct_op layer_norm = {.name = "layer_norm",
                          .attrs_size = sizeof(layer_norm_attrs),
                          .forward = layer_norm_forward,
                          .backward = layer_norm_backward};
