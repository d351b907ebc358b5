/* Values and gradients at the ends of the range: infinite logits, NaN beside what is hidden, norms
 * of numbers whose squares overflow. */
#include "tests/support/one_context.h"

#include <math.h>

static const char *const sets[] = {"scalar", NULL};
enum { SETS = 2, N = 37 };

static void other_set(const char *isa) {
    ct_context_free(context);
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .isa = isa});
}

static ct_tensor *leaf(ct_dtype dtype, ct_shape shape, const double *values) {
    return ct_set_requires_grad(ct_cast(ct_from_f64(context, shape, values), dtype), true);
}

static void read_values(ct_tensor *t, double *out, int64_t n) {
    ck_assert_msg(t && ct_to_f64(t, out, n), "%s", ct_error_message(context));
}

/* dt = (w - 1) log(1 + e^-x) - x, which at -inf is w inf and at inf -inf. */
START_TEST(targets_of_infinite_logits) {
    for (int s = 0; s < SETS; s++)
        for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
            for (int weighted = 0; weighted < 4; weighted++) {
                const double w = (double[]){1, 1, 0.5, 3}[weighted];
                double x[N], t[N], dt[N];
                other_set(sets[s]);
                for (int i = 0; i < N; i++) {
                    x[i] = i % 3 == 0 ? (i % 2 ? INFINITY : -INFINITY) : i - 18;
                    t[i] = i % 4 / 3.;
                }
                ct_tensor *target = leaf((ct_dtype)dtype, CT_SHAPE(N), t);
                const ct_bce_opts opts = {
                    .reduction = CT_SUM,
                    .pos_weight =
                        weighted ? ct_full(context, (ct_dtype)dtype, CT_SCALAR, w) : NULL};
                ck_assert(ct_backward(ct_bce_with_logits(
                    ct_cast(ct_from_f64(context, CT_SHAPE(N), x), (ct_dtype)dtype), target, opts)));
                read_values(ct_grad(target), dt, N);
                for (int i = 0; i < N; i++) {
                    const double soft = log1p(exp(-fabs(x[i]))) + fmax(-x[i], 0),
                                 want = x[i] == -INFINITY ? INFINITY : (w - 1) * soft - x[i];
                    ck_assert_msg(dt[i] == want || fabs(dt[i] - want) < 1e-5, "x = %g, w = %g: %g",
                                  x[i], w, dt[i]);
                }
            }
}
END_TEST

/* A hidden element has a gradient of 0, also in a row with a NaN; softmax has no hidden ones. */
START_TEST(hidden_beside_nan) {
    for (int s = 0; s < SETS; s++)
        for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
            for (int dim = 0; dim < 2; dim++)
                for (int how = 0; how < 3; how++) { /* NaN in x, in g, and a whole row hidden */
                    double x[2 * N], g[2 * N], dx[2 * N];
                    bool mask[2 * N];
                    other_set(sets[s]);
                    const ct_shape shape = dim ? CT_SHAPE(2, N) : CT_SHAPE(N, 2);
#define AT(row, i) (dim ? (row) * N + (i) : (i) * 2 + (row))
                    for (int i = 0; i < 2 * N; i++) x[i] = i % 7, g[i] = i % 5 - 2;
                    for (int i = 0; i < N; i++) {
                        mask[AT(0, i)] = i % 3 && how < 2;
                        mask[AT(1, i)] = i % 4 == 0;
                    }
                    (how ? g : x)[AT(0, 4)] = NAN;
                    ct_tensor *logits = leaf((ct_dtype)dtype, shape, x),
                              *y = ct_masked_softmax(logits, ct_from_bool(context, shape, mask),
                                                     dim),
                              *cotangent = ct_cast(ct_from_f64(context, shape, g), (ct_dtype)dtype);
                    ck_assert(ct_backward_with(&y, &cotangent, 1, (ct_backward_opts){0}));
                    read_values(ct_grad(logits), dx, 2 * N);
                    for (int row = 0; row < 2; row++)
                        for (int i = 0; i < N; i++) {
                            const double d = dx[AT(row, i)];
                            if (!mask[AT(row, i)]) ck_assert_msg(d == 0, "%d, %d: %g", row, i, d);
                            else ck_assert_msg(!isnan(d) == (row != 0), "%d, %d: %g", row, i, d);
                        }
#undef AT
                }
}
END_TEST

/* Rows of all scales in one call: a norm without eps does not depend on the scale. */
START_TEST(norms_of_large_numbers) {
    enum { ROWS = 7 };
    for (int s = 0; s < SETS; s++)
        for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
            for (int rms = 0; rms < 2; rms++)
                for (int n = 2; n <= N; n += 7) {
                    const double top = dtype == CT_F32 ? 1e35 : 1e300,
                                 eps = dtype == CT_F32 ? 1e-5 : 1e-13;
                    const double scale[ROWS] = {
                        1, top, 1e18, sqrt(top) * 1e3, 100, -top, dtype == CT_F32 ? 1e20 : 1e160};
                    double x[ROWS * N], g[ROWS * N], y[ROWS * N], dx[ROWS * N];
                    other_set(sets[s]);
                    for (int r = 0; r < ROWS; r++)
                        for (int i = 0; i < n; i++) {
                            x[r * n + i] = (i * i * 5 % 11 + (i == 0) - 3) * scale[r];
                            g[r * n + i] = i * 3 % 7 - 2;
                        }
                    const ct_shape shape = CT_SHAPE(ROWS, n);
                    ct_tensor *in = leaf((ct_dtype)dtype, shape, x),
                              *out =
                                  rms ? ct_rms_norm(in, NULL, 0) : ct_layer_norm(in, NULL, NULL, 0),
                              *cotangent = ct_cast(ct_from_f64(context, shape, g), (ct_dtype)dtype);
                    ck_assert(ct_backward_with(&out, &cotangent, 1, (ct_backward_opts){0}));
                    read_values(out, y, ROWS * n), read_values(ct_grad(in), dx, ROWS * n);
                    for (int i = 0; i < ROWS * n; i++) {
                        const double by = scale[i / n], want = by < 0 ? -y[i % n] : y[i % n];
                        ck_assert_msg(fabs(y[i] - want) < eps, "%g: y[%d] is %g, not %g", by, i % n,
                                      y[i], want);
                        ck_assert_msg(fabs(dx[i] * fabs(by) - dx[i % n]) < 3 * eps,
                                      "%g: dx[%d] is %g, not %g", by, i % n, dx[i] * fabs(by),
                                      dx[i % n]);
                    }
                }
}
END_TEST

/* An infinity or a NaN in a row makes NaN in this row only. */
START_TEST(norms_of_infinities) {
    for (int s = 0; s < SETS; s++)
        for (int nan = 0; nan < 2; nan++) {
            double x[3 * N], y[3 * N];
            other_set(sets[s]);
            for (int i = 0; i < 3 * N; i++) x[i] = i % 6;
            x[N + 5] = nan ? NAN : INFINITY;
            read_values(ct_layer_norm(leaf(CT_F32, CT_SHAPE(3, N), x), NULL, NULL, 1e-5), y, 3 * N);
            for (int i = 0; i < 3 * N; i++) ck_assert_int_eq(!!isnan(y[i]), i / N == 1);
            read_values(ct_rms_norm(leaf(CT_F32, CT_SHAPE(3, N), x), NULL, 1e-5), y, 3 * N);
            for (int i = 0; i < 3 * N; i++)
                ck_assert_int_eq(!!isnan(y[i]), i / N == 1 && (nan || i == N + 5));
        }
}
END_TEST

int main(void) {
    return run_tests("extremes", setup, teardown,
                     TESTS(TEST(targets_of_infinite_logits), TEST(hidden_beside_nan),
                           TEST(norms_of_large_numbers), TEST(norms_of_infinities)));
}
