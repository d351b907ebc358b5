/* A product whose work is measured: the matrices lie in the submission before it begins, so that
 * only the product counts. remote.c. */
#ifndef TIMED_H
#define TIMED_H

#include "exercise.h"

/* Sends a, b, and what c holds before the product. They replace those before them. */
void product_load(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                  const double *c);
/* Computes c there, and returns the seconds of processor time that it took. */
double product_run(void);
void product_fetch(int64_t m, int64_t n, double *c);

#endif
