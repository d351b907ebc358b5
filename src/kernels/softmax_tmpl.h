/* softmax and its relatives, one row at a time. All subtract the maximum m:  softmax = e^(x - m) / sum e^(x - m). */
#ifndef CTI_KERNELS_SOFTMAX_TMPL_H
#define CTI_KERNELS_SOFTMAX_TMPL_H

#include "double_tmpl.h"
#include "reduce_tmpl.h"
#include "vmath.h"

INLINE vec t_exp(vec a, vec b, vec c, const terms *t) { (void)b; (void)c; return v_exp(a - t->s); }
INLINE vec t_scale(vec a, vec b, vec c, const terms *t) { (void)b; (void)c; return a * t->s; }
INLINE vec t_shift(vec a, vec b, vec c, const terms *t) { (void)b; (void)c; return (a - t->s) - t->t; }

/* log sum e^(x - max), max being x's. The largest terms, which are 1, are counted, and one of them is left to log1p: the loss of a sure
 * prediction keeps its digits. */
INLINE vec t_largest(vec a, vec b, vec c, const terms *t) { (void)b; (void)c; return keep(a == t->s, splat(1)); }
INLINE vec t_exp_smaller(vec a, vec b, vec c, const terms *t) { (void)b; (void)c; return keep(a != t->s, v_exp(a - t->s)); }
INLINE triple t_largest_and_rest(vec a, vec b, vec c, const terms *t) {
    return (triple){{t_largest(a, b, c, t), t_exp_smaller(a, b, c, t)}};
}
static double log_sum(int64_t n, const real *x, real *max) {
    *max = row_max(n, x);
    if (isnan(*max) || isinf(*max)) return NAN;
    double sum[3];
    sum_triples(2, n, &(terms){.a = x, .s = splat(*max)}, t_largest_and_rest, sum);
    return double_log_1p(sum[0] - 1 + sum[1]);
}

static void softmax(int64_t n, const void *x, void *y) {
    row(n, &(terms){.a = x, .s = splat(row_max(n, x))}, y, t_exp);
    row(n, &(terms){.a = y, .s = splat(1 / row_sum(n, y))}, y, t_scale);
}

/* The columns of n rows, which are stride apart. */
static void softmax_columns(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    for (int64_t j = 0; j < inner; j += QUAD) {
        const real *from = (const real *)x + j;
        real *to = (real *)y + j;
        const int64_t width = inner - j < QUAD ? inner - j : QUAD;
        for (int64_t k = 0; k < width; k += LANES) {
            vec top = load_part(from + k, width - k);
            for (int64_t i = 1; i < n; i++) top = v_max(top, load_part(from + i * stride + k, width - k));
            for (int64_t i = 0; i < n; i++) store_part(to + i * stride + k, v_exp(load_part(from + i * stride + k, width - k) - top), width - k);
        }
        const quad sum = sum_quads(n, stride, width, &(terms){.a = to}, t_a);
        const vec scale[4] = {1 / sum.v0, 1 / sum.v1, 1 / sum.v2, 1 / sum.v3};
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < width; k += LANES) {
                real *at = to + i * stride + k;
                store_part(at, load_part(at, width - k) * scale[k / LANES], width - k);
            }
    }
}

/* y (g - <g, y>) */
INLINE vec t_softmax_backward(vec y, vec g, vec c, const terms *t) { (void)c; return y * (g - t->s); }
static void softmax_backward(int64_t n, const void *y, const void *g, void *dx) {
    terms t = {.a = y, .b = g};
    t.s = splat(sum_terms(n, &t, t_dot));
    row(n, &t, dx, t_softmax_backward);
}

static void softmax_columns_backward(int64_t n, int64_t inner, const void *y, const void *g, int64_t stride, void *dx) {
    for (int64_t j = 0; j < inner; j += QUAD) {
        const terms t = {.a = (const real *)y + j, .b = (const real *)g + j};
        real *to = (real *)dx + j;
        const int64_t width = inner - j < QUAD ? inner - j : QUAD;
        const quad sum = sum_quads(n, stride, width, &t, t_dot);
        const vec dot[4] = {sum.v0, sum.v1, sum.v2, sum.v3};
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < width; k += LANES) {
                const int64_t at = i * stride + k;
                store_part(to + at, load_part(t.a + at, width - k) * (load_part(t.b + at, width - k) - dot[k / LANES]), width - k);
            }
    }
}

static void log_softmax(int64_t n, const void *x, void *y) {
    if (n <= 0) return;
    real max;
    const double sum = log_sum(n, x, &max);
    row(n, &(terms){.a = x, .s = splat(max), .t = splat((real)sum)}, y, t_shift);
}

/* g - e^y sum g */
INLINE vec t_log_softmax_backward(vec y, vec g, vec c, const terms *t) { (void)c; return g - v_exp(y) * t->s; }
static void log_softmax_backward(int64_t n, const void *y, const void *g, void *dx) {
    row(n, &(terms){.a = y, .b = g, .s = splat(row_sum(n, g))}, dx, t_log_softmax_backward);
}

static void logsumexp(int64_t n, const void *x, void *y) {
    real max = -(real)INFINITY, *to = y;
    const double sum = n > 0 ? log_sum(n, x, &max) : 0;
    *to = isinf(max) ? max : (real)(max + sum);
}

/* g e^(x - y) */
INLINE vec t_logsumexp_backward(vec x, vec b, vec c, const terms *t) { (void)b; (void)c; return t->t * v_exp(x - t->s); }
static void logsumexp_backward(int64_t n, const void *x, const void *y, const void *g, void *dx) {
    const real lse = *(const real *)y, cotangent = *(const real *)g;
    if (lse == -(real)INFINITY) memset(dx, 0, (size_t)n * sizeof(real));
    else row(n, &(terms){.a = x, .s = splat(lse), .t = splat(cotangent)}, dx, t_logsumexp_backward);
}

/* x where kept, else -inf, which no arithmetic has touched */
INLINE vec kept(const real *x, const bool *mask, int64_t i, int64_t n) {
    return select(load_mask(mask + i, n - i), load_part(x + i, n - i), splat(-(real)INFINITY));
}

static void masked_softmax(int64_t n, const void *x, const bool *mask, int64_t sk, void *y) {
    const real *from = x;
    real *to = y;
    vec top = splat(-(real)INFINITY);
    if (sk) for (int64_t i = 0; i < n; i += LANES) top = v_max(top, kept(from, mask, i, n));
    else if (n > 0 && *mask) top = splat(row_max(n, from));
    const real max = max_lanes(top);
    if (max == -(real)INFINITY) {
        memset(to, 0, (size_t)n * sizeof(real));
    } else if (!sk) {
        softmax(n, x, y);
    } else {
        for (int64_t i = 0; i < n; i += LANES) store_part(to + i, v_exp(kept(from, mask, i, n) - max), n - i);
        const real scale = 1 / row_sum(n, to);
        for (int64_t i = 0; i < n; i += LANES)
            store_part(to + i, keep(load_mask(mask + i, n - i), load_part(to + i, n - i) * scale), n - i);
    }
}

/* loss = lse - (1 - s) x[target] - s mean(x), with lse = m + log sum e^(x - m):
 *        log sum e^(x - m) + (1 - s) (m - x[target]) + s mean(m - x), where large logits do not cancel */
INLINE vec t_below(vec a, vec b, vec c, const terms *t) { (void)b; (void)c; return t->s - a; }
static void cross_entropy(int64_t rows, int64_t n, const void *x, const int64_t *target, double smoothing, void *loss, void *lse) {
    const real *from = x;
    real *losses = loss, *norms = lse;
    for (int64_t r = 0; r < rows; r += LANES) {   /* as many rows as there are lanes: their maxima and sums together */
        const int count = rows - r < LANES ? (int)(rows - r) : LANES;
        vec part[LANES] = {{0}}, rest[LANES] = {{0}}, below[LANES] = {{0}};
        for (int l = 0; l < count; l++) part[l] = max_vector(n, &(terms){.a = from + (r + l) * n}, t_a);
        const vec top = fold_rows(part, v_max);
        for (int l = 0; l < count; l++) {
            const terms t = {.a = from + (r + l) * n, .s = splat(top[l])};
            part[l] = sum_vector(n, &t, t_largest);
            rest[l] = sum_vector(n, &t, t_exp_smaller);
            if (smoothing != 0) below[l] = sum_vector(n, &t, t_below);
        }
        const vec largest = fold_rows(part, v_plus), smaller = fold_rows(rest, v_plus), under = fold_rows(below, v_plus);
        double sum[LANES];
        for (int l = 0; l < LANES; l++) sum[l] = double_log_1p((double)largest[l] - 1 + (double)smaller[l]);
        for (int l = 0; l < count; l++) {
            const double max = (double)top[l];
            const bool counts = target[r + l] >= 0;
            if (!(fabs(max) <= (sizeof(real) == 4 ? (double)FLT_MAX : DBL_MAX))) sum[l] = NAN;
            const double y = counts ? sum[l] + (1 - smoothing) * (max - (double)from[(r + l) * n + target[r + l]]) : 0;
            losses[r + l] = (real)(counts && smoothing != 0 ? y + smoothing * (double)under[l] / (double)n : y);
            norms[r + l] = (real)(counts ? max + sum[l] : 0);
        }
    }
}

/* dx = scale (softmax(x) - (1 - s) onehot - s / n) */
INLINE vec t_cross_entropy_backward(vec x, vec b, vec c, const terms *t) { (void)b; (void)c; return t->u * (v_exp(x - t->s) - t->t); }
static void cross_entropy_backward(int64_t n, const void *x, int64_t target, double smoothing, const void *lse, double scale, void *dx) {
    const terms t = {.a = x, .s = splat(*(const real *)lse), .t = splat((real)(smoothing / (double)n)), .u = splat((real)scale)};
    row(n, &t, dx, t_cross_entropy_backward);
    ((real *)dx)[target] -= (real)(scale * (1 - smoothing));
}

#endif
