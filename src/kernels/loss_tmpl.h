/* Elementwise losses: binary cross-entropy of logits, and the Kullback-Leibler divergence. */
#ifndef CTI_KERNELS_LOSS_TMPL_H
#define CTI_KERNELS_LOSS_TMPL_H

#include "map_tmpl.h"
#include "row_sum_tmpl.h"
#include "vmath.h"

/* Returns the elements from i on, or with step 0 the only element in all lanes. */
INLINE vec one_or_each(const stored *p, int64_t step, int64_t i, int64_t n) {
    return step ? load_part(p + i, n) : splat(get_one(p));
}

/* (1 - t) x + (1 + (w - 1) t) log(1 + e^-x) */
static void loss_bce(int64_t n, const void *x, const void *t, const void *w, int64_t sw, void *y) {
    const stored *logit = x, *target = t, *weight = w;
    for (int64_t i = 0; i < n; i += LANES) {
        const vec a = load_part(logit + i, n - i), b = load_part(target + i, n - i);
        const vec more =
            weight ? (one_or_each(weight, sw, i, n - i) - REAL(1.0)) * b + REAL(1.0) : splat(1);
        const vec plus = v_log1p_exp(-a);
        store_part((stored *)y + i, (REAL(1.0) - b) * a + more * plus, n - i);
    }
}

static void loss_bce_backward(const cti_bce_backward *of) {
    const stored *logit = of->x, *target = of->t, *weight = of->w, *g = of->g;
    const int64_t n = of->n, w_step = of->w_step, g_step = of->g_step;
    const real scale = (real)of->scale;
    stored *dx = of->dx, *dt = of->dt;
    for (int64_t i = 0; i < n; i += LANES) {
        const vec a = load_part(logit + i, n - i), b = load_part(target + i, n - i);
        const vec of_g = one_or_each(g, g_step, i, n - i) * scale;
        const vec u = weight ? one_or_each(weight, w_step, i, n - i) : splat(1);
        if (dx) {
            /* (1 - t) s - w t (1 - s), s = 1 / (1 + e^-x), each with all its digits */
            const sigmoid_pair p = v_sigmoid_pair(a);
            store_part(dx + i, of_g * ((REAL(1.0) - b) * p.s - u * b * p.rest), n - i);
        }
        if (dt) {
            /* The slope is (u - 1) plus - x. At x = -inf its terms may cancel to NaN; the slope is
             * then u plus. */
            const vec plus = v_log1p_exp(-a);
            const vec slope =
                blend(plus == splat((real)INFINITY), u * plus, (u - REAL(1.0)) * plus - a);
            store_part(dt + i, of_g * slope, n - i);
        }
    }
}

INLINE void pairs(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y,
                  vec (*f)(vec, vec)) {
    for (int64_t i = 0; i < n; i += LANES)
        store_part((stored *)y + i, f(one_or_each(a, sa, i, n - i), one_or_each(b, sb, i, n - i)),
                   n - i);
}

/* t (log t - x), 0 log 0 = 0 */
INLINE vec v_kl_div(vec x, vec t) {
    const vec t_log_t = blend(t == REAL(0.0), splat(0), t * v_log(t));
    return t_log_t - t * x;
}
/* e^t (t - x) */
INLINE vec v_kl_div_log(vec x, vec t) { return v_exp(t) * (t - x); }
/* the slope of t log t in torch's form: log t + t / t */
INLINE vec v_entropy_slope(vec t) { return blend(t == REAL(0.0), splat(0), v_log(t)) + t / t; }

static void loss_kl_div(int64_t n, const void *x, int64_t sx, const void *t, int64_t st, void *y) {
    pairs(n, x, sx, t, st, y, v_kl_div);
}
static void loss_kl_div_log(int64_t n, const void *x, int64_t sx, const void *t, int64_t st,
                            void *y) {
    pairs(n, x, sx, t, st, y, v_kl_div_log);
}
static void loss_entropy_slope(int64_t n, const void *t, void *y) { map(n, t, y, v_entropy_slope); }

/* sum w[i] (x[at] - x[i]) */
INLINE vec t_gap(operands o) { return o.b * (o.shift - o.a); }
static double loss_weighted_gap(int64_t n, const void *x, const void *w, int64_t at) {
    const stored *from = x;
    return (double)sum_terms(n, &(terms){.a = from, .b = w, .shift = splat(get_one(from + at))},
                             t_gap);
}

#endif
