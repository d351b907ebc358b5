/* The Jacobian twice: its rows by backward, for cotangents that are 1 at one output, and its
 * columns by central differences of forward. Then what the Jacobian does not show: that backward is
 * linear in the cotangent, and that both give the same each time. */
#include "exercise.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 8 }; /* a random mask of few numbers may come out the same several times */

typedef struct {
    const function *f;
    double *x;              /* n, moved for a difference and put back */
    double *g, *dx;         /* m, n */
    double *y, *low, *high; /* m each */
    double *analytic;       /* (m, n) */
} work;

/* dx holds NaN first: what backward does not write is seen. */
static void backward(const work *w) {
    for (int i = 0; i < w->f->n; i++) w->dx[i] = NAN;
    w->f->backward(w->x, w->g, w->dx);
}

/* A cotangent of many different numbers, of both signs, none of them 0 or 1. */
static void uneven_cotangent(const work *w) {
    for (int r = 0; r < w->f->m; r++) w->g[r] = (r % 2 ? 1 : -1) * (1.5 + sin(1 + 2.7 * r));
}

static bool same_each_time(const work *w) {
    const size_t y_size = (size_t)w->f->m * sizeof(double),
                 dx_size = (size_t)w->f->n * sizeof(double);
    double *first = malloc(dx_size);
    bool same = true;
    uneven_cotangent(w);
    w->f->forward(w->x, w->y);
    backward(w);
    memcpy(first, w->dx, dx_size);
    for (int run = 1; run < RUNS; run++) {
        w->f->forward(w->x, w->high);
        backward(w);
        same = same && memcmp(w->y, w->high, y_size) == 0 && memcmp(first, w->dx, dx_size) == 0;
    }
    free(first);
    return same;
}

static check compare(const work *w) {
    const int n = w->f->n, m = w->f->m;
    check result = {.verdict = GRADIENT_RIGHT};
    double worst = 1; /* error / allowed: wrong from here on */
    for (int r = 0; r < m; r++) {
        for (int i = 0; i < m; i++) w->g[i] = i == r;
        backward(w);
        memcpy(w->analytic + r * n, w->dx, (size_t)n * sizeof(double));
    }
    for (int i = 0; i < n; i++) {
        const double at = w->x[i], step = 1e-6 * fmax(1, fabs(at)), above = at + step,
                     below = at - step;
        w->x[i] = above, w->f->forward(w->x, w->high);
        w->x[i] = below, w->f->forward(w->x, w->low);
        w->x[i] = at;
        for (int r = 0; r < m; r++) {
            const double analytic = w->analytic[r * n + i];
            /* the step after rounding */
            const double numeric = (w->high[r] - w->low[r]) / (above - below);
            const double rounding = 4 * DBL_EPSILON * fabs(w->y[r]) / step;
            const double allowed = 1e-8 + 1e-6 * fabs(numeric) + rounding;
            const double error = fabs(analytic - numeric) / allowed;
            if (error <= worst) continue; /* false for NaN */
            result = (check){GRADIENT_WRONG, r, i, analytic, numeric};
            worst = isnan(error) ? INFINITY : error;
        }
    }
    return result;
}

static bool linear_in_cotangent(const work *w) {
    const int n = w->f->n, m = w->f->m;
    uneven_cotangent(w);
    backward(w);
    for (int i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (int r = 0; r < m; r++) {
            sum += w->g[r] * w->analytic[r * n + i];
            size += fabs(w->g[r] * w->analytic[r * n + i]);
        }
        if (!(fabs(w->dx[i] - sum) <= 1e-9 * fmax(1e-3, size))) return false;
    }
    return true;
}

check check_gradient(const function *f, const double *x) {
    const size_t n = (size_t)f->n, m = (size_t)f->m;
    double *memory = malloc((2 * n + 4 * m + m * n) * sizeof *memory);
    work w = {.f = f, .x = memory, .dx = memory + n, .g = memory + 2 * n};
    w.y = w.g + m, w.low = w.y + m, w.high = w.low + m, w.analytic = w.high + m;
    memcpy(w.x, x, n * sizeof *x);
    check result = {.verdict = NOT_DETERMINISTIC};
    if (same_each_time(&w)) {
        result = compare(&w);
        if (result.verdict == GRADIENT_RIGHT && !linear_in_cotangent(&w))
            result.verdict = GRADIENT_WRONG;
    }
    free(memory);
    return result;
}
