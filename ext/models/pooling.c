/* Tokens of a row as one vector: the last one, their mean, and sentence-transformers' poolings. */
#include "pooling.h"

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>

#include "../../src/core/int_math.h"

const bool *cti_lm_mask_values(ct_tensor *mask) {
    return mask ? ct_data_bool(ct_contiguous(mask)) : NULL;
}

/* ---- results of ct_lm_forward ---- */

ct_tensor *cti_lm_last_tokens(const cti_lm *lm, const char *op, const ct_lm_call *call,
                              ct_tensor *x) {
    if (!x) return NULL;
    const ct_shape shape = ct_shape_of(x);
    const int64_t B = shape.dim[0], T = shape.dim[1];
    const bool *mask = cti_lm_mask_values(call->key_mask);
    if (call->key_mask && !mask) return NULL;
    if (!mask) return ct_narrow(x, 1, T - 1, 1);
    ct_tensor *index = ct_empty(lm->context, CT_I64, CT_SHAPE(B));
    int64_t *at = index ? ct_data_i64(index) : NULL;
    if (!at) return NULL;
    for (int64_t b = 0; b < B; b++) {
        int64_t t = T - 1;
        while (t >= 0 && !mask[b * T + t]) t--;
        if (t < 0 && !call->cache)
            return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: row %" PRId64 " has no token", op, b);
        at[b] = b * T + cti_max(t, 0);
    }
    x = ct_index_select(ct_reshape(x, CT_SHAPE(B * T, -1)), 0, index);
    return ct_unsqueeze(x, 1);
}

/* x (B, T, E) with zeros in the place of what the mask hides, NaN too. */
static ct_tensor *tokens_only(ct_tensor *mask, ct_tensor *x) {
    ct_tensor *zero = ct_zeros(ct_context_of(x), ct_dtype_of(x), CT_SCALAR);
    return ct_where(ct_unsqueeze(mask, 2), x, zero);
}

ct_tensor *cti_lm_mean_of_tokens(ct_tensor *mask, ct_tensor *x) {
    if (!mask || !x) return ct_mean(x, CT_DIMS(1), false);
    ct_tensor *sum = ct_sum(tokens_only(mask, x), CT_DIMS(1), false);
    ct_tensor *count = ct_sum(ct_cast(ct_unsqueeze(mask, 2), ct_dtype_of(x)), CT_DIMS(1), false);
    return ct_div(sum, ct_clamp(count, 1, INFINITY)); /* a row without a token has zeros */
}

/* ---- sentence-transformers' poolings ---- */

/* The number of each token among those of its row, 1, 2, ..., and 0 for padding: i64 (B, T). */
static ct_tensor *token_numbers(ct_context *context, const bool *mask, int64_t B, int64_t T) {
    ct_tensor *numbers = ct_empty(context, CT_I64, CT_SHAPE(B, T));
    int64_t *number = numbers ? ct_data_i64(numbers) : NULL;
    for (int64_t b = 0; number && b < B; b++)
        for (int64_t t = 0, n = 0; t < T; t++)
            number[b * T + t] = !mask || mask[b * T + t] ? ++n : 0;
    return numbers;
}

/* sum_t n_t x_t / sum_t n_t, for the numbers n of the tokens. */
static ct_tensor *weighted_mean(const bool *mask, ct_tensor *x) {
    const ct_shape shape = ct_shape_of(x);
    ct_tensor *numbers = token_numbers(ct_context_of(x), mask, shape.dim[0], shape.dim[1]);
    ct_tensor *weight = ct_cast(ct_unsqueeze(numbers, 2), ct_dtype_of(x));
    ct_tensor *sum = ct_sum(ct_mul(x, weight), CT_DIMS(1), false);
    return ct_div(sum, ct_clamp(ct_sum(weight, CT_DIMS(1), false), 1, INFINITY));
}

/* sum_t x_t / sqrt(n), of n tokens. */
static ct_tensor *mean_by_root(ct_tensor *mask, ct_tensor *x) {
    ct_tensor *sum = ct_sum(x, CT_DIMS(1), false);
    if (!mask) return ct_scale(sum, 1 / sqrt((double)ct_dim(x, 1)));
    ct_tensor *count = ct_sum(ct_cast(ct_unsqueeze(mask, 2), ct_dtype_of(x)), CT_DIMS(1), false);
    return ct_div(sum, ct_sqrt(ct_clamp(count, 1, INFINITY)));
}

/* The first or the last token of each row. */
static ct_tensor *token_at_end(const bool *mask, ct_tensor *x, bool last) {
    const ct_shape shape = ct_shape_of(x);
    const int64_t B = shape.dim[0], T = shape.dim[1];
    if (!mask) return ct_select(x, 1, last ? T - 1 : 0);
    ct_tensor *index = ct_empty(ct_context_of(x), CT_I64, CT_SHAPE(B));
    int64_t *at = index ? ct_data_i64(index) : NULL;
    for (int64_t b = 0; at && b < B; b++) {
        int64_t t = last ? T - 1 : 0;
        const int64_t step = last ? -1 : 1;
        while (t >= 0 && t < T && !mask[b * T + t]) t += step;
        at[b] = b * T + (t >= 0 && t < T ? t : 0); /* a row without a token has zeros */
    }
    return ct_index_select(ct_reshape(x, CT_SHAPE(B * T, -1)), 0, index);
}

static ct_tensor *max_of_tokens(ct_tensor *mask, ct_tensor *x) {
    if (!mask) return ct_max(x, CT_DIMS(1), false);
    ct_context *context = ct_context_of(x);
    ct_tensor *least = ct_full(context, ct_dtype_of(x), CT_SCALAR, -INFINITY),
              *zero = ct_zeros(context, ct_dtype_of(x), CT_SCALAR);
    ct_tensor *largest = ct_max(ct_where(ct_unsqueeze(mask, 2), x, least), CT_DIMS(1), false);
    ct_tensor *any = ct_gt_scalar(ct_sum(ct_unsqueeze(mask, 2), CT_DIMS(1), false), 0);
    return ct_where(any, largest, zero);
}

ct_tensor *cti_lm_pool_tokens(ct_tensor *mask, ct_tensor *x, cti_lm_pool how) {
    if (!x) return NULL;
    if (how == CTI_LM_POOL_MEAN) return cti_lm_mean_of_tokens(mask, x);
    if (how == CTI_LM_POOL_MAX) return max_of_tokens(mask, x);
    const bool *value = cti_lm_mask_values(mask);
    ct_tensor *tokens = mask ? tokens_only(mask, x) : x;
    if (!tokens || (mask && !value)) return NULL;
    if (how == CTI_LM_POOL_SQRT) return mean_by_root(mask, tokens);
    if (how == CTI_LM_POOL_WEIGHTED) return weighted_mean(value, tokens);
    return token_at_end(value, tokens, how == CTI_LM_POOL_LAST);
}

ct_tensor *cti_lm_mask_behind(ct_context *context, ct_tensor *mask, int64_t B, int64_t T,
                              int64_t n) {
    const bool *from = cti_lm_mask_values(mask);
    ct_tensor *behind = mask && !from ? NULL : ct_empty(context, CT_BOOL, CT_SHAPE(B, T));
    bool *to = behind ? ct_data_bool(behind) : NULL;
    for (int64_t b = 0; to && b < B; b++) {
        int64_t first = 0;
        while (from && first < T && !from[b * T + first]) first++;
        for (int64_t t = 0; t < T; t++)
            to[b * T + t] = t - first >= n && (!from || from[b * T + t]);
    }
    return behind;
}
