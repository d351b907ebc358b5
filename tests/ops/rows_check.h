/* Tensors of given values, and values within a tolerance. The suites of ops on rows use them. */
#ifndef ROWS_CHECK_H
#define ROWS_CHECK_H

#include "tests/support/op_check.h"

static inline ct_tensor *reals(ct_shape shape, const double *v) {
    return ct_set_requires_grad(ct_from_f64(context, shape, v), true);
}
#define REALS(shape, ...) reals(shape, (double[]){__VA_ARGS__})

static inline void near(ct_tensor *t, const double *want, int64_t n, double tolerance) {
    double got[64];
    ck_assert_msg(t && ct_numel(t) == n && n <= 64, "%s", ct_error_message(context));
    ct_to_f64(t, got, n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])) ||
                          fabs(got[i] - want[i]) <= tolerance,
                      "[%d]: %.17g, not %.17g", (int)i, got[i], want[i]);
}
#define NEAR(t, tolerance, ...)                                                                    \
    near(t, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),  \
         tolerance)

#endif
