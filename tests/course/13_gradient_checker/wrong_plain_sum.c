/* expect 3/10
 * one_number passed
 * several_numbers passed
 * worst failed: d y[
 * hidden_by_a_sum failed: softmax with the sign flipped: the verdict is GRADIENT_RIGHT
 * cotangent failed: where g is ignored: the verdict is GRADIENT_RIGHT
 * not_finite passed
 * not_deterministic failed: the verdict is GRADIENT_RIGHT and must be GRADIENT_WRONG
 */
/* The loss is the plain sum of the outputs: one cotangent, of ones. */
#include "exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double sum_of(const function *f, const double *x, double *y) {
    double sum = 0;
    f->forward(x, y);
    for (int r = 0; r < f->m; r++) sum += y[r];
    return sum;
}

check check_gradient(const function *f, const double *x) {
    const size_t n = (size_t)f->n, m = (size_t)f->m;
    double *at = malloc(n * sizeof *at), *dx = malloc(n * sizeof *dx), *g = malloc(m * sizeof *g),
           *y = malloc(m * sizeof *y);
    memcpy(at, x, n * sizeof *x);
    for (int r = 0; r < f->m; r++) g[r] = 1;
    f->backward(x, g, dx);
    check result = {.verdict = GRADIENT_RIGHT};
    for (int i = 0; i < f->n; i++) {
        const double step = 1e-6 * fmax(1, fabs(x[i]));
        at[i] = x[i] + step;
        const double high = sum_of(f, at, y);
        at[i] = x[i] - step;
        const double low = sum_of(f, at, y);
        at[i] = x[i];
        const double numeric = (high - low) / (2 * step);
        if (!(fabs(dx[i] - numeric) <= 1e-6 * fmax(1, fabs(numeric))))
            result = (check){GRADIENT_WRONG, 0, i, dx[i], numeric};
    }
    free(at), free(dx), free(g), free(y);
    return result;
}
