/* Five ops. The forwards are right. Each backward had one mistake. */
#include "exercise.h"

#include <math.h>

/* ---- silu ---- */

const mistake silu_mistake = DERIVATIVE_AT_OUTPUT;

static ct_tensor *silu_forward(ct_call *call) {
    ct_tensor *y = ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!y) return NULL;
    const double *x = ct_data_f64(call->in[0]);
    for (int64_t i = 0; i < ct_numel(y); i++) ct_data_f64(y)[i] = x[i] / (1 + exp(-x[i]));
    return y;
}

/* With s = 1 / (1 + e^-x): the derivative is s + x s (1 - s). */
static bool silu_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    grad[0] = ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!grad[0]) return false;
    const double *x = ct_data_f64(call->in[0]), *g = ct_data_f64(cotangents[0]);
    double *dx = ct_data_f64(grad[0]);
    for (int64_t i = 0; i < ct_numel(grad[0]); i++) {
        const double s = 1 / (1 + exp(-x[i]));
        dx[i] = g[i] * (s + x[i] * s * (1 - s));
    }
    return true;
}

const ct_op silu = {.name = "silu", .forward = silu_forward, .backward = silu_backward};

/* ---- embedding ---- */

const mistake embedding_mistake = ASSIGNED;

static ct_tensor *embedding_forward(ct_call *call) {
    const int64_t n = ct_numel(call->in[1]), width = ct_dim(call->in[0], 1);
    ct_tensor *y = ct_empty(call->context, CT_F64, CT_SHAPE(n, width));
    if (!y) return NULL;
    const double *weight = ct_data_f64(call->in[0]);
    const int64_t *ids = ct_data_i64(call->in[1]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++)
            ct_data_f64(y)[i * width + j] = weight[ids[i] * width + j];
    return y;
}

static bool embedding_backward(const ct_call *call, ct_tensor *const *cotangents,
                               ct_tensor **grad) {
    const int64_t n = ct_numel(call->in[1]), width = ct_dim(call->in[0], 1);
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!grad[0]) return false;
    const double *g = ct_data_f64(cotangents[0]);
    const int64_t *ids = ct_data_i64(call->in[1]);
    double *dw = ct_data_f64(grad[0]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++) dw[ids[i] * width + j] += g[i * width + j];
    return true;
}

const ct_op embedding = {
    .name = "embedding", .forward = embedding_forward, .backward = embedding_backward};

/* ---- rms_norm ---- */

const mistake rms_norm_mistake = TAKEN_FOR_CONSTANT;

/* 1 / sqrt(mean of x^2 + 1e-6) of a row */
static double inverse_rms(const double *x, int64_t width) {
    double sum = 0;
    for (int64_t j = 0; j < width; j++) sum += x[j] * x[j];
    return 1 / sqrt(sum / (double)width + 1e-6);
}

static ct_tensor *rms_norm_forward(ct_call *call) {
    const int64_t n = ct_dim(call->in[0], 0), width = ct_dim(call->in[0], 1);
    ct_tensor *out = ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!out) return NULL;
    const double *weight = ct_data_f64(call->in[1]);
    for (int64_t i = 0; i < n; i++) {
        const double *x = ct_data_f64(call->in[0]) + i * width;
        double *y = ct_data_f64(out) + i * width;
        const double r = inverse_rms(x, width);
        for (int64_t j = 0; j < width; j++) y[j] = weight[j] * x[j] * r;
    }
    return out;
}

static bool rms_norm_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const int64_t n = ct_dim(call->in[0], 0), width = ct_dim(call->in[0], 1);
    grad[0] = ct_empty(call->context, CT_F64, ct_shape_of(call->in[0]));
    grad[1] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[1]));
    if (!grad[0] || !grad[1]) return false;
    const double *weight = ct_data_f64(call->in[1]);
    double *dw = ct_data_f64(grad[1]);
    for (int64_t i = 0; i < n; i++) {
        const double *x = ct_data_f64(call->in[0]) + i * width,
                     *g = ct_data_f64(cotangents[0]) + i * width;
        double *dx = ct_data_f64(grad[0]) + i * width;
        const double r = inverse_rms(x, width);
        double dot = 0;
        for (int64_t j = 0; j < width; j++) {
            dw[j] += g[j] * x[j] * r;
            dot += g[j] * weight[j] * x[j];
        }
        for (int64_t j = 0; j < width; j++)
            dx[j] = r * g[j] * weight[j] - x[j] * r * r * r * dot / (double)width;
    }
    return true;
}

const ct_op rms_norm = {
    .name = "rms_norm", .forward = rms_norm_forward, .backward = rms_norm_backward};

/* ---- cross_entropy ---- */

const mistake cross_entropy_mistake = WRONG_COUNT;

enum { IGNORED = -100 };

static int64_t rows_that_count(ct_tensor *targets) {
    int64_t count = 0;
    for (int64_t i = 0; i < ct_numel(targets); i++) count += ct_data_i64(targets)[i] != IGNORED;
    return count;
}

/* log of the sum of e^x of a row */
static double log_sum_exp(const double *x, int64_t classes) {
    double max = x[0], sum = 0;
    for (int64_t c = 1; c < classes; c++) max = fmax(max, x[c]);
    for (int64_t c = 0; c < classes; c++) sum += exp(x[c] - max);
    return max + log(sum);
}

static ct_tensor *cross_entropy_forward(ct_call *call) {
    const int64_t n = ct_dim(call->in[0], 0), classes = ct_dim(call->in[0], 1);
    const int64_t *target = ct_data_i64(call->in[1]);
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *x = ct_data_f64(call->in[0]) + i * classes;
        if (target[i] != IGNORED) loss += log_sum_exp(x, classes) - x[target[i]];
    }
    loss /= (double)rows_that_count(call->in[1]);
    return ct_from_f64(call->context, CT_SCALAR, &loss);
}

static bool cross_entropy_backward(const ct_call *call, ct_tensor *const *cotangents,
                                   ct_tensor **grad) {
    const int64_t n = ct_dim(call->in[0], 0), classes = ct_dim(call->in[0], 1);
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    if (!grad[0]) return false;
    const int64_t *target = ct_data_i64(call->in[1]);
    const double scale = ct_data_f64(cotangents[0])[0] / (double)rows_that_count(call->in[1]);
    for (int64_t i = 0; i < n; i++) {
        if (target[i] == IGNORED) continue;
        const double *x = ct_data_f64(call->in[0]) + i * classes;
        double *dx = ct_data_f64(grad[0]) + i * classes;
        const double whole = log_sum_exp(x, classes);
        for (int64_t c = 0; c < classes; c++)
            dx[c] = scale * (exp(x[c] - whole) - (c == target[i]));
    }
    return true;
}

const ct_op cross_entropy = {
    .name = "cross_entropy", .forward = cross_entropy_forward, .backward = cross_entropy_backward};

/* ---- causal_attention ---- */

const mistake causal_attention_mistake = NOT_TRANSPOSED;

static double dot(const double *a, const double *b, int64_t d) {
    double sum = 0;
    for (int64_t c = 0; c < d; c++) sum += a[c] * b[c];
    return sum;
}

/* The weights of all queries, (T, T), are kept for backward: 0 where j > i. */
static ct_tensor *causal_attention_forward(ct_call *call) {
    const int64_t T = ct_dim(call->in[0], 0), d = ct_dim(call->in[0], 1);
    const double *q = ct_data_f64(call->in[0]), *k = ct_data_f64(call->in[1]),
                 *v = ct_data_f64(call->in[2]);
    ct_tensor *weights = ct_zeros(call->context, CT_F64, CT_SHAPE(T, T)),
              *out = ct_zeros(call->context, CT_F64, CT_SHAPE(T, d));
    if (!weights || !out) return NULL;
    for (int64_t i = 0; i < T; i++) {
        double *p = ct_data_f64(weights) + i * T, *o = ct_data_f64(out) + i * d;
        for (int64_t j = 0; j <= i; j++) p[j] = dot(q + i * d, k + j * d, d) / sqrt((double)d);
        const double whole = log_sum_exp(p, i + 1);
        for (int64_t j = 0; j <= i; j++) {
            p[j] = exp(p[j] - whole);
            for (int64_t c = 0; c < d; c++) o[c] += p[j] * v[j * d + c];
        }
    }
    call->saved[0] = weights;
    return out;
}

static bool causal_attention_backward(const ct_call *call, ct_tensor *const *cotangents,
                                      ct_tensor **grad) {
    const int64_t T = ct_dim(call->in[0], 0), d = ct_dim(call->in[0], 1);
    const double *q = ct_data_f64(call->in[0]), *k = ct_data_f64(call->in[1]),
                 *v = ct_data_f64(call->in[2]), *P = ct_data_f64(call->saved[0]),
                 *g = ct_data_f64(cotangents[0]);
    ct_tensor *scores = ct_zeros(call->context, CT_F64, CT_SHAPE(T, T)); /* their gradient */
    for (int i = 0; i < 3; i++) grad[i] = ct_zeros(call->context, CT_F64, CT_SHAPE(T, d));
    if (!scores || !grad[0] || !grad[1] || !grad[2]) return false;
    double *dq = ct_data_f64(grad[0]), *dk = ct_data_f64(grad[1]), *dv = ct_data_f64(grad[2]),
           *dS = ct_data_f64(scores);
    for (int64_t i = 0; i < T; i++) {
        double D = 0;
        for (int64_t j = 0; j < T; j++) D += P[i * T + j] * dot(g + i * d, v + j * d, d);
        for (int64_t j = 0; j < T; j++)
            dS[i * T + j] = P[i * T + j] * (dot(g + i * d, v + j * d, d) - D) / sqrt((double)d);
    }
    for (int64_t i = 0; i < T; i++)
        for (int64_t j = 0; j < T; j++)
            for (int64_t c = 0; c < d; c++) {
                dq[i * d + c] += dS[i * T + j] * k[j * d + c];
                dk[i * d + c] += dS[j * T + i] * q[j * d + c];
                dv[i * d + c] += P[j * T + i] * g[j * d + c];
            }
    return true;
}

const ct_op causal_attention = {.name = "causal_attention",
                                .forward = causal_attention_forward,
                                .backward = causal_attention_backward};
