/* expect 0/10
 * all failed: refused: it calls ct_log_softmax, ct_softmax
 */
/* The library's own op does the work. */
#include "exercise.h"

#include <math.h>

static ct_tensor *softmax_forward(ct_call *call) { return ct_softmax(call->in[0], -1); }
static ct_tensor *log_softmax_forward(ct_call *call) { return ct_log_softmax(call->in[0], -1); }

static bool softmax_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    int64_t n = ct_dim(cotangents[0], -1), total = ct_numel(cotangents[0]);
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(cotangents[0]));
    if (!grad[0]) return false;
    for (int64_t at = 0; at < total; at += n) {
        double *g = ct_data_f64(cotangents[0]) + at, *y = ct_data_f64(call->out) + at,
               *dx = ct_data_f64(grad[0]) + at;
        double dot = 0;
        for (int64_t i = 0; i < n; i++) dot += g[i] * y[i];
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (g[i] - dot);
    }
    return true;
}

static bool log_softmax_backward(const ct_call *call, ct_tensor *const *cotangents,
                                 ct_tensor **grad) {
    int64_t n = ct_dim(cotangents[0], -1), total = ct_numel(cotangents[0]);
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(cotangents[0]));
    if (!grad[0]) return false;
    for (int64_t at = 0; at < total; at += n) {
        double *g = ct_data_f64(cotangents[0]) + at, *y = ct_data_f64(call->out) + at,
               *dx = ct_data_f64(grad[0]) + at;
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += g[i];
        for (int64_t i = 0; i < n; i++) dx[i] = g[i] - exp(y[i]) * sum;
    }
    return true;
}

const ct_op softmax = {.name = "softmax", .forward = softmax_forward, .backward = softmax_backward};
const ct_op log_softmax = {
    .name = "log_softmax", .forward = log_softmax_forward, .backward = log_softmax_backward};
