/* softmax, logsumexp and cross-entropy, of rows and of columns. All subtract the maximum m:
 *
 *     softmax = e^(x - m) / sum e^(x - m)
 *
 * A function t_... is a term, which row_map and the sums of row_sum_tmpl.h apply to the vectors of
 * a row. */
#ifndef CTI_KERNELS_SOFTMAX_TMPL_H
#define CTI_KERNELS_SOFTMAX_TMPL_H

#include "double_tmpl.h"
#include "reduce_tmpl.h"
#include "vmath.h"

INLINE vec t_exp(operands o) { return v_exp(o.a - o.shift); }
INLINE vec t_scale(operands o) { return o.a * o.scale; }
INLINE vec t_shift(operands o) { return (o.a - o.shift) - o.rest; }

/* ---- log sum e^(x - max) and 1 / sum e^(x - max) ---- */

/* Elements equal to the maximum have the term 1. They are counted separately, and log1p(sum - 1)
 * takes the sum without one of them. So if all other terms are tiny, as in the loss of a confident
 * prediction, they keep their digits. */
INLINE vec t_largest(operands o) { return keep(o.a == o.shift, splat(1)); }
INLINE vec t_exp_smaller(operands o) { return keep(o.a != o.shift, v_exp(o.a - o.shift)); }
INLINE triple t_largest_and_rest(operands o) { return (triple){{t_largest(o), t_exp_smaller(o)}}; }
static double log_sum(int64_t n, const stored *x, real *max, double *inverse) {
    *max = row_max(n, x);
    if (isnan(*max) || isinf(*max)) return *inverse = NAN;
    double sum[3];
    sum_triples(2, n, &(terms){.a = x, .shift = splat(*max)}, t_largest_and_rest, sum);
    return double_log_1p(sum[0] - 1 + sum[1], inverse);
}

/* The same for up to LANES rows at once, which are dense and have at most TRIPLE_BLOCK elements
 * each: their sums are folded together, and each row has a lane. */
static void log_sums(int count, int64_t n, const stored *x, double sum[LANES], real max[LANES],
                     double inverse[LANES]) {
    vec part[LANES] = {{0}}, largest[LANES] = {{0}}, rest[LANES] = {{0}};
    for (int l = 0; l < count; l++) part[l] = max_vector(n, &(terms){.a = x + l * n}, t_a);
    store(max, fold_rows(part, v_max));
    for (int l = 0; l < count; l++) {
        const terms t = {.a = x + l * n, .shift = splat(max[l])};
        const triple p = triple_block(2, 0, n, &t, t_largest_and_rest);
        largest[l] = p.v[0], rest[l] = p.v[1];
    }
    const vec ones = fold_rows(largest, v_plus), others = fold_rows(rest, v_plus);
    for (int l = 0; l < LANES; l++)
        sum[l] = double_log_1p((double)ones[l] - 1 + (double)others[l], &inverse[l]);
}

/* ---- softmax ---- */

static void row_softmax(int64_t n, const void *x, void *y) {
    row_map(n, &(terms){.a = x, .shift = splat(row_max(n, x))}, y, t_exp);
    row_map(n, &(terms){.a = y, .scale = splat(1 / row_sum(n, y))}, y, t_scale);
}

/* Softmax of each column. The n elements of a column are `stride` apart; QUAD columns are computed
 * at once. */
static void columns_softmax(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    for (int64_t j = 0; j < inner; j += QUAD) {
        const stored *from = (const stored *)x + j;
        stored *to = (stored *)y + j;
        const int64_t width = inner - j < QUAD ? inner - j : QUAD;
        for (int64_t k = 0; k < width; k += LANES) {
            vec top = load_part(from + k, width - k);
            for (int64_t i = 1; i < n; i++)
                top = v_max(top, load_part(from + i * stride + k, width - k));
            for (int64_t i = 0; i < n; i++)
                store_part(to + i * stride + k,
                           v_exp(load_part(from + i * stride + k, width - k) - top), width - k);
        }
        const quad sum = sum_quads(n, stride, width, &(terms){.a = to}, t_a);
        const vec scale[4] = {1 / sum.v0, 1 / sum.v1, 1 / sum.v2, 1 / sum.v3};
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < width; k += LANES) {
                stored *at = to + i * stride + k;
                store_part(at, load_part(at, width - k) * scale[k / LANES], width - k);
            }
    }
}

/* dx = y (g - <g, y>), of the row y and its cotangent g */
INLINE vec t_softmax_backward(operands o) {
    const vec y = o.a, g = o.b;
    return y * (g - o.shift);
}
/* The same, but dx is 0 for a weight y of 0, which every hidden element has, even if the row has a
 * NaN. */
INLINE vec t_masked_softmax_backward(operands o) {
    const vec y = o.a, dx = t_softmax_backward(o);
    return keep((y != REAL(0.0)) | (dx == dx), dx);
}
INLINE void row_softmax_slopes(int64_t n, const void *y, const void *g, void *dx, term *f) {
    terms t = {.a = y, .b = g};
    t.shift = splat(sum_terms(n, &t, t_dot));
    row_map(n, &t, dx, f);
}
static void row_softmax_backward(int64_t n, const void *y, const void *g, void *dx) {
    row_softmax_slopes(n, y, g, dx, t_softmax_backward);
}
static void row_masked_softmax_backward(int64_t n, const void *y, const void *g, void *dx) {
    row_softmax_slopes(n, y, g, dx, t_masked_softmax_backward);
}

static void columns_softmax_backward(int64_t n, int64_t inner, const void *y, const void *g,
                                     int64_t stride, void *dx) {
    for (int64_t j = 0; j < inner; j += QUAD) {
        const terms t = {.a = (const stored *)y + j, .b = (const stored *)g + j};
        stored *to = (stored *)dx + j;
        const int64_t width = inner - j < QUAD ? inner - j : QUAD;
        const quad sum = sum_quads(n, stride, width, &t, t_dot);
        const vec dot[4] = {sum.v0, sum.v1, sum.v2, sum.v3};
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < width; k += LANES) {
                const int64_t at = i * stride + k;
                store_part(to + at,
                           load_part(t.a + at, width - k) *
                               (load_part(t.b + at, width - k) - dot[k / LANES]),
                           width - k);
            }
    }
}

static void row_log_softmax(int64_t n, const void *x, void *y) {
    if (n <= 0) return;
    real max;
    double inverse;
    const double sum = log_sum(n, x, &max, &inverse);
    row_map(n, &(terms){.a = x, .shift = splat(max), .rest = splat((real)sum)}, y, t_shift);
}

/* dx = g - e^y sum g */
INLINE vec t_log_softmax_backward(operands o) {
    const vec y = o.a, g = o.b;
    return g - v_exp(y) * o.scale;
}
static void row_log_softmax_backward(int64_t n, const void *y, const void *g, void *dx) {
    row_map(n, &(terms){.a = y, .b = g, .scale = splat(row_sum(n, g))}, dx, t_log_softmax_backward);
}

/* x for each element whose mask is true, and -inf for the others, whose x may be NaN. */
INLINE vec kept(const stored *x, const bool *mask, int64_t i, int64_t n) {
    return blend(load_mask(mask + i, n - i), load_part(x + i, n - i), splat(-(real)INFINITY));
}

static void row_masked_softmax(int64_t n, const void *x, const bool *mask, int64_t sk, void *y) {
    const stored *from = x;
    stored *to = y;
    vec top = splat(-(real)INFINITY);
    if (sk)
        for (int64_t i = 0; i < n; i += LANES) top = v_max(top, kept(from, mask, i, n));
    else if (n > 0 && *mask) top = splat(row_max(n, from));
    const real max = max_lanes(top);
    if (max == -(real)INFINITY) {
        memset(to, 0, (size_t)n * sizeof(stored));
    } else if (!sk) {
        row_softmax(n, x, y);
    } else {
        for (int64_t i = 0; i < n; i += LANES)
            store_part(to + i, v_exp(kept(from, mask, i, n) - max), n - i);
        const real scale = 1 / row_sum(n, to);
        for (int64_t i = 0; i < n; i += LANES)
            store_part(to + i, keep(load_mask(mask + i, n - i), load_part(to + i, n - i) * scale),
                       n - i);
    }
}

/* ---- logsumexp ---- */

/* Forward saves two numbers for each row, from which backward computes the softmax again: the
 * maximum and 1 / sum. Their combination max + log sum would be rounded to the last place of a
 * large maximum. */
static void row_logsumexp(int64_t rows, int64_t n, const void *x_, void *y_, void *max_,
                          void *inverse_) {
    const stored *x = x_;
    stored *y = y_;
    real *to_max = max_, *to_inverse = inverse_, max[LANES] = {-(real)INFINITY};
    double sum[LANES] = {0}, inverse[LANES] = {1};
    const int64_t step = rows > 1 && n > 0 && n <= TRIPLE_BLOCK ? LANES : 1;
    for (int64_t r = 0; r < rows; r += step) {
        const int count = rows - r < step ? (int)(rows - r) : (int)step;
        if (step > 1) log_sums(count, n, x + r * n, sum, max, inverse);
        else if (n > 0) sum[0] = log_sum(n, x + r * n, max, inverse);
        for (int l = 0; l < count; l++) {
            const bool one = isinf(max[l]);
            put_one(y + r + l, one ? max[l] : (real)((double)max[l] + sum[l]));
            if (to_max) to_max[r + l] = max[l], to_inverse[r + l] = one ? 1 : (real)inverse[l];
        }
    }
}

/* dx = g e^(x - max) / sum, with scale = g / sum */
INLINE vec t_logsumexp_backward(operands o) { return o.scale * t_exp(o); }
static void row_logsumexp_backward(int64_t n, const void *x, const void *max_, const void *inverse,
                                   const void *g, void *dx) {
    const real max = *(const real *)max_, scale = get_one(g) * *(const real *)inverse;
    const terms t = {.a = x, .shift = splat(max), .scale = splat(scale)};
    if (max == -(real)INFINITY) memset(dx, 0, (size_t)n * sizeof(stored));
    else row_map(n, &t, dx, t_logsumexp_backward);
}

/* ---- cross-entropy ---- */

/* With s the smoothing and lse = m + log sum e^(x - m):
 *
 *     loss = lse - (1 - s) x[target] - s mean(x)
 *          = log sum e^(x - m) + (1 - s) (m - x[target]) + s mean(m - x)
 *
 * The second form is computed, because large logits do not cancel in it. */
INLINE vec t_below(operands o) { return o.shift - o.a; }
static void row_cross_entropy(int64_t rows, int64_t n, const void *x, const int64_t *target,
                              double smoothing, void *loss, void *max_, void *inverse) {
    const stored *from = x;
    stored *losses = loss;
    /* LANES rows are computed at once: their maxima and sums are folded together */
    for (int64_t r = 0; r < rows; r += LANES) {
        const int count = rows - r < LANES ? (int)(rows - r) : LANES;
        vec part[LANES] = {{0}}, rest[LANES] = {{0}}, below[LANES] = {{0}};
        for (int l = 0; l < count; l++)
            part[l] = max_vector(n, &(terms){.a = from + (r + l) * n}, t_a);
        const vec top = fold_rows(part, v_max);
        for (int l = 0; l < count; l++) {
            const terms t = {.a = from + (r + l) * n, .shift = splat(top[l])};
            part[l] = sum_vector(n, &t, t_largest);
            rest[l] = sum_vector(n, &t, t_exp_smaller);
            if (smoothing != 0) below[l] = sum_vector(n, &t, t_below);
        }
        const vec largest = fold_rows(part, v_plus), smaller = fold_rows(rest, v_plus),
                  under = fold_rows(below, v_plus);
        double sum[LANES], share[LANES];
        vec shares;
        for (int l = 0; l < LANES; l++) {
            sum[l] = double_log_1p((double)largest[l] - 1 + (double)smaller[l], &share[l]);
            if (!(fabs((double)top[l]) <= (sizeof(real) == 4 ? (double)FLT_MAX : DBL_MAX)))
                sum[l] = share[l] = NAN; /* then the gradient is NaN as well as the loss */
        }
        for (int l = 0; l < LANES; l++) shares[l] = (real)share[l];
        store_part((real *)max_ + r, top, count);
        store_part((real *)inverse + r, shares, count);
        for (int l = 0; l < count; l++) {
            const double max = (double)top[l];
            const bool counts = target[r + l] >= 0;
            const double y =
                counts ? sum[l] + (1 - smoothing) *
                                      (max - (double)get_one(from + (r + l) * n + target[r + l]))
                       : 0;
            put_one(losses + r + l,
                    (real)(counts && smoothing != 0 ? y + smoothing * (double)under[l] / (double)n
                                                    : y));
        }
    }
}

/* dx = scale ((a + more) softmax(x) - b onehot - c)
 *    = (scale (a + more) / sum) e^(x - max) - scale (b onehot + c)
 *
 * An operand's scale is scale (a + more) / sum, and its rest is scale c. More than two terms may
 * cancel at the target, where dx is then computed in f64; a p - c - b is exactly 0 for a single
 * class, p being 1. */
INLINE vec t_cross_entropy_backward(operands o) { return o.scale * t_exp(o) - o.rest; }
static void row_cross_entropy_backward(int64_t n, const void *x, int64_t target, const void *max,
                                       const void *inverse_, const cti_loss_factors *f, void *dx) {
    const double inverse = (double)*(const real *)inverse_;
    const bool two_terms = f->each == 0 && f->more == 0 && f->softmax == f->target;
    const terms t = {.a = x,
                     .shift = splat(*(const real *)max),
                     .rest = splat((real)(f->scale * f->each)),
                     .scale = splat((real)(f->scale * (f->softmax + f->more) * inverse))};
    const real own =
        two_terms ? 0 : v_exp(splat(get_one(t.a + target)) - t.shift)[0]; /* x may be dx */
    const double p = (double)own * inverse,
                 sum = ((f->softmax * p - f->each) - f->target) + f->more * p;
    stored *to = (stored *)dx + target;
    row_map(n, &t, dx, t_cross_entropy_backward);
    put_one(to, two_terms ? get_one(to) - (real)(f->scale * f->target) : (real)(f->scale * sum));
}

#endif
