/* expect 6/10
 * gradient failed: state: after another forward this call's backward gives another gradient
 * gradient_of_two_calls failed: the gradient is wrong
 */
/* The mask lives in a static array: the last call overwrites that of the one before. */
#include "exercise.h"

static bool keep[100000];

static ct_tensor *dropout_forward(ct_call *call) {
    const dropout_attrs *attrs = call->attrs;
    double p = attrs->p;
    if (!(p >= 0 && p <= 1)) return ct_fail(call->context, CT_ERR_ARGUMENT, "dropout: p is %g", p);
    ct_tensor *Y = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!Y) return NULL;
    double *x = ct_data_f64(call->in[0]), *y = ct_data_f64(Y);
    int64_t n = ct_numel(Y);
    if (!attrs->training) {
        for (int64_t i = 0; i < n; i++) y[i] = x[i];
        return Y;
    }
    ct_tensor *U = ct_rand(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!U) return NULL;
    double *u = ct_data_f64(U);
    for (int64_t i = 0; i < n; i++) keep[i] = u[i] >= p;
    for (int64_t i = 0; i < n; i++)
        if (keep[i]) y[i] = x[i] / (1 - p);
    return Y;
}

static bool dropout_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const dropout_attrs *attrs = call->attrs;
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(cotangents[0]));
    if (!grad[0]) return false;
    double *g = ct_data_f64(cotangents[0]), *dx = ct_data_f64(grad[0]);
    int64_t n = ct_numel(cotangents[0]);
    if (!attrs->training) {
        for (int64_t i = 0; i < n; i++) dx[i] = g[i];
        return true;
    }
    for (int64_t i = 0; i < n; i++)
        if (keep[i]) dx[i] = g[i] / (1 - attrs->p);
    return true;
}

const ct_op dropout = {.name = "dropout",
                       .attrs_size = sizeof(dropout_attrs),
                       .forward = dropout_forward,
                       .backward = dropout_backward};
