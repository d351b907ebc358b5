/* Normalisation of a row. Means and their sums of squares are of differences, so a large mean costs no digits. */
#ifndef CT_NORM_H
#define CT_NORM_H

#include "terms.h"

INLINE vec t_square(vec x, vec b, vec c, const terms *t) { (void)b; (void)c; (void)t; return x * x; }

/* x - s and its square */
INLINE triple t_moments(vec x, vec b, vec c, const terms *t) {
    const vec d = x - t->s;
    (void)b, (void)c;
    return (triple){{d, d * d}};
}

/* xhat = ((x - s) - t) u: s is the mean as it was stored, t what rounding took from it */
INLINE vec xhat(vec x, const terms *t) { return ((x - t->s) - t->t) * t->u; }

/* xhat w + b */
INLINE vec t_affine(vec x, vec w, vec b, const terms *t) { return xhat(x, t) * w + b; }

static void layer_norm(int64_t n, const void *x, const void *w, const void *b, double eps, void *y, void *mean, void *rstd) {
    terms t = {.a = x, .b = w, .c = b};
    const double share = 1 / (double)n;
    const real m = (real)((double)row_sum(n, x) * share);
    t.s = splat(m);
    double sum[3];
    sum_triples(2, n, &t, t_moments, sum);
    const double rest = sum[0] * share, variance = sum[1] * share - rest * rest;
    t.t = splat((real)rest);
    const real r = (real)(1 / sqrt((variance > 0 ? variance : variance * 0) + eps));
    t.u = splat(r);
    row(n, &t, y, t_affine);
    *(real *)mean = m;
    *(real *)rstd = r;
}

static void rms_norm(int64_t n, const void *x, const void *w, double eps, void *y, void *rstd) {
    terms t = {.a = x, .b = w};
    const real r = (real)(1 / sqrt((double)(sum_terms(n, &t, t_square) / (real)n) + eps));
    t.u = splat(r);
    row(n, &t, y, t_affine);
    *(real *)rstd = r;
}

/* With h = g w:  gx = g xhat;  dx = base + rstd (h - mean h - xhat mean(h xhat));  rms_norm has no mean h. The sums are over d = x - s: */
INLINE triple t_products(vec x, vec w, vec g, const terms *t) {
    const vec d = x - t->s, h = g * w;
    return (triple){{d, h, h * d}};
}
INLINE vec t_hx(vec x, vec w, vec g, const terms *t) { return g * w * xhat(x, t); }

INLINE void norm_backward_row(int64_t n, const terms *t, vec mean_h, vec mean_hx, const real *base, real *dx, real *gx) {
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i;
        const vec x = xhat(load_part(t->a + i, left), t), g = load_part(t->c + i, left);
        const vec h = t->b ? g * load_part(t->b + i, left) : g;
        if (dx) {
            const vec d = t->u * (h - mean_h - x * mean_hx);
            store_part(dx + i, base ? load_part(base + i, left) + d : d, left);
        }
        if (gx) store_part(gx + i, g * x, left);
    }
}

static void layer_norm_backward(int64_t n, const void *x, const void *w, const void *g, const void *mean, const void *rstd,
                                const void *base, void *dx, void *gx) {
    terms t = {.a = x, .b = w, .c = g, .s = splat(*(const real *)mean), .u = splat(*(const real *)rstd)};
    double sum[3];
    const double share = 1 / (double)n;
    sum_triples(3, n, &t, t_products, sum);
    const double rest = sum[0] * share, h = sum[1] * share;
    t.t = splat((real)rest);
    const double hx = (sum[2] * share - rest * h) * (double)*(const real *)rstd;   /* mean(h xhat) = rstd (mean(h d) - mean d mean h) */
    norm_backward_row(n, &t, splat((real)h), splat((real)hx), base, dx, gx);
}

static void rms_norm_backward(int64_t n, const void *x, const void *w, const void *g, const void *rstd, const void *base, void *dx,
                              void *gx) {
    terms t = {.a = x, .b = w, .c = g, .u = splat(*(const real *)rstd)};
    const real hx = dx ? sum_terms(n, &t, t_hx) / (real)n : 0;
    norm_backward_row(n, &t, splat(0), splat(hx), base, dx, gx);
}

#endif
