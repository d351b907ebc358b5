/* Attention of one head (..., T, d) as the exercises define it, and wrong ones: exercises 06, 07
 * and 10. */
#ifndef COURSE_ATTENTION_VARIANTS_H
#define COURSE_ATTENTION_VARIANTS_H

#include "course.h"

#include <math.h>

enum {
    NO_SCALE,
    SCALE_1_D,
    SCALE_SQRT_D,
    SCALE_VALUES,
    SCALE_KEYS,
    SCALE_QUERIES,
    SCALE_AFTER,
    CAUSAL_IGNORED,
    CAUSAL_FORCED,
    CAUSAL_STRICT,
    CAUSAL_FUTURE,
    CAUSAL_ONE_MORE,
    CAUSAL_AT_END,
    MASK_AFTER,
    HIDDEN_ZERO,
    HIDDEN_LARGE,
    HIDDEN_ADDED,
    HIDDEN_INFINITE,
    OVER_QUERIES,
    NO_SOFTMAX,
    NOT_DIVIDED,
    NO_MAXIMUM,
    MAXIMUM_FROM_ZERO,
    KEYS_FOR_VALUES,
    QUERIES_FOR_VALUES,
    WEIGHTS_TURNED,
    SCORES_TURNED,
    ATTENTION_MISTAKES
};

/* clang-format off */
#define ATTENTION_MISTAKES_SAID                                                                    \
    [NO_SCALE] = {"without the scale 1 / sqrt d"},                                                 \
    [SCALE_1_D] = {"with the scale 1 / d in place of 1 / sqrt d"},                                 \
    [SCALE_SQRT_D] = {"when the scores are multiplied by sqrt d, and not divided"},                \
    [SCALE_VALUES] = {"with the columns of v for d in the scale 1 / sqrt d"},                      \
    [SCALE_KEYS] = {"with the number of keys for d in the scale 1 / sqrt d"},                      \
    [SCALE_QUERIES] = {"with the number of queries for d in the scale 1 / sqrt d"},                \
    [SCALE_AFTER] = {"when the weights are scaled, after the softmax, and not the scores"},        \
    [CAUSAL_IGNORED] = {"when `causal` is not looked at"},                                         \
    [CAUSAL_FORCED] = {"when the causal mask is applied although `causal` is false"},              \
    [CAUSAL_STRICT] = {"when a causal query i sees keys j < i alone, and not j = i"},              \
    [CAUSAL_FUTURE] = {"when a causal query i sees keys j >= i: the future, not the past"},        \
    [CAUSAL_ONE_MORE] = {"when a causal query i sees key i + 1, too"},                             \
    [CAUSAL_AT_END] = {"when the causal mask ends at the last key: j <= i + S - T"},               \
    [MASK_AFTER] = {"when the mask is applied after the softmax: weights of what is seen "         \
                    "must sum to 1"},                                                              \
    [HIDDEN_ZERO] = {"when hidden scores are set to 0: e^0 is 1, a weight like others"},           \
    [HIDDEN_LARGE] = {"when hidden scores become a large negative number: a query that sees "      \
                      "nothing then gets the mean of all values"},                                 \
    [HIDDEN_ADDED] = {"when -1e9 is added to hidden scores: a query that sees nothing then gets "  \
                      "weights, too"},                                                             \
    [HIDDEN_INFINITE] = {"when a query that sees nothing is not treated apart: -inf - -inf and "    \
                         "0 / 0 give NaN"},                                                        \
    [OVER_QUERIES] = {"when the softmax is over the queries (down a column of scores), and not "   \
                      "over the keys"},                                                            \
    [NO_SOFTMAX] = {"without a softmax: (q k^T) v", true},                                         \
    [NOT_DIVIDED] = {"when the weights are not divided by their sum"},                             \
    [NO_MAXIMUM] = {"when no maximum is taken off before e^x"},                                    \
    [MAXIMUM_FROM_ZERO] = {"when the search for the maximum begins with 0"},                       \
    [QUERIES_FOR_VALUES] = {"with the queries in place of the values"},                            \
    [WEIGHTS_TURNED] = {"when the weights are transposed before they are multiplied by v"},        \
    [KEYS_FOR_VALUES] = {"with the keys in place of the values"},                                  \
    [SCORES_TURNED] = {"with queries and keys exchanged: k q^T"}
/* clang-format on */

static ct_tensor *course_scores(ct_tensor *q, ct_tensor *k, ct_tensor *v, course_set bits) {
    const double d = (double)ct_dim(q, -1);
    double scale = 1 / sqrt(d);
    if (bits & (COURSE_BIT(NO_SCALE) | COURSE_BIT(SCALE_AFTER))) scale = 1;
    if (bits >> SCALE_1_D & 1) scale = 1 / d;
    if (bits >> SCALE_SQRT_D & 1) scale = sqrt(d);
    if (bits >> SCALE_VALUES & 1) scale = 1 / sqrt((double)ct_dim(v, -1));
    if (bits >> SCALE_KEYS & 1) scale = 1 / sqrt((double)ct_dim(k, -2));
    if (bits >> SCALE_QUERIES & 1) scale = 1 / sqrt((double)ct_dim(q, -2));
    return ct_scale(bits >> SCORES_TURNED & 1 ? ct_matmul(k, ct_transpose(q, -1, -2))
                                              : ct_matmul(q, ct_transpose(k, -1, -2)),
                    scale);
}

/* bool (T, S), true where query i sees key j; NULL: everywhere. */
static ct_tensor *course_causal(ct_tensor *scores, bool causal, course_set bits) {
    const int64_t t = ct_dim(scores, -2), s = ct_dim(scores, -1);
    bool seen[4096], keep;
    if (bits >> CAUSAL_IGNORED & 1) causal = false;
    else if (bits >> CAUSAL_FORCED & 1) causal = true;
    if (!causal) return NULL;
    if (!(bits & (COURSE_BIT(CAUSAL_STRICT) | COURSE_BIT(CAUSAL_FUTURE) | COURSE_BIT(CAUSAL_ONE_MORE) |
                  COURSE_BIT(CAUSAL_AT_END))) ||
        t * s > 4096)
        return ct_causal_mask(ct_context_of(scores), t, s);
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < s; j++) {
            keep = j <= i;
            if (bits >> CAUSAL_AT_END & 1) keep = j <= i + s - t;
            if (bits >> CAUSAL_ONE_MORE & 1) keep = j <= i + 1;
            if (bits >> CAUSAL_STRICT & 1) keep = j < i;
            if (bits >> CAUSAL_FUTURE & 1) keep = bits >> CAUSAL_STRICT & 1 ? j > i : j >= i;
            seen[i * s + j] = keep;
        }
    return ct_from_bool(ct_context_of(scores), CT_SHAPE(t, s), seen);
}

/* Numbers before the division, and their sum: softmax with a maximum taken off or not. */
static ct_tensor *course_exponentials(ct_tensor *s, ct_tensor *seen, course_set bits) {
    ct_tensor *from = seen ? ct_masked_fill(s, ct_logical_not(seen), -INFINITY) : s;
    ct_tensor *max = ct_max(ct_detach(from), CT_DIMS(-1), true);
    if (bits >> NO_MAXIMUM & 1) max = ct_scale(max, 0);
    if (bits >> MAXIMUM_FROM_ZERO & 1) max = ct_relu(max);
    ct_tensor *e = ct_exp(ct_sub(s, max));
    return seen ? ct_masked_fill(e, ct_logical_not(seen), 0) : e;
}

static ct_tensor *course_weights(ct_tensor *s, ct_tensor *seen, course_set bits) {
    ct_tensor *hidden = seen ? ct_logical_not(seen) : NULL;
    const unsigned fills = COURSE_BIT(HIDDEN_ZERO) | COURSE_BIT(HIDDEN_LARGE) | COURSE_BIT(HIDDEN_INFINITE);
    if (bits >> NO_SOFTMAX & 1) return hidden ? ct_masked_fill(s, hidden, 0) : s;
    if ((bits & (fills | COURSE_BIT(HIDDEN_ADDED) | COURSE_BIT(MASK_AFTER))) && !hidden) return NULL;
    if (bits >> OVER_QUERIES & 1) return ct_masked_softmax(s, seen, -2);
    if (bits & (COURSE_BIT(NO_MAXIMUM) | COURSE_BIT(MAXIMUM_FROM_ZERO) | COURSE_BIT(NOT_DIVIDED))) {
        ct_tensor *e = course_exponentials(s, seen, bits);
        if (bits >> NOT_DIVIDED & 1) return e;
        e = ct_div(e, ct_sum(e, CT_DIMS(-1), true));
        return seen ? ct_masked_fill(e, ct_logical_not(ct_any(seen, CT_DIMS(-1), true)), 0) : e;
    }
    if (bits >> MASK_AFTER & 1) return ct_masked_fill(ct_softmax(s, -1), hidden, 0);
    if (bits >> HIDDEN_ADDED & 1) {
        ct_tensor *zero = ct_scale(ct_detach(s), 0);
        return ct_softmax(ct_add(s, ct_masked_fill(zero, hidden, -1e9)), -1);
    }
    if (bits & fills) {
        s = ct_masked_fill(s, hidden,
                           bits >> HIDDEN_ZERO & 1    ? 0
                           : bits >> HIDDEN_LARGE & 1 ? -1e30
                                                      : -INFINITY);
        if (!(bits >> HIDDEN_INFINITE & 1)) return ct_softmax(s, -1);
        ct_tensor *e = ct_exp(ct_sub(s, ct_max(ct_detach(s), CT_DIMS(-1), true)));
        return ct_div(e, ct_sum(e, CT_DIMS(-1), true));
    }
    return ct_masked_softmax(s, seen, -1);
}

/* key_seen: bool that broadcasts to the scores, or NULL. */
static ct_tensor *course_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_tensor *key_seen,
                                   bool causal, course_set bits) {
    ct_tensor *s = course_scores(q, k, v, bits), *seen = s ? course_causal(s, causal, bits) : NULL;
    if (!s) return NULL;
    seen = seen && key_seen ? ct_logical_and(seen, key_seen) : key_seen ? key_seen : seen;
    ct_tensor *weights = course_weights(s, seen, bits);
    if (!weights) return NULL;
    if (bits >> SCALE_AFTER & 1) weights = ct_scale(weights, 1 / sqrt((double)ct_dim(q, -1)));
    if (bits >> WEIGHTS_TURNED & 1) weights = ct_transpose(weights, -1, -2);
    if (bits >> QUERIES_FOR_VALUES & 1) v = q;
    return ct_matmul(weights, bits >> KEYS_FOR_VALUES & 1 ? k : v);
}

#endif
