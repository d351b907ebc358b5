/* Helpers to make short f64 vectors and to compare them with numbers. */
#ifndef VECTORS_H
#define VECTORS_H

#include <math.h>

#include "tests/support/one_context.h"

static inline ct_tensor *leaf(int64_t n, const double *value) {
    return ct_set_requires_grad(ct_from_f64(context, CT_SHAPE(n), value), true);
}
#define LEAF(...) leaf(sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})
#define VECTOR(...)                                                                                \
    ct_from_f64(context, CT_SHAPE(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),               \
                (double[]){__VA_ARGS__})

static inline void is(ct_tensor *t, int64_t n, const double *value) {
    no_error();
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(ct_numel(t), n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(ct_data_f64(t)[i] - value[i]) < 1e-14, "[%d]: %.17g, not %.17g", (int)i,
                      ct_data_f64(t)[i], value[i]);
}
#define IS(t, ...) is(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static inline ct_tensor *sum(ct_tensor *x) { return ct_sum(x, CT_ALL, false); }

#endif
