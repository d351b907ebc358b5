/* layer_norm and rms_norm of rows, forward and backward:
 *
 *     layer_norm   y = xhat w + b,   xhat = (x - mean) rstd,   rstd = 1 / sqrt(variance + eps)
 *     rms_norm     y = xhat w,       xhat = x rstd,            rstd = 1 / sqrt(mean(x^2) + eps)
 *
 * The functions that serve both have a parameter `centred`, which is false for rms_norm: mean and
 * rest are then 0. The variance is computed from the differences x - mean, so a large mean costs no
 * digits.
 *
 * The kernels compute as many rows at once as a vector has lanes. Each number that a row has one
 * of, such as its mean, is then a lane of a vector, and no row waits for its own number. */
#ifndef CTI_KERNELS_NORM_TMPL_H
#define CTI_KERNELS_NORM_TMPL_H

#include "row_sum_tmpl.h"

/* The most bytes of rows that are computed at once: rows are read several times, so they should
 * stay in the cache. */
enum { NORM_BYTES = 16 << 10 };

typedef struct {
    int64_t rows, n;
    const stored *x, *w, *c; /* c: the bias in forward, g in backward */
    int64_t c_row;           /* elements from a row of c to the next one; 0: one row for all */
    /* The numbers of each row. rest is the rounding error of mean. */
    real mean[LANES], rest[LANES], rstd[LANES];
} norm_batch;

/* How many rows are computed at once. */
static int64_t norm_rows(int64_t rows, int64_t n) {
    const int64_t most = NORM_BYTES / (int64_t)sizeof(real) / (n > 0 ? n : 1),
                  least = most < 1       ? 1
                          : most < LANES ? most
                                         : LANES;
    return rows < least ? rows : least;
}

INLINE terms norm_row(const norm_batch *b, int64_t r) {
    return (terms){.a = b->x + r * b->n,
                   .b = b->w,
                   .c = b->c ? b->c + r * b->c_row : NULL,
                   .shift = splat(b->mean[r]),
                   .rest = splat(b->rest[r]),
                   .scale = splat(b->rstd[r])};
}

INLINE vec xhat(operands o) { return ((o.a - o.shift) - o.rest) * o.scale; }

/* The sum of the terms of each row. */
INLINE void norm_sums(const norm_batch *b, term *f, real sum[LANES]) {
    vec part[LANES] = {{0}};
    for (int64_t r = 0; r < b->rows; r++) {
        const terms t = norm_row(b, r);
        part[r] = sum_vector(b->n, &t, f);
    }
    store(sum, fold_rows(part, v_plus));
}
/* The same of up to three terms at once, in f64. */
INLINE void norm_triples(const int count, const norm_batch *b, triple_term *f,
                         double sum[3][LANES]) {
    for (int k = 0; k < count; k++)
        for (int l = 0; l < LANES; l++) sum[k][l] = 0;
    for (int64_t i = 0; i < b->n; i += TRIPLE_BLOCK) {
        vec part[3][LANES] = {{{0}}};
        for (int64_t r = 0; r < b->rows; r++) {
            const terms t = norm_row(b, r);
            const triple p =
                triple_block(count, i, b->n - i < TRIPLE_BLOCK ? b->n : i + TRIPLE_BLOCK, &t, f);
            for (int k = 0; k < count; k++) part[k][r] = p.v[k];
        }
        for (int k = 0; k < count; k++) {
            const vec all = fold_rows(part[k], v_plus);
            for (int l = 0; l < LANES; l++) sum[k][l] += (double)all[l];
        }
    }
}

/* ---- forward ---- */

INLINE vec t_square(operands o) { return o.a * o.a; }
INLINE vec t_affine(operands o) { return xhat(o) * o.b + o.c; }

/* x - mean and its square */
INLINE triple t_moments(operands o) {
    const vec d = o.a - o.shift;
    return (triple){{d, d * d}};
}

/* The statistics of a row whose squares overflow are computed in f64. If x is f64 already, it is
 * scaled first. Rows with NaN and infinities come here too, and their statistics are NaN or
 * infinite. */
#define NORM_SCALE (sizeof(real) == 8 ? 0x1p-600 : 1)

static double scaled_squares(int64_t n, const stored *x, double mean, double *sum) {
    double squares = 0;
    *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)get_one(x + i) * NORM_SCALE - mean;
        *sum += d;
        squares += d * d;
    }
    return squares;
}
static void layer_norm_of_large(int64_t n, const stored *x, double eps, real *mean, real *rest,
                                real *rstd) {
    const double share = 1 / (double)n;
    double sum, squares;
    scaled_squares(n, x, 0, &sum);
    *mean = (real)(sum * share / NORM_SCALE);
    squares = scaled_squares(n, x, (double)*mean * NORM_SCALE, &sum);
    const double left = sum * share;
    *rest = (real)(left / NORM_SCALE);
    *rstd =
        (real)(NORM_SCALE / sqrt(squares * share - left * left + eps * NORM_SCALE * NORM_SCALE));
}
static real rms_norm_of_large(int64_t n, const stored *x, double eps) {
    double sum;
    const double squares = scaled_squares(n, x, 0, &sum) / (double)n;
    return (real)(NORM_SCALE / sqrt(squares + eps * NORM_SCALE * NORM_SCALE));
}
static bool overflows(double squares) { return !(squares <= DBL_MAX); }

/* Sets mean, rest and rstd of each row. */
INLINE void layer_norm_statistics(norm_batch *b, double eps) {
    const double share = 1 / (double)b->n;
    double sum[3][LANES];
    norm_sums(b, t_a, b->mean);
    for (int l = 0; l < LANES; l++) b->mean[l] = (real)((double)b->mean[l] * share);
    norm_triples(2, b, t_moments, sum);
    for (int l = 0; l < LANES; l++) {
        const double rest = sum[0][l] * share, variance = sum[1][l] * share - rest * rest;
        b->rest[l] = (real)rest;
        b->rstd[l] = (real)(1 / sqrt((variance > 0 ? variance : variance * 0) + eps));
        if (overflows(sum[1][l]))
            layer_norm_of_large(b->n, b->x + l * b->n, eps, &b->mean[l], &b->rest[l], &b->rstd[l]);
    }
}

/* Sets rstd of each row. */
INLINE void rms_norm_statistics(norm_batch *b, double eps) {
    norm_sums(b, t_square, b->rstd);
    for (int l = 0; l < LANES; l++)
        b->rstd[l] = overflows((double)b->rstd[l])
                         ? rms_norm_of_large(b->n, b->x + l * b->n, eps)
                         : (real)(1 / sqrt((double)(b->rstd[l] / (real)b->n) + eps));
}

INLINE void norm_forward(const bool centred, cti_norm of) {
    const int64_t rows = of.rows, n = of.n, step = norm_rows(rows, n);
    for (int64_t i = 0; i < rows; i += step) {
        norm_batch b = {.rows = rows - i < step ? rows - i : step,
                        .n = n,
                        .x = (const stored *)of.x + i * n,
                        .w = of.w,
                        .c = centred ? of.b : NULL};
        if (centred) layer_norm_statistics(&b, of.eps);
        else rms_norm_statistics(&b, of.eps);
        for (int64_t r = 0; r < b.rows; r++) {
            const terms t = norm_row(&b, r);
            row_map(n, &t, (stored *)of.y + (i + r) * n, t_affine);
        }
        if (centred) store_part((real *)of.mean + i, load(b.mean), b.rows);
        store_part((real *)of.rstd + i, load(b.rstd), b.rows);
    }
}

static void row_layer_norm(const cti_norm *of) { norm_forward(true, *of); }
static void row_rms_norm(const cti_norm *of) { norm_forward(false, *of); }

/* ---- backward ---- */

/* With h = g w, and without mean h for rms_norm:
 *
 *     dx = base + rstd (h - mean h - xhat mean(h xhat)),   dw += g xhat,   db += g */

/* d = x - mean, h and h d: their means give mean h and mean(h xhat). */
INLINE triple t_products(operands o) {
    const vec d = o.a - o.shift, h = o.c * o.b;
    return (triple){{d, h, h * d}};
}
INLINE vec t_hx(operands o) { return o.c * o.b * xhat(o); }

/* Sets rest of each row, mean h and mean(h xhat). */
INLINE void layer_norm_means(norm_batch *b, real mean_h[LANES], real mean_hx[LANES]) {
    const double share = 1 / (double)b->n;
    double sum[3][LANES];
    norm_triples(3, b, t_products, sum);
    for (int l = 0; l < LANES; l++) {
        const double rest = sum[0][l] * share, h = sum[1][l] * share;
        b->rest[l] = (real)rest;
        mean_h[l] = (real)h;
        mean_hx[l] = (real)((sum[2][l] * share - rest * h) *
                            (double)b->rstd[l]); /* rstd (mean(h d) - mean d mean h) */
    }
}

INLINE void rms_norm_means(norm_batch *b, real mean_hx[LANES]) {
    norm_sums(b, t_hx, mean_hx);
    for (int l = 0; l < LANES; l++) mean_hx[l] /= (real)b->n;
}

/* The gradients of a row: base and dx belong to the row, dw and db to all rows. */
typedef struct {
    vec mean_h, mean_hx;
    const stored *base;
    stored *dx, *dw, *db;
} norm_slopes;

INLINE void norm_backward_vector(int64_t i, int64_t n, const terms *t, const norm_slopes *s) {
    const operands o = {
        .a = load_part(t->a + i, n), .shift = t->shift, .rest = t->rest, .scale = t->scale};
    const vec x = xhat(o), g = load_part(t->c + i, n);
    /* h is rounded, because a compiler may fuse g w and - mean h in some vectors of a row only
     */
    const vec h = t->b ? rounded(g * load_part(t->b + i, n)) : g;
    if (s->dw) store_part(s->dw + i, load_part(s->dw + i, n) + g * x, n);
    if (s->db) store_part(s->db + i, load_part(s->db + i, n) + g, n);
    if (s->dx) {
        const vec d = o.scale * (h - s->mean_h - x * s->mean_hx);
        store_part(s->dx + i, s->base ? load_part(s->base + i, n) + d : d, n);
    }
}

INLINE void norm_backward_row(int64_t n, const terms *t, const norm_slopes *s) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) norm_backward_vector(i, LANES, t, s);
    if (i < n) norm_backward_vector(i, n - i, t, s);
}

INLINE void norm_backward(const bool centred, cti_norm_backward of) {
    const int64_t rows = of.rows, n = of.n, step = norm_rows(rows, n);
    for (int64_t i = 0; i < rows; i += step) {
        norm_batch b = {.rows = rows - i < step ? rows - i : step,
                        .n = n,
                        .x = (const stored *)of.x + i * n,
                        .w = of.w,
                        .c = (const stored *)of.g + i * n,
                        .c_row = n};
        real mean_h[LANES] = {0}, mean_hx[LANES] = {0};
        if (centred) store(b.mean, load_part((const real *)of.mean + i, b.rows));
        store(b.rstd, load_part((const real *)of.rstd + i, b.rows));
        if (centred) layer_norm_means(&b, mean_h, mean_hx);
        else if (of.dx) rms_norm_means(&b, mean_hx);
        for (int64_t r = 0, at = i * n; r < b.rows; r++, at += n) {
            const terms t = norm_row(&b, r);
            const norm_slopes s = {.mean_h = splat(centred ? mean_h[r] : 0),
                                   .mean_hx = splat(mean_hx[r]),
                                   .base = of.base ? (const stored *)of.base + at : NULL,
                                   .dx = of.dx ? (stored *)of.dx + at : NULL,
                                   .dw = of.dw,
                                   .db = centred ? of.db : NULL};
            norm_backward_row(n, &t, &s);
        }
    }
}

static void row_layer_norm_backward(const cti_norm_backward *of) { norm_backward(true, *of); }
static void row_rms_norm_backward(const cti_norm_backward *of) { norm_backward(false, *of); }

#endif
