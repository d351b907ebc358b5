/* Your file defines a fast product of two matrices. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* c (m, n) = a (m, k) b (k, n): c_ij = sum_p a_ip b_pj. All are rows of doubles, one behind the
 * other: a_ip is a[i k + p], b_pj is b[p n + j], c_ij is c[i n + j]. What c held before is
 * overwritten. A size may be 0; for k = 0 all of c is 0. */
extern void product(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);

#endif
