/* masked_attention: the products are the library's, the masked softmax between them is written out.
 *
 *     s = q k^T / sqrt d,  p = softmax of s over the keys that are seen,  out = p v
 *     dv = p^T g,  dp = g v^T,  ds = p (dp - <p, dp>),  dq = ds k / sqrt d,  dk = ds^T q / sqrt d
 */
#include "exercise.h"

#include <math.h>

static double scale_of(const ct_call *call) { return 1 / sqrt((double)ct_dim(call->in[0], -1)); }

static bool is_seen(const ct_call *call, const bool *real, int64_t i, int64_t j) {
    const masked_attention_attrs *attrs = call->attrs;
    return (!attrs->causal || j <= i) && (!real || real[j]);
}

/* Row i of scores becomes weights, in place. What is hidden takes no part, not even in the maximum;
 * of nothing seen the sum is 0, and so are all weights. */
static void softmax_of_seen(const ct_call *call, const bool *real, int64_t i, int64_t keys,
                            double *s) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++)
        if (is_seen(call, real, i, j) && s[j] > max) max = s[j];
    for (int64_t j = 0; j < keys; j++)
        sum += s[j] = is_seen(call, real, i, j) ? exp(s[j] - max) : 0;
    for (int64_t j = 0; j < keys && sum > 0; j++) s[j] /= sum;
}

static ct_tensor *masked_attention_forward(ct_call *call) {
    ct_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *key_mask = call->in[3];
    /* still scores: (B, T, S) */
    ct_tensor *weights = ct_scale(ct_matmul(q, ct_transpose(k, -1, -2)), scale_of(call));
    if (!weights) return NULL;
    const int64_t batch = ct_dim(q, 0), queries = ct_dim(q, 1), keys = ct_dim(k, 1);
    const bool *real = key_mask ? ct_data_bool(key_mask) : NULL;
    double *s = ct_data_f64(weights);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < queries; i++)
            softmax_of_seen(call, real ? real + b * keys : NULL, i, keys,
                            s + (b * queries + i) * keys);
    call->saved[0] = weights;
    call->drop = CT_DROP_OUT; /* backward reads q, k, v and the weights */
    return ct_matmul(weights, v);
}

/* A hidden key has p = 0, so ds = 0: backward needs no mask. */
static bool masked_attention_backward(const ct_call *call, ct_tensor *const *cotangents,
                                      ct_tensor **grad) {
    ct_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2], *weights = call->saved[0];
    ct_tensor *ds = ct_matmul(cotangents[0], ct_transpose(v, -1, -2)); /* still dp: (B, T, S) */
    if (!ds) return false;
    const int64_t rows = ct_dim(ds, 0) * ct_dim(ds, 1), keys = ct_dim(ds, 2);
    const double *p = ct_data_f64(weights);
    double *d = ct_data_f64(ds);
    for (int64_t r = 0; r < rows; r++, p += keys, d += keys) {
        double dot = 0;
        for (int64_t j = 0; j < keys; j++) dot += p[j] * d[j];
        for (int64_t j = 0; j < keys; j++) d[j] = p[j] * (d[j] - dot);
    }
    grad[0] = ct_scale(ct_matmul(ds, k), scale_of(call));
    grad[1] = ct_scale(ct_matmul(ct_transpose(ds, -1, -2), q), scale_of(call));
    grad[2] = ct_matmul(ct_transpose(weights, -1, -2), cotangents[0]);
    return grad[0] && grad[1] && grad[2];
}

const ct_op masked_attention = {.name = "masked_attention",
                                .attrs_size = sizeof(masked_attention_attrs),
                                .forward = masked_attention_forward,
                                .backward = masked_attention_backward,
                                .flags = CT_OP_OPTIONAL};
