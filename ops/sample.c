/* sample: one index of each row of logits, drawn with probability softmax(logits / temperature)
 * among the candidates: top_k keeps the k largest logits, of these top_p keeps the smallest set
 * whose probabilities sum to at least p, and of these min_p keeps those whose probability is at
 * least min_p times the largest. Holtzman et al. 2019, arXiv:1904.09751; Nguyen et al. 2024,
 * arXiv:2407.01082 */
#include "support/op.h"
#include "../src/core/isa.h"
#include "../src/kernels/random.h"

#include <math.h>

typedef struct {
    double logit, weight;
    int64_t index;
} candidate;

/* Orders candidates by logit, largest first, then by index. This is a total order, so that the draw
 * does not depend on the sorting algorithm. */
static bool sample_before(const candidate *a, const candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->index < b->index);
}

/* A binary heap: no candidate is sample_before() its parent. */
static void sample_sift_down(candidate *heap, int64_t n, int64_t i) {
    const candidate moved = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && sample_before(&heap[child + 1], &heap[child])) child++;
        if (!sample_before(&heap[child], &moved)) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* Heap-selects the k first in that order and moves them to the end of c, in reverse order. */
static void sample_select_first(candidate *c, int64_t n, int64_t k) {
    for (int64_t i = n / 2 - 1; i >= 0; i--) sample_sift_down(c, n, i);
    for (int64_t last = n - 1; last >= n - k; last--) {
        const candidate top = c[0];
        c[0] = c[last];
        c[last] = top;
        sample_sift_down(c, last, 0);
    }
}

static int64_t sample_largest(const double *logit, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logit[i] > logit[best]) best = i;
    return best;
}

/* Returns the index at which the running sum of weights passes u times their total, u in [0, 1). */
static int64_t sample_draw(const double *logit, int64_t n, const ct_sample_opts *opts, double u,
                           candidate *c) {
    const double max = logit[sample_largest(logit, n)];
    for (int64_t i = 0; i < n; i++) /* x == max gives weight 1 also to +inf, whose x - max is NaN */
        c[i] = (candidate){logit[i],
                           logit[i] == max ? 1 : exp((logit[i] - max) / opts->temperature), i};
    const bool some = opts->top_k > 0 && opts->top_k < n,
               nucleus = opts->top_p > 0 && opts->top_p < 1;
    int64_t begin = 0;
    double total = 0;
    if (some || nucleus) {
        begin = n - (some ? opts->top_k : n);
        sample_select_first(c, n, n - begin);
    }
    for (int64_t i = n - 1; i >= begin; i--) total += c[i].weight;
    if (nucleus) {
        double reached = 0;
        int64_t i = n;
        while (i > begin && reached < opts->top_p * total) reached += c[--i].weight;
        begin = i;
        total = reached;
    }
    if (opts->min_p > 0) { /* the largest weight is 1 */
        total = 0;
        for (int64_t i = n - 1; i >= begin; i--) {
            if (c[i].weight < opts->min_p) c[i].weight = 0;
            total += c[i].weight;
        }
    }
    double passed = 0;
    int64_t chosen = n - 1;
    for (int64_t i = n - 1; i >= begin && passed <= u * total; i--) {
        passed += c[i].weight;
        /* if rounding leaves the sum below u, the last candidate with a weight is chosen */
        if (c[i].weight > 0) chosen = i;
    }
    return c[chosen].index;
}

static bool sample_check(const ct_tensor *logits, const ct_sample_opts *opts, const int64_t *out,
                         int64_t n) {
    ct_context *context = logits->context;
    if (!cti_is_real(logits->dtype))
        return ct_fail(context, CT_ERR_DTYPE, "sample: takes f32 or f64, not %s",
                       cti_dtype_name(logits->dtype));
    if (logits->shape.ndim != 2 || logits->shape.dim[0] != n ||
        (n > 0 && logits->shape.dim[1] == 0))
        return ct_fail(context, CT_ERR_SHAPE, "sample: logits %s are not (n, V) for n = %lld",
                       SHAPE(logits->shape), (long long)n);
    if (!out && n > 0) return ct_fail(context, CT_ERR_ARGUMENT, "sample: out is NULL");
    if (!(opts->temperature >= 0) || isinf(opts->temperature))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "sample: the temperature is %g, must be finite and at least 0",
                       opts->temperature);
    if (opts->top_k < 0)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "sample: top_k is %lld, must be at least 0 (0: all)",
                       (long long)opts->top_k);
    if (!(opts->top_p >= 0 && opts->top_p <= 1))
        return ct_fail(context, CT_ERR_ARGUMENT, "sample: top_p is %g, not in [0, 1]", opts->top_p);
    if (!(opts->min_p >= 0 && opts->min_p <= 1))
        return ct_fail(context, CT_ERR_ARGUMENT, "sample: min_p is %g, not in [0, 1]", opts->min_p);
    return true;
}

static bool sample_check_row(ct_context *context, const double *logit, int64_t n, int64_t row) {
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logit[i]))
            return ct_fail(context, CT_ERR_ARGUMENT, "sample: the logit at (%lld, %lld) is NaN",
                           (long long)row, (long long)i);
        any |= logit[i] > -INFINITY;
    }
    return any || ct_fail(context, CT_ERR_ARGUMENT, "sample: every logit of row %lld is -inf",
                          (long long)row);
}

static bool sample_rows(const ct_tensor *logits, const ct_sample_opts *opts, int64_t *out,
                        int64_t n, double *values, candidate *c, double *u) {
    ct_context *context = logits->context;
    const int64_t size = logits->shape.dim[1];
    if (!ct_to_f64(logits, values, logits->numel)) return false;
    for (int64_t r = 0; r < n; r++)
        if (!sample_check_row(context, values + r * size, size, r)) return false;
    if (opts->temperature == 0) {
        for (int64_t r = 0; r < n; r++) out[r] = sample_largest(values + r * size, size);
        return true;
    }
    const ct_rng next = cti_rng_next(context);
    context->isa->of[CT_F64]->random->uniform(n, 0, (cti_random){next.seed, next.stream}, 0, 1, u);
    for (int64_t r = 0; r < n; r++) out[r] = sample_draw(values + r * size, size, opts, u[r], c);
    return true;
}

bool ct_sample(ct_tensor *logits, ct_sample_opts opts, int64_t *out, int64_t n) {
    if (!cti_tensor_ready(logits, "sample") || !sample_check(logits, &opts, out, n)) return false;
    ct_context *context = logits->context;
    const size_t values_size = cti_bytes(logits->numel, sizeof(double)),
                 u_size = cti_bytes(n, sizeof(double));
    const size_t c_size = cti_bytes(logits->shape.dim[1], sizeof(candidate));
    double *values = cti_take(context, values_size), *u = values ? cti_take(context, u_size) : NULL;
    candidate *c = u ? cti_take(context, c_size) : NULL;
    const bool done = c && sample_rows(logits, &opts, out, n, values, c, u);
    cti_give(context, c, c_size);
    cti_give(context, u, u_size);
    cti_give(context, values, values_size);
    return done;
}
