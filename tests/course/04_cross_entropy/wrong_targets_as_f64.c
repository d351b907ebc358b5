/* expect 0/10
 * one_row_by_hand failed: crash
 */
/* The targets are i64: their data as f64 is NULL, with an error that nobody looks at. */
#include "exercise.h"

#include <math.h>

static ct_tensor *cross_entropy_forward(ct_call *call) {
    const cross_entropy_attrs *attrs = call->attrs;
    ct_tensor *logits = call->in[0], *targets = call->in[1];
    if (ct_ndim(logits) != 2 || ct_ndim(targets) != 1 || ct_dim(logits, 0) != ct_dim(targets, 0))
        return ct_fail(call->context, CT_ERR_SHAPE, "cross_entropy: the shapes do not fit");
    int64_t N = ct_dim(logits, 0), C = ct_dim(logits, 1), counted = 0;
    double *t = ct_data_f64(targets), *x = ct_data_f64(logits), total = 0;
    for (int64_t n = 0; n < N; n++) {
        if (t[n] == attrs->ignore_index) continue;
        if (t[n] < 0 || t[n] >= C)
            return ct_fail(call->context, CT_ERR_ARGUMENT,
                           "cross_entropy: target %d of row %d is out of range", (int)t[n], (int)n);
        double max = x[n * C], sum = 0;
        for (int64_t c = 0; c < C; c++) max = fmax(max, x[n * C + c]);
        for (int64_t c = 0; c < C; c++) sum += exp(x[n * C + c] - max);
        total += max + log(sum) - x[n * C + (int64_t)t[n]];
        counted++;
    }
    return ct_full(call->context, CT_F64, CT_SCALAR, counted ? total / counted : 0);
}

static bool cross_entropy_backward(const ct_call *call, ct_tensor *const *cotangents,
                                   ct_tensor **grad) {
    const cross_entropy_attrs *attrs = call->attrs;
    int64_t N = ct_dim(call->in[0], 0), C = ct_dim(call->in[0], 1), *t = ct_data_i64(call->in[1]),
            counted = 0;
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!grad[0]) return false;
    double *x = ct_data_f64(call->in[0]), *dx = ct_data_f64(grad[0]), g = ct_item(cotangents[0]);
    for (int64_t n = 0; n < N; n++) counted += t[n] != attrs->ignore_index;
    for (int64_t n = 0; n < N; n++) {
        if (t[n] == attrs->ignore_index) continue;
        double max = x[n * C], sum = 0;
        for (int64_t c = 0; c < C; c++) max = fmax(max, x[n * C + c]);
        for (int64_t c = 0; c < C; c++) sum += exp(x[n * C + c] - max);
        for (int64_t c = 0; c < C; c++)
            dx[n * C + c] = g * (exp(x[n * C + c] - max) / sum - (c == t[n])) / counted;
    }
    return true;
}

const ct_op cross_entropy = {.name = "cross_entropy",
                             .attrs_size = sizeof(cross_entropy_attrs),
                             .forward = cross_entropy_forward,
                             .backward = cross_entropy_backward};
