/* Helpers of the suites of ops: a context for each test, small tensors, and checks of values,
 * shapes and errors. */
#ifndef OP_CHECK_H
#define OP_CHECK_H

#include "refused.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cotangent/cotangent.h>

static ct_context *context;

static inline void open_context(void) {
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 2});
}

static inline void close_context(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "left pending: %s", ct_error_message(context));
    ct_context_free(context);
}

#define F64(...)                                                                                   \
    f64((double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))
#define I64(...)                                                                                   \
    i64((int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define BOOL(...) flags((bool[]){__VA_ARGS__}, (int64_t)sizeof((bool[]){__VA_ARGS__}))

static inline ct_tensor *f64(const double *v, int64_t n) {
    return ct_set_requires_grad(ct_from_f64(context, CT_SHAPE(n), v), true);
}
static inline ct_tensor *i64(const int64_t *v, int64_t n) {
    return ct_from_i64(context, CT_SHAPE(n), v);
}
static inline ct_tensor *flags(const bool *v, int64_t n) {
    return ct_from_bool(context, CT_SHAPE(n), v);
}

static inline ct_tensor *of(ct_dtype dtype, ct_shape shape) {
    return ct_zeros(context, dtype, shape);
}

/* Checks that t has these values; NaN equals NaN. */
static inline void is(ct_tensor *t, const char *what, const double *want, int64_t n) {
    double *got = malloc((size_t)(n + 1) * sizeof *got);
    ck_assert_msg(t != NULL, "%s: %s", what, ct_error_message(context));
    ck_assert_msg(ct_numel(t) == n, "%s: %lld elements", what, (long long)ct_numel(t));
    ck_assert_msg(ct_to_f64(t, got, n), "%s: %s", what, ct_error_message(context));
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])),
                      "%s [%lld]: %.17g, not %.17g", what, (long long)i, got[i], want[i]);
    free(got);
}
#define IS(t, ...)                                                                                 \
    is(t, #t, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

static inline void has_shape(ct_tensor *t, ct_shape want) {
    ck_assert_msg(t != NULL, "%s", ct_error_message(context));
    ct_shape got = ct_shape_of(t);
    ck_assert_int_eq(got.ndim, want.ndim);
    for (int d = 0; d < got.ndim; d++) ck_assert_int_eq(got.dim[d], want.dim[d]);
}

#define FAILS(call, status, message) ck_refused((call) != NULL, status, message, "")

/* Runs backward from sum(w y), with w = 1, 2, 3, ...: with distinct weights a gradient in the wrong
 * place has a wrong value. */
static inline void backward(ct_tensor *y) {
    ck_assert_msg(y != NULL, "%s", ct_error_message(context));
    ct_tensor *w = ct_reshape(ct_arange(context, ct_dtype_of(y), 1, (double)ct_numel(y) + 1, 1),
                              ct_shape_of(y));
    ck_assert_msg(ct_backward_with(&y, &w, 1, (ct_backward_opts){0}), "%s",
                  ct_error_message(context));
}

#endif
