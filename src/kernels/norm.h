/* Normalisation of a row. Means and their sums of squares are of differences, so a large mean costs no digits. */
#ifndef CT_NORM_H
#define CT_NORM_H

#include "terms.h"

INLINE vec t_centred(vec x, vec b, vec c, const terms *t) { (void)b; (void)c; return x - t->s; }
INLINE vec t_variance(vec x, vec b, vec c, const terms *t) {
    vec d = (x - t->s) - t->t;
    (void)b, (void)c;
    return d * d;
}
INLINE vec t_square(vec x, vec b, vec c, const terms *t) { (void)b; (void)c; (void)t; return x * x; }

/* xhat = ((x - s) - t) u: s is the mean as it was stored, t what rounding took from it */
INLINE vec xhat(vec x, const terms *t) { return ((x - t->s) - t->t) * t->u; }

/* xhat w + b */
INLINE vec t_affine(vec x, vec w, vec b, const terms *t) { return xhat(x, t) * w + b; }

static void layer_norm(int64_t n, const void *x, const void *w, const void *b, double eps, void *y, void *mean, void *rstd) {
    terms t = {.a = x, .b = w, .c = b};
    const real m = row_sum(n, x) / (real)n;
    t.s = splat(m);
    const real rest = sum_terms(n, &t, t_centred) / (real)n;
    t.t = splat(rest);
    const real r = (real)(1 / sqrt((double)(sum_terms(n, &t, t_variance) / (real)n) + eps));
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

/* With h = g w:  gx = g xhat;  dx = rstd (h - mean h - xhat mean(h xhat));  rms_norm has no mean h. */
INLINE vec t_h(vec x, vec w, vec g, const terms *t) { (void)x; (void)t; return g * w; }
INLINE vec t_hx(vec x, vec w, vec g, const terms *t) { return g * w * xhat(x, t); }

INLINE void norm_backward_row(int64_t n, const terms *t, vec mean_h, vec mean_hx, real *dx, real *gx) {
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i;
        const vec x = xhat(load_part(t->a + i, left), t), g = load_part(t->c + i, left);
        const vec h = t->b ? g * load_part(t->b + i, left) : g;
        if (dx) store_part(dx + i, t->u * (h - mean_h - x * mean_hx), left);
        if (gx) store_part(gx + i, g * x, left);
    }
}

static void layer_norm_backward(int64_t n, const void *x, const void *w, const void *g, const void *mean, const void *rstd, void *dx,
                                void *gx) {
    terms t = {.a = x, .b = w, .c = g, .s = splat(*(const real *)mean), .u = splat(*(const real *)rstd)};
    t.t = splat(sum_terms(n, &t, t_centred) / (real)n);
    const real h = dx ? sum_terms(n, &t, t_h) / (real)n : 0, hx = dx ? sum_terms(n, &t, t_hx) / (real)n : 0;
    norm_backward_row(n, &t, splat(h), splat(hx), dx, gx);
}

static void rms_norm_backward(int64_t n, const void *x, const void *w, const void *g, const void *rstd, void *dx, void *gx) {
    terms t = {.a = x, .b = w, .c = g, .u = splat(*(const real *)rstd)};
    const real hx = dx ? sum_terms(n, &t, t_hx) / (real)n : 0;
    norm_backward_row(n, &t, splat(0), splat(hx), dx, gx);
}

#endif
