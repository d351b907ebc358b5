/* The functions and checks that the suites of ct_jacobian share. */
#ifndef JACOBIAN_CHECK_H
#define JACOBIAN_CHECK_H

#include "tests/support/op_check.h"

/* ---- functions ---- */

typedef struct {
    ct_tensor *(*of)(ct_tensor *const *in);
} body;

static inline ct_tensor *run_body(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ((const body *)arg)->of(in);
}
#define OF(f)                                                                                      \
    run_body, &(body) { f }

static inline ct_tensor *square(ct_tensor *const *in) { return ct_mul(in[0], in[0]); }

/* ---- matrices ---- */

static ct_jacobian_out out[4];

static inline void takes(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

static inline double *data(ct_tensor *m, int64_t rows, int64_t columns) {
    has_shape(m, CT_SHAPE(rows, columns));
    ck_assert_int_eq(ct_dtype_of(m), CT_F64);
    ck_assert(m->contiguous && !ct_requires_grad(m));
    return ct_data_f64(m);
}

/* Both matrices of an input are `want`: analytic up to rounding, numeric within its noise. */
static inline void are(const ct_jacobian_out *o, int64_t rows, int64_t columns,
                       const double *want) {
    const double *a = data(o->analytic, rows, columns), *d = data(o->numeric, rows, columns),
                 *noise = data(o->noise, rows, columns);
    ck_assert_str_eq(o->refused, "");
    for (int64_t e = 0; e < rows * columns; e++) {
        ck_assert_msg(fabs(a[e] - want[e]) <= 1e-14 * (1 + fabs(want[e])),
                      "analytic (%lld, %lld): %.17g, not %.17g", (long long)(e / columns),
                      (long long)(e % columns), a[e], want[e]);
        ck_assert_msg(fabs(d[e] - want[e]) <= noise[e] && noise[e] < 1e-7 * (1 + fabs(want[e])),
                      "numeric (%lld, %lld): %.17g, not %.17g, noise %g", (long long)(e / columns),
                      (long long)(e % columns), d[e], want[e], noise[e]);
    }
}

static inline void is_empty(const ct_jacobian_out *o) {
    ck_assert(!o->numeric && !o->analytic && !o->noise && !*o->refused);
}

static inline ct_tensor *normal(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

/* The elements of a tensor in row-major order. */
static inline double *values(ct_tensor *t) { return ct_data_f64(ct_clone(ct_contiguous(t))); }

/* ---- errors ---- */

static int reported;
static ct_status status_reported;
static char message_reported[1024];
static inline void report(void *unused, ct_status status, const char *message) {
    (void)unused;
    reported++;
    status_reported = status;
    snprintf(message_reported, sizeof message_reported, "%s", message);
}

#endif
