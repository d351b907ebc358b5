/* Heads: column c of token t is column c % d of head c / d. To split and to combine is the same
 * walk, which reads at one place and writes at the other, and each is the other's backward. */
#include "exercise.h"

#include <math.h>

/* together is (B, T, H d), apart (B, H, T, d). */
static void move(bool to_heads, int64_t batch, int64_t heads, int64_t tokens, int64_t d,
                 double *together, double *apart) {
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t j = 0; j < d; j++) {
                    double *x = &together[((b * tokens + t) * heads + h) * d + j],
                           *y = &apart[((b * heads + h) * tokens + t) * d + j];
                    if (to_heads) *y = *x;
                    else *x = *y;
                }
}

static ct_tensor *split(ct_context *context, ct_tensor *x, int64_t heads) {
    const int64_t batch = ct_dim(x, 0), tokens = ct_dim(x, 1), d = ct_dim(x, 2) / heads;
    ct_tensor *y = ct_empty(context, CT_F64, CT_SHAPE(batch, heads, tokens, d));
    if (y) move(true, batch, heads, tokens, d, ct_data_f64(x), ct_data_f64(y));
    return y;
}

static ct_tensor *combine(ct_context *context, ct_tensor *y) {
    const int64_t batch = ct_dim(y, 0), heads = ct_dim(y, 1), tokens = ct_dim(y, 2),
                  d = ct_dim(y, 3);
    ct_tensor *x = ct_empty(context, CT_F64, CT_SHAPE(batch, tokens, heads * d));
    if (x) move(false, batch, heads, tokens, d, ct_data_f64(x), ct_data_f64(y));
    return x;
}

static ct_tensor *split_heads_forward(ct_call *call) {
    const long long heads = ((const split_heads_attrs *)call->attrs)->heads;
    ct_tensor *x = call->in[0];
    if (ct_ndim(x) != 3)
        return ct_fail(call->context, CT_ERR_SHAPE, "split_heads: %d dims are not (B, T, E)",
                       ct_ndim(x));
    if (heads < 1 || ct_dim(x, 2) % heads != 0)
        return ct_fail(call->context, CT_ERR_SHAPE,
                       "split_heads: %lld columns are not for %lld heads", (long long)ct_dim(x, 2),
                       heads);
    /* backward moves the cotangent, and reads nothing else */
    call->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return split(call->context, x, heads);
}

static bool split_heads_backward(const ct_call *call, ct_tensor *const *cotangents,
                                 ct_tensor **grad) {
    grad[0] = combine(call->context, cotangents[0]);
    return grad[0] != NULL;
}

static ct_tensor *combine_heads_forward(ct_call *call) {
    if (ct_ndim(call->in[0]) != 4)
        return ct_fail(call->context, CT_ERR_SHAPE, "combine_heads: %d dims are not (B, H, T, d)",
                       ct_ndim(call->in[0]));
    call->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return combine(call->context, call->in[0]);
}

static bool combine_heads_backward(const ct_call *call, ct_tensor *const *cotangents,
                                   ct_tensor **grad) {
    /* dropped values, but the shape is kept */
    grad[0] = split(call->context, cotangents[0], ct_dim(call->in[0], 1));
    return grad[0] != NULL;
}

const ct_op split_heads = {.name = "split_heads",
                           .attrs_size = sizeof(split_heads_attrs),
                           .forward = split_heads_forward,
                           .backward = split_heads_backward};
const ct_op combine_heads = {
    .name = "combine_heads", .forward = combine_heads_forward, .backward = combine_heads_backward};

/* Columns part E ... (part + 1) E of qkv, in heads. */
static ct_tensor *heads_of(ct_tensor *qkv, int part, int64_t width, int64_t heads) {
    ct_tensor *x = ct_narrow(qkv, -1, part * width, width);
    return ct_apply(&split_heads, &x, 1, &(split_heads_attrs){heads});
}

ct_tensor *multi_head(ct_tensor *x, const multi_head_params *params, int64_t heads, bool causal) {
    const int64_t tokens = ct_dim(x, 1), width = ct_dim(x, 2);
    ct_tensor *qkv = ct_linear(x, params->in_weight, params->in_bias); /* (B, T, 3 E) */
    ct_tensor *q = heads_of(qkv, 0, width, heads), *k = heads_of(qkv, 1, width, heads),
              *v = heads_of(qkv, 2, width, heads);
    /* 1 / sqrt d */
    ct_tensor *scores =
        ct_scale(ct_matmul(q, ct_transpose(k, -1, -2)), sqrt((double)heads / (double)width));
    ct_tensor *weights = ct_masked_softmax(
        scores, causal ? ct_causal_mask(ct_context_of(x), tokens, tokens) : NULL, -1);
    ct_tensor *out = ct_matmul(weights, v); /* (B, H, T, d) */
    return ct_linear(ct_apply(&combine_heads, &out, 1, NULL), params->out_weight, params->out_bias);
}
