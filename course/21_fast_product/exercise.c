/* A fast product: see README.md. */
#include "exercise.h"

void product(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)c; /* it is not written yet */
}
