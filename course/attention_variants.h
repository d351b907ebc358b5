/* Attention of one head (..., T, d) as exercises 06, 07 and 10 define it, and variants of it with
 * mistakes. */
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
    FIRST_KEY_LOST,
    LAST_KEY_LOST,
    KEYS_AS_QUERIES,
    FIRST_NOT_DIVIDED,
    LAST_NOT_DIVIDED,
    SUM_WITHOUT_FIRST,
    SUM_WITHOUT_LAST,
    SUM_GOES_ON,
    SUM_OF_ALL,
    SUM_OF_SO_FAR,
    DIVIDED_BY_KEYS,
    SOFTMAX_TWICE,
    NEGATED_SCORES,
    EQUAL_WEIGHTS,
    LARGEST_ALONE,
    SIGMOID_WEIGHTS,
    DIAGONAL,
    CAUSAL_FROM_END,
    ROOT_OF_SUM,
    SUM_OF_LAST,
    SCORE_OF_LAST,
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
    [FIRST_KEY_LOST] = {"when the first key is left out"},                                         \
    [LAST_KEY_LOST] = {"when the last key is left out"},                                           \
    [KEYS_AS_QUERIES] = {"when the loop over keys ends with the number of queries"},               \
    [FIRST_NOT_DIVIDED] = {"when a row's first weight is not divided by the sum"},                 \
    [LAST_NOT_DIVIDED] = {"when a row's last weight is not divided by the sum"},                   \
    [SUM_WITHOUT_FIRST] = {"when the sum that divides the weights lacks the first key"},           \
    [SUM_WITHOUT_LAST] = {"when the sum that divides the weights lacks the last key"},             \
    [SUM_GOES_ON] = {"when the sum of weights is not set back to 0 for each query"},               \
    [SUM_OF_ALL] = {"when weights are divided by the sum of all queries' weights"},                \
    [SUM_OF_SO_FAR] = {"when each weight is divided by the sum as it is so far"},                  \
    [DIVIDED_BY_KEYS] = {"when weights are divided by the number of keys, and not by their sum"},  \
    [SOFTMAX_TWICE] = {"when softmax is applied twice"},                                           \
    [NEGATED_SCORES] = {"with the sign of the scores reversed"},                                   \
    [EQUAL_WEIGHTS] = {"when all keys that are seen have the same weight", true},                  \
    [LARGEST_ALONE] = {"when only the key of the largest score has a weight", true},               \
    [SIGMOID_WEIGHTS] = {"with a sigmoid of each score in place of the softmax"},                  \
    [DIAGONAL] = {"when a causal query i sees key i alone"},                                       \
    [CAUSAL_FROM_END] = {"when a causal query i sees keys j <= S - 1 - i: counted from the end"},  \
    [ROOT_OF_SUM] = {"when weights are divided by the root of the sum of their squares"},          \
    [SUM_OF_LAST] = {"when the sum that divides the weights is the last key's e^s alone: "         \
                     "= or =+ in place of +="},                                                    \
    [SCORE_OF_LAST] = {"when a score is the product of the last columns alone: = or =+ in "        \
                       "place of +="},                                                             \
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
    if (bits >> NEGATED_SCORES & 1) scale = -scale;
    if (bits >> SCORE_OF_LAST & 1) {
        q = ct_contiguous(ct_narrow(q, -1, ct_dim(q, -1) - 1, 1));
        k = ct_contiguous(ct_narrow(k, -1, ct_dim(k, -1) - 1, 1));
    }
    return ref_scale(bits >> SCORES_TURNED & 1 ? ref_matmul(k, ct_transpose(q, -1, -2))
                                               : ref_matmul(q, ct_transpose(k, -1, -2)),
                     scale);
}

/* A bool mask (T, S), true where query i sees key j. NULL means that each query sees all keys. */
static ct_tensor *course_causal(ct_tensor *scores, bool causal, course_set bits) {
    const int64_t t = ct_dim(scores, -2), s = ct_dim(scores, -1);
    bool seen[4096], keep;
    if (bits >> CAUSAL_IGNORED & 1) causal = false;
    else if (bits >> CAUSAL_FORCED & 1) causal = true;
    if (!causal) return NULL;
    if (!(bits &
          (COURSE_BIT(CAUSAL_STRICT) | COURSE_BIT(CAUSAL_FUTURE) | COURSE_BIT(CAUSAL_ONE_MORE) |
           COURSE_BIT(CAUSAL_AT_END) | COURSE_BIT(DIAGONAL) | COURSE_BIT(CAUSAL_FROM_END))) ||
        t * s > 4096)
        return ref_causal_mask(ct_context_of(scores), t, s);
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < s; j++) {
            keep = j <= i;
            if (bits >> CAUSAL_AT_END & 1) keep = j <= i + s - t;
            if (bits >> CAUSAL_ONE_MORE & 1) keep = j <= i + 1;
            if (bits >> CAUSAL_STRICT & 1) keep = j < i;
            if (bits >> CAUSAL_FUTURE & 1) keep = bits >> CAUSAL_STRICT & 1 ? j > i : j >= i;
            if (bits >> DIAGONAL & 1) keep = j == i;
            if (bits >> CAUSAL_FROM_END & 1) keep = j <= s - 1 - i;
            seen[i * s + j] = keep;
        }
    return ct_from_bool(ct_context_of(scores), CT_SHAPE(t, s), seen);
}

/* The exponentials of a softmax, before the division by their sum. A maximum is subtracted from the
 * scores first, or not. */
static ct_tensor *course_exponentials(ct_tensor *s, ct_tensor *seen, course_set bits) {
    ct_tensor *from = seen ? ref_masked_fill(s, ref_logical_not(seen), -INFINITY) : s;
    ct_tensor *max = ref_max(ct_detach(from), CT_DIMS(-1), true);
    if (bits >> NO_MAXIMUM & 1) max = ref_scale(max, 0);
    if (bits >> MAXIMUM_FROM_ZERO & 1) max = ref_relu(max);
    ct_tensor *e = ref_exp(ref_sub(s, max));
    return seen ? ref_masked_fill(e, ref_logical_not(seen), 0) : e;
}

#define COURSE_OTHER_SUMS                                                                          \
    (COURSE_BIT(FIRST_NOT_DIVIDED) | COURSE_BIT(LAST_NOT_DIVIDED) |                                \
     COURSE_BIT(SUM_WITHOUT_FIRST) | COURSE_BIT(SUM_WITHOUT_LAST) | COURSE_BIT(SUM_GOES_ON) |      \
     COURSE_BIT(SUM_OF_ALL) | COURSE_BIT(SUM_OF_SO_FAR) | COURSE_BIT(DIVIDED_BY_KEYS) |            \
     COURSE_BIT(SOFTMAX_TWICE) | COURSE_BIT(EQUAL_WEIGHTS) | COURSE_BIT(LARGEST_ALONE) |           \
     COURSE_BIT(SIGMOID_WEIGHTS) | COURSE_BIT(ROOT_OF_SUM) | COURSE_BIT(SUM_OF_LAST))

/* Wrong weights, which are divided by another sum or are not exponentials. */
static ct_tensor *course_other_sums(ct_tensor *s, ct_tensor *seen, course_set bits) {
    const int64_t keys = ct_dim(s, -1);
    ct_tensor *hidden = seen ? ref_logical_not(seen) : NULL;
    if (bits >> SOFTMAX_TWICE & 1)
        return ref_masked_softmax(ref_masked_softmax(s, seen, -1), seen, -1);
    if (bits >> EQUAL_WEIGHTS & 1) return ref_masked_softmax(ref_scale(s, 0), seen, -1);
    if (bits >> SIGMOID_WEIGHTS & 1)
        return hidden ? ref_masked_fill(ref_sigmoid(s), hidden, 0) : ref_sigmoid(s);
    if (bits >> LARGEST_ALONE & 1)
        return ref_one_hot(ref_argmax(hidden ? ref_masked_fill(s, hidden, -INFINITY) : s, -1),
                           keys);
    ct_tensor *e = course_exponentials(s, seen, bits), *counted = e;
    if (keys > 1 && bits >> SUM_WITHOUT_FIRST & 1) counted = ct_narrow(e, -1, 1, keys - 1);
    if (keys > 1 && bits >> SUM_WITHOUT_LAST & 1) counted = ct_narrow(e, -1, 0, keys - 1);
    if (bits >> SUM_OF_LAST & 1) counted = ct_narrow(e, -1, keys - 1, 1);
    ct_tensor *sum = ref_sum(counted, CT_DIMS(-1), true);
    if (bits >> SUM_OF_LAST & 1) /* who divides by no 0 leaves the weights as they are */
        sum = ref_where(ref_eq(sum, ct_zeros(ct_context_of(s), CT_F64, CT_SCALAR)),
                        ct_ones(ct_context_of(s), CT_F64, CT_SCALAR), sum);
    if (bits >> ROOT_OF_SUM & 1) sum = ref_sqrt(ref_sum(ref_mul(e, e), CT_DIMS(-1), true));
    if (bits >> SUM_OF_ALL & 1) sum = ref_sum(sum, CT_ALL, true);
    if (bits >> SUM_OF_SO_FAR & 1) sum = ref_cumsum(e, -1);
    if (bits >> SUM_GOES_ON & 1)
        sum = ct_reshape(ref_cumsum(ct_reshape(sum, CT_SHAPE(-1)), 0), ct_shape_of(sum));
    if (bits >> DIVIDED_BY_KEYS & 1) return ref_scale(e, 1 / (double)keys);
    ct_tensor *p = ref_div(e, sum);
    if (hidden) p = ref_masked_fill(p, hidden, 0);
    if (bits >> LAST_NOT_DIVIDED & 1)
        p = ref_cat((ct_tensor *[]){ct_narrow(p, -1, 0, keys - 1), ct_narrow(e, -1, keys - 1, 1)},
                    2, -1);
    if (bits >> FIRST_NOT_DIVIDED & 1)
        p = ref_cat((ct_tensor *[]){ct_narrow(e, -1, 0, 1), ct_narrow(p, -1, 1, keys - 1)}, 2, -1);
    return p;
}

static ct_tensor *course_weights(ct_tensor *s, ct_tensor *seen, course_set bits) {
    ct_tensor *hidden = seen ? ref_logical_not(seen) : NULL;
    const course_set fills =
        COURSE_BIT(HIDDEN_ZERO) | COURSE_BIT(HIDDEN_LARGE) | COURSE_BIT(HIDDEN_INFINITE);
    if (bits >> NO_SOFTMAX & 1) return hidden ? ref_masked_fill(s, hidden, 0) : s;
    if ((bits & (fills | COURSE_BIT(HIDDEN_ADDED) | COURSE_BIT(MASK_AFTER))) && !hidden)
        return NULL;
    if (bits >> OVER_QUERIES & 1) return ref_masked_softmax(s, seen, -2);
    if (bits & (COURSE_BIT(NO_MAXIMUM) | COURSE_BIT(MAXIMUM_FROM_ZERO) | COURSE_BIT(NOT_DIVIDED))) {
        ct_tensor *e = course_exponentials(s, seen, bits);
        if (bits >> NOT_DIVIDED & 1) return e;
        e = ref_div(e, ref_sum(e, CT_DIMS(-1), true));
        return seen ? ref_masked_fill(e, ref_logical_not(ref_any(seen, CT_DIMS(-1), true)), 0) : e;
    }
    if (bits & COURSE_OTHER_SUMS) return course_other_sums(s, seen, bits);
    if (bits >> MASK_AFTER & 1) return ref_masked_fill(ref_softmax(s, -1), hidden, 0);
    if (bits >> HIDDEN_ADDED & 1) {
        ct_tensor *zero = ref_scale(ct_detach(s), 0);
        return ref_softmax(ref_add(s, ref_masked_fill(zero, hidden, -1e9)), -1);
    }
    if (bits & fills) {
        s = ref_masked_fill(s, hidden,
                            bits >> HIDDEN_ZERO & 1    ? 0
                            : bits >> HIDDEN_LARGE & 1 ? -1e30
                                                       : -INFINITY);
        if (!(bits >> HIDDEN_INFINITE & 1)) return ref_softmax(s, -1);
        ct_tensor *e = ref_exp(ref_sub(s, ref_max(ct_detach(s), CT_DIMS(-1), true)));
        return ref_div(e, ref_sum(e, CT_DIMS(-1), true));
    }
    return ref_masked_softmax(s, seen, -1);
}

/* key_seen: bool that broadcasts to the scores, or NULL. */
static ct_tensor *course_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_tensor *key_seen,
                                   bool causal, course_set bits) {
    int64_t first = bits >> FIRST_KEY_LOST & 1, keys = ct_dim(k, -2) - (bits >> LAST_KEY_LOST & 1);
    if (bits >> KEYS_AS_QUERIES & 1 && keys > ct_dim(q, -2)) keys = ct_dim(q, -2);
    if (first > 0 || keys < ct_dim(k, -2)) {
        if (first >= keys || (causal && first > 0)) return NULL;
        k = ct_narrow(k, -2, first, keys - first), v = ct_narrow(v, -2, first, keys - first);
        if (key_seen) key_seen = ct_narrow(key_seen, -1, first, keys - first);
    }
    ct_tensor *s = course_scores(q, k, v, bits), *seen = s ? course_causal(s, causal, bits) : NULL;
    if (!s) return NULL;
    seen = seen && key_seen ? ref_logical_and(seen, key_seen) : key_seen ? key_seen : seen;
    ct_tensor *weights = course_weights(s, seen, bits);
    if (!weights) return NULL;
    if (bits >> SCALE_AFTER & 1) weights = ref_scale(weights, 1 / sqrt((double)ct_dim(q, -1)));
    if (bits >> WEIGHTS_TURNED & 1) weights = ct_transpose(weights, -1, -2);
    if (bits >> QUERIES_FOR_VALUES & 1) v = q;
    return ref_matmul(weights, bits >> KEYS_FOR_VALUES & 1 ? k : v);
}

/* Explains wrong weights: with a unit matrix for the values, the result of attention is its
 * weights. `in` are queries, keys and values (B, S, e). `said` becomes a sentence about the first
 * query whose weights are wrong. */
__attribute__((unused)) static void course_explain_weights(ct_fn yours, ct_fn right, void *arg,
                                                           ct_tensor *const *in, int n, char *said,
                                                           size_t size) {
    const int64_t batch = ct_dim(in[2], 0), keys = ct_dim(in[2], 1), queries = ct_dim(in[0], 1);
    ct_context *context = ct_context_of(in[0]);
    ct_tensor *with_unit[8];
    if (n > 8) return;
    for (int i = 0; i < n; i++) with_unit[i] = in[i];
    ct_tensor *one = ct_zeros(context, CT_F64, CT_SHAPE(batch, keys, keys));
    for (int64_t e = 0; e < batch * keys; e++) ct_data_f64(one)[e * keys + e % keys] = 1;
    with_unit[2] = one;
    ct_tensor *weights = yours(with_unit, n, arg), *must = right(with_unit, n, arg);
    if (!weights || !must || ct_numel(weights) != ct_numel(must)) return;
    const double *p = ct_data_f64(ct_contiguous(weights)), *q = ct_data_f64(ct_contiguous(must));
    bool unknown = false;
    for (int64_t row = 0; row < batch * queries; row++, p += keys, q += keys) {
        double sum = 0, wrong = 0;
        int64_t extra = -1, missing = -1, largest = 0, others = 0;
        for (int64_t j = 0; j < keys; j++) {
            sum += p[j], wrong = fmax(wrong, fabs(p[j] - q[j]));
            if (q[j] == 0 && p[j] != 0 && extra < 0) extra = j;
            if (p[j] == 0 && q[j] > 1e-9 && missing < 0) missing = j;
            if (q[j] > q[largest]) largest = j;
        }
        unknown = unknown || !isfinite(sum);
        if (!(wrong > 1e-9) || !isfinite(sum)) continue;
        const int at = snprintf(said, size,
                                "with a unit matrix for v, which shows the weights: "
                                "query %d of sequence %d ",
                                (int)(row % queries), (int)(row / queries));
        said += at, size -= (size_t)at;
        double ratio = NAN;
        bool same = true;
        for (int64_t j = 0; j < keys; j++) {
            if (j == largest || q[j] <= 0 || q[j] >= q[largest] * (1 - 1e-9)) continue;
            const double here = log(p[j] / p[largest]) / log(q[j] / q[largest]);
            if (others++ == 0) ratio = here;
            else same = same && fabs(here - ratio) < 1e-7;
        }
        if (extra >= 0)
            snprintf(said, size, "gives key %d the weight %.4g, and must not see it", (int)extra,
                     p[extra]);
        else if (missing >= 0)
            snprintf(said, size, "gives key %d no weight, and must see it", (int)missing);
        else if (fabs(sum - 1) > 1e-9)
            snprintf(said, size, "has weights that sum to %.8g, and not to 1%s", sum,
                     same && fabs(ratio - 1) < 1e-7 ? "; but for that they are right" : "");
        else if (same && others > 1 && isfinite(ratio))
            snprintf(said, size, "has the weights of scores that are %.8g times what they must be",
                     ratio);
        else
            snprintf(said, size,
                     "gives key %d the weight %.8g and must %.8g; weights sum to 1: look "
                     "at the scores",
                     (int)largest, p[largest], q[largest]);
        return;
    }
    if (!unknown)
        snprintf(said, size,
                 "the weights are right, as a unit matrix for v shows: look at how they "
                 "multiply v");
}

#endif
