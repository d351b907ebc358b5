/* expect 0/10
 * training failed: ct_dropout
 */
/* The library's own op does the work. */
#include "exercise.h"

static ct_tensor *dropout_forward(ct_call *call) {
    const dropout_attrs *attrs = call->attrs;
    return ct_dropout(call->in[0], attrs->p, attrs->training);
}

static bool dropout_backward(const ct_call *call, ct_tensor *cotangent, ct_tensor **grad) {
    const dropout_attrs *attrs = call->attrs;
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(cotangent));
    if (!grad[0]) return false;
    double *g = ct_data_f64(cotangent), *dx = ct_data_f64(grad[0]);
    int64_t n = ct_numel(cotangent);
    if (!attrs->training) {
        for (int64_t i = 0; i < n; i++) dx[i] = g[i];
        return true;
    }
    double *u = ct_data_f64(call->saved[0]);
    for (int64_t i = 0; i < n; i++)
        if (u[i] >= attrs->p) dx[i] = g[i] / (1 - attrs->p);
    return true;
}

const ct_op dropout = {.name = "dropout", .attrs_size = sizeof(dropout_attrs), .forward = dropout_forward, .backward = dropout_backward};
