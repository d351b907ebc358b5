/* cross_entropy: the mean over the rows that count of lse_r - x_rt, lse the logarithm of the sum of
 * exponentials, t the target. */
#include "exercise.h"

#include <math.h>

/* Shapes and targets in order? If not, the error is recorded. */
static bool check(const ct_call *call) {
    const ct_shape logits = ct_shape_of(call->in[0]), targets = ct_shape_of(call->in[1]);
    if (logits.ndim != 2 || targets.ndim != 1 || targets.dim[0] != logits.dim[0])
        return ct_fail(call->context, CT_ERR_SHAPE,
                       "cross_entropy: logits are (N, C) and targets (N), not of %d dims and %d, "
                       "or %lld targets",
                       logits.ndim, targets.ndim, (long long)ct_numel(call->in[1]));
    const cross_entropy_attrs *attrs = call->attrs;
    const int64_t classes = logits.dim[1], *target = ct_data_i64(call->in[1]);
    for (int64_t row = 0; row < targets.dim[0]; row++)
        if (target[row] != attrs->ignore_index && (target[row] < 0 || target[row] >= classes))
            return ct_fail(call->context, CT_ERR_ARGUMENT,
                           "cross_entropy: target %lld of row %lld is not in [0, %lld)",
                           (long long)target[row], (long long)row, (long long)classes);
    return true;
}

/* How many rows the mean is over. */
static int64_t count(const ct_call *call) {
    const cross_entropy_attrs *attrs = call->attrs;
    const int64_t *target = ct_data_i64(call->in[1]);
    int64_t n = 0;
    for (int64_t row = 0; row < ct_numel(call->in[1]); row++)
        n += target[row] != attrs->ignore_index;
    return n;
}

/* ln sum_j e^(x_j). The largest exponential is 1: the sum neither overflows nor is it 0. */
static double log_sum_exp(const double *x, int64_t n) {
    double max = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
    return max + log(sum);
}

static ct_tensor *cross_entropy_forward(ct_call *call) {
    if (!check(call)) return NULL;
    const cross_entropy_attrs *attrs = call->attrs;
    const int64_t rows = ct_dim(call->in[0], 0), classes = ct_dim(call->in[0], 1),
                  *target = ct_data_i64(call->in[1]);
    const double *x = ct_data_f64(call->in[0]);
    double sum = 0;
    for (int64_t row = 0; row < rows; row++, x += classes) /* not ln of a softmax, which may be 0 */
        if (target[row] != attrs->ignore_index) sum += log_sum_exp(x, classes) - x[target[row]];
    const int64_t n = count(call);
    return ct_full(call->context, CT_F64, CT_SCALAR, n ? sum / (double)n : 0);
}

/* d loss_r / d x_rj = softmax(x_r)_j - [j = t], each over the count, and times the cotangent: it is
 * 1 only if the loss is what is differentiated. */
static bool cross_entropy_backward(const ct_call *call, ct_tensor *const *cotangents,
                                   ct_tensor **grad) {
    const cross_entropy_attrs *attrs = call->attrs;
    const int64_t rows = ct_dim(call->in[0], 0), classes = ct_dim(call->in[0], 1),
                  *target = ct_data_i64(call->in[1]);
    /* and rows that are ignored stay zero. Targets have no gradient */
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!grad[0]) return false;
    const double *x = ct_data_f64(call->in[0]), g = ct_item(cotangents[0]) / (double)count(call);
    double *dx = ct_data_f64(grad[0]);
    for (int64_t row = 0; row < rows; row++, x += classes, dx += classes) {
        if (target[row] == attrs->ignore_index) continue;
        const double lse = log_sum_exp(x, classes);
        for (int64_t j = 0; j < classes; j++) dx[j] = g * (exp(x[j] - lse) - (j == target[row]));
    }
    return true;
}

const ct_op cross_entropy = {.name = "cross_entropy",
                             .attrs_size = sizeof(cross_entropy_attrs),
                             .forward = cross_entropy_forward,
                             .backward = cross_entropy_backward};
