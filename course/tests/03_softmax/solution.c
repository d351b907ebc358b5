/* softmax and log_softmax over rows of the last dim. */
#include "exercise.h"

#include <math.h>

/* A dense tensor (..., n) is `count` rows of n numbers, one after the other. */
typedef struct {
    int64_t count, n;
} rows;

static rows rows_of(const ct_tensor *x) {
    const int64_t n = ct_dim(x, -1);
    return (rows){n ? ct_numel(x) / n : 0, n};
}

static double maximum(const double *x, int64_t n) {
    double max = x[0]; /* not 0, which would be wrong where all are negative */
    for (int64_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* A new tensor like the input, or NULL with the error recorded. */
static ct_tensor *result(const ct_call *call) {
    if (ct_ndim(call->in[0]) == 0)
        return ct_fail(call->context, CT_ERR_SHAPE, "%s: a scalar has no last dim", call->op->name);
    return ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
}

/* e^(x_i - max) is at most 1, and one of them is 1: nothing overflows, and the sum is not 0. The
 * max cancels in the quotient. */
static ct_tensor *softmax_forward(ct_call *call) {
    ct_tensor *out = result(call);
    if (!out) return NULL;
    const rows r = rows_of(out);
    const double *x = ct_data_f64(call->in[0]);
    double *y = ct_data_f64(out);
    for (int64_t row = 0; row < r.count; row++, x += r.n, y += r.n) {
        const double max = maximum(x, r.n);
        double sum = 0;
        for (int64_t i = 0; i < r.n; i++) sum += y[i] = exp(x[i] - max);
        for (int64_t i = 0; i < r.n; i++) y[i] /= sum;
    }
    return out;
}

/* dy_i/dx_j = y_i ([i = j] - y_j), so dx_j = sum_i g_i dy_i/dx_j = y_j (g_j - <g, y>). */
static bool softmax_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    grad[0] = ct_empty(call->context, CT_F64, ct_shape_of(cotangents[0]));
    if (!grad[0]) return false;
    const rows r = rows_of(cotangents[0]);
    const double *g = ct_data_f64(cotangents[0]), *y = ct_data_f64(call->out);
    double *dx = ct_data_f64(grad[0]);
    for (int64_t row = 0; row < r.count; row++, g += r.n, y += r.n, dx += r.n) {
        double dot = 0;
        for (int64_t i = 0; i < r.n; i++) dot += g[i] * y[i];
        for (int64_t i = 0; i < r.n; i++) dx[i] = y[i] * (g[i] - dot);
    }
    return true;
}

/* The logarithm of a quotient is a difference: no e^x is ever divided, so none needs to be larger
 * than 0. */
static ct_tensor *log_softmax_forward(ct_call *call) {
    ct_tensor *out = result(call);
    if (!out) return NULL;
    const rows r = rows_of(out);
    const double *x = ct_data_f64(call->in[0]);
    double *y = ct_data_f64(out);
    for (int64_t row = 0; row < r.count; row++, x += r.n, y += r.n) {
        const double max = maximum(x, r.n);
        double sum = 0;
        for (int64_t i = 0; i < r.n; i++) sum += exp(x[i] - max);
        /* max + ln sum would be rounded to the digits of max */
        for (int64_t i = 0; i < r.n; i++) y[i] = x[i] - max - log(sum);
    }
    return out;
}

/* dy_i/dx_j = [i = j] - p_j with p = softmax(x) = e^y, so dx_j = g_j - p_j sum_i g_i. */
static bool log_softmax_backward(const ct_call *call, ct_tensor *const *cotangents,
                                 ct_tensor **grad) {
    grad[0] = ct_empty(call->context, CT_F64, ct_shape_of(cotangents[0]));
    if (!grad[0]) return false;
    const rows r = rows_of(cotangents[0]);
    const double *g = ct_data_f64(cotangents[0]), *y = ct_data_f64(call->out);
    double *dx = ct_data_f64(grad[0]);
    for (int64_t row = 0; row < r.count; row++, g += r.n, y += r.n, dx += r.n) {
        double sum = 0;
        for (int64_t i = 0; i < r.n; i++) sum += g[i];
        for (int64_t i = 0; i < r.n; i++) dx[i] = g[i] - exp(y[i]) * sum;
    }
    return true;
}

const ct_op softmax = {.name = "softmax", .forward = softmax_forward, .backward = softmax_backward};
const ct_op log_softmax = {
    .name = "log_softmax", .forward = log_softmax_forward, .backward = log_softmax_backward};
