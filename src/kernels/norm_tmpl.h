/* Normalisation of rows. Means and their sums of squares are of differences, so a large mean costs
 * no digits.
 *
 * As many rows at once as a vector has lanes: what is one number of a row, like its mean, is a
 * lane, and no row waits for its own. */
#ifndef CTI_KERNELS_NORM_TMPL_H
#define CTI_KERNELS_NORM_TMPL_H

#include "row_sum_tmpl.h"

enum {
    NORM_BYTES = 16 << 10
}; /* of the rows that are taken at once, as they are read several times */

typedef struct {
    int64_t rows, n;
    const stored *x, *w, *c; /* c: forward the bias, which is one row, backward g */
    int64_t c_row;
    real mean[LANES], rest[LANES], rstd[LANES]; /* rest: the rounding error of mean */
} norm_batch;

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

/* A sum for each row. */
INLINE void norm_sums(const norm_batch *b, term *f, real sum[LANES]) {
    vec part[LANES] = {{0}};
    for (int64_t r = 0; r < b->rows; r++) {
        const terms t = norm_row(b, r);
        part[r] = sum_vector(b->n, &t, f);
    }
    store(sum, fold_rows(part, v_plus));
}
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

/* x - mean and its square */
INLINE triple t_moments(operands o) {
    const vec d = o.a - o.shift;
    return (triple){{d, d * d}};
}

/* ((x - mean) - rest) rstd */
INLINE vec xhat(operands o) { return ((o.a - o.shift) - o.rest) * o.scale; }

/* xhat w + b */
INLINE vec t_affine(operands o) { return xhat(o) * o.b + o.c; }

INLINE void norm_write(const norm_batch *b, stored *y, real *mean, real *rstd) {
    for (int64_t r = 0; r < b->rows; r++) {
        const terms t = norm_row(b, r);
        row_map(b->n, &t, y + r * b->n, t_affine);
    }
    if (mean) store_part(mean, load(b->mean), b->rows);
    store_part(rstd, load(b->rstd), b->rows);
}

/* Statistics of a row whose squares overflow: in f64, and of f64 with a scale. What is NaN or
 * infinite stays so. */
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

static void row_layer_norm(int64_t rows, int64_t n, const void *x, const void *w, const void *b,
                           double eps, void *y, void *mean, void *rstd) {
    const int64_t step = norm_rows(rows, n);
    const double share = 1 / (double)n;
    for (int64_t i = 0; i < rows; i += step) {
        norm_batch a = {.rows = rows - i < step ? rows - i : step,
                        .n = n,
                        .x = (const stored *)x + i * n,
                        .w = w,
                        .c = b};
        double sum[3][LANES];
        norm_sums(&a, t_a, a.mean);
        for (int l = 0; l < LANES; l++) a.mean[l] = (real)((double)a.mean[l] * share);
        norm_triples(2, &a, t_moments, sum);
        for (int l = 0; l < LANES; l++) {
            const double rest = sum[0][l] * share, variance = sum[1][l] * share - rest * rest;
            a.rest[l] = (real)rest;
            a.rstd[l] = (real)(1 / sqrt((variance > 0 ? variance : variance * 0) + eps));
            if (overflows(sum[1][l]))
                layer_norm_of_large(n, a.x + l * n, eps, &a.mean[l], &a.rest[l], &a.rstd[l]);
        }
        norm_write(&a, (stored *)y + i * n, (real *)mean + i, (real *)rstd + i);
    }
}

static void row_rms_norm(int64_t rows, int64_t n, const void *x, const void *w, double eps, void *y,
                         void *rstd) {
    const int64_t step = norm_rows(rows, n);
    for (int64_t i = 0; i < rows; i += step) {
        norm_batch a = {.rows = rows - i < step ? rows - i : step,
                        .n = n,
                        .x = (const stored *)x + i * n,
                        .w = w};
        norm_sums(&a, t_square, a.rstd);
        for (int l = 0; l < LANES; l++)
            a.rstd[l] = overflows((double)a.rstd[l])
                            ? rms_norm_of_large(n, a.x + l * n, eps)
                            : (real)(1 / sqrt((double)(a.rstd[l] / (real)n) + eps));
        norm_write(&a, (stored *)y + i * n, NULL, (real *)rstd + i);
    }
}

/* ---- backward ---- */

/* With h = g w:  dx = base + rstd (h - mean h - xhat mean(h xhat)), dw += g xhat, db += g; rms_norm
 * has no mean h. The sums are over d = x - mean: */
INLINE triple t_products(operands o) {
    const vec d = o.a - o.shift, h = o.c * o.b;
    return (triple){{d, h, h * d}};
}
INLINE vec t_hx(operands o) { return o.c * o.b * xhat(o); }

INLINE void norm_backward_vector(int64_t i, int64_t n, const terms *t, vec mean_h, vec mean_hx,
                                 const stored *base, stored *dx, stored *dw, stored *db) {
    const operands o = {
        .a = load_part(t->a + i, n), .shift = t->shift, .rest = t->rest, .scale = t->scale};
    const vec x = xhat(o), g = load_part(t->c + i, n);
    /* h is rounded, because a compiler may fuse g w and - mean h in some vectors of a row only */
    const vec h = t->b ? rounded(g * load_part(t->b + i, n)) : g;
    if (dw) store_part(dw + i, load_part(dw + i, n) + g * x, n);
    if (db) store_part(db + i, load_part(db + i, n) + g, n);
    if (dx) {
        const vec d = o.scale * (h - mean_h - x * mean_hx);
        store_part(dx + i, base ? load_part(base + i, n) + d : d, n);
    }
}

INLINE void norm_backward_row(int64_t n, const terms *t, vec mean_h, vec mean_hx,
                              const stored *base, stored *dx, stored *dw, stored *db) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        norm_backward_vector(i, LANES, t, mean_h, mean_hx, base, dx, dw, db);
    if (i < n) norm_backward_vector(i, n - i, t, mean_h, mean_hx, base, dx, dw, db);
}

INLINE void norm_backward_rows(const norm_batch *b, const real mean_h[LANES],
                               const real mean_hx[LANES], const stored *base, stored *dx,
                               stored *dw, stored *db) {
    for (int64_t r = 0, at = 0; r < b->rows; r++, at += b->n) {
        const terms t = norm_row(b, r);
        norm_backward_row(b->n, &t, splat(mean_h[r]), splat(mean_hx[r]), base ? base + at : NULL,
                          dx ? dx + at : NULL, dw, db);
    }
}

static void row_layer_norm_backward(int64_t rows, int64_t n, const void *x, const void *w,
                                    const void *g, const void *mean, const void *rstd,
                                    const void *base, void *dx, void *dw, void *db) {
    const int64_t step = norm_rows(rows, n);
    const double share = 1 / (double)n;
    for (int64_t i = 0; i < rows; i += step) {
        norm_batch a = {.rows = rows - i < step ? rows - i : step,
                        .n = n,
                        .x = (const stored *)x + i * n,
                        .w = w};
        double sum[3][LANES];
        real mean_h[LANES], mean_hx[LANES];
        a.c = (const stored *)g + i * n, a.c_row = n;
        store(a.mean, load_part((const real *)mean + i, a.rows));
        store(a.rstd, load_part((const real *)rstd + i, a.rows));
        norm_triples(3, &a, t_products, sum);
        for (int l = 0; l < LANES; l++) {
            const double rest = sum[0][l] * share, h = sum[1][l] * share;
            a.rest[l] = (real)rest;
            mean_h[l] = (real)h;
            mean_hx[l] = (real)((sum[2][l] * share - rest * h) *
                                (double)a.rstd[l]); /* rstd (mean(h d) - mean d mean h) */
        }
        norm_backward_rows(&a, mean_h, mean_hx, base ? (const stored *)base + i * n : NULL,
                           dx ? (stored *)dx + i * n : NULL, dw, db);
    }
}

static void row_rms_norm_backward(int64_t rows, int64_t n, const void *x, const void *w,
                                  const void *g, const void *rstd, const void *base, void *dx,
                                  void *dw) {
    const int64_t step = norm_rows(rows, n);
    for (int64_t i = 0; i < rows; i += step) {
        norm_batch a = {.rows = rows - i < step ? rows - i : step,
                        .n = n,
                        .x = (const stored *)x + i * n,
                        .w = w};
        const real none[LANES] = {0};
        real mean_hx[LANES] = {0};
        a.c = (const stored *)g + i * n, a.c_row = n;
        store(a.rstd, load_part((const real *)rstd + i, a.rows));
        if (dx) norm_sums(&a, t_hx, mean_hx);
        for (int l = 0; l < LANES; l++) mean_hx[l] /= (real)n;
        norm_backward_rows(&a, none, mean_hx, base ? (const stored *)base + i * n : NULL,
                           dx ? (stored *)dx + i * n : NULL, dw, NULL);
    }
}

#endif
