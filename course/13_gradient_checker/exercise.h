/* Your file defines a checker of gradients. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* A function of n numbers with m results, n and m at least 1, and its backward, which may be wrong.
 * backward sets dx[i] to the sum over r of g[r] d y[r] / d x[i]. */
typedef struct {
    int n, m;
    void (*forward)(const double *x, double *y);
    void (*backward)(const double *x, const double *g, double *dx);
} function;

typedef enum {
    NO_VERDICT, /* the checker is not written yet */
    GRADIENT_RIGHT,
    GRADIENT_WRONG,
    NOT_DETERMINISTIC /* two runs of forward, or of backward, on the same inputs differ */
} verdict;

typedef struct {
    verdict verdict;
    /* If the verdict is GRADIENT_WRONG because entries of the Jacobian are wrong, these fields have
     * the worst entry: d y[output] / d x[input] by backward and by differences. Otherwise they may
     * be anything. */
    int output, input;
    double analytic, numeric;
} check;

extern check check_gradient(const function *f, const double *x);

#endif
