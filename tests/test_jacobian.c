/* ct_jacobian: both matrices against closed forms, the noise, what a failing backward gives,
 * errors, what the call leaves unchanged, and memory that runs out. */
#include "cases.h"
#include "fault_sweep.h"
#include "memory_faults.h"
#include "src/autograd/tape.h"

#include "op_check.h"

/* ---- functions ---- */

typedef struct {
    ct_tensor *(*of)(ct_tensor *const *in);
} body;

static ct_tensor *run_body(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ((const body *)arg)->of(in);
}
#define OF(f)                                                                                      \
    run_body, &(body) { f }

static ct_tensor *square(ct_tensor *const *in) { return ct_mul(in[0], in[0]); }
static ct_tensor *cube(ct_tensor *const *in) { return ct_mul(ct_mul(in[0], in[0]), in[0]); }
static ct_tensor *exponential(ct_tensor *const *in) { return ct_exp(in[0]); }
static ct_tensor *softmax(ct_tensor *const *in) { return ct_softmax(in[0], -1); }
static ct_tensor *product(ct_tensor *const *in) { return ct_mul(in[0], in[1]); }
static ct_tensor *matmul(ct_tensor *const *in) { return ct_matmul(in[0], in[1]); }
static ct_tensor *total(ct_tensor *const *in) { return ct_sum(in[0], CT_ALL, false); }
static ct_tensor *first_of(ct_tensor *const *in) { return in[0]; }
static ct_tensor *rows_of(ct_tensor *const *in) { return ct_embedding(in[1], in[0]); }
static ct_tensor *nothing_of(ct_tensor *const *in) { return ct_narrow(ct_exp(in[0]), 0, 0, 0); }
static ct_tensor *run_case(ct_tensor *const *in, int n, void *line) {
    (void)n;
    return ((const case_line *)line)->run(in[0] ? ct_context_of(in[0]) : NULL, in);
}
static ct_tensor *dropped(ct_tensor *const *in) { return ct_dropout(in[0], 0.5, true); }

/* ---- matrices ---- */

static ct_jacobian_out out[4];

static void takes(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

static double *data(ct_tensor *m, int64_t rows, int64_t columns) {
    has_shape(m, CT_SHAPE(rows, columns));
    ck_assert_int_eq(ct_dtype_of(m), CT_F64);
    ck_assert(m->contiguous && !ct_requires_grad(m));
    return ct_data_f64(m);
}

/* Both matrices of an input are `want`: analytic up to rounding, numeric within its noise. */
static void are(const ct_jacobian_out *o, int64_t rows, int64_t columns, const double *want) {
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

static void is_empty(const ct_jacobian_out *o) {
    ck_assert(!o->numeric && !o->analytic && !o->noise && !*o->refused);
}

static ct_tensor *normal(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

/* The elements of a tensor in row-major order. */
static double *values(ct_tensor *t) { return ct_data_f64(ct_clone(ct_contiguous(t))); }

/* ---- closed forms ---- */

START_TEST(of_each_element) {
    ct_tensor *x = normal(CT_SHAPE(3, 5));
    double want[15 * 15] = {0};
    for (int i = 0; i < 15; i++) want[i * 15 + i] = 2 * values(x)[i];
    takes(ct_jacobian(OF(square), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 15, 15, want);
    for (int e = 0; e < 15 * 15; e++) /* an element without effect cancels exactly */
        if (e % 16) ck_assert(ct_data_f64(out[0].numeric)[e] == 0);
}
END_TEST

START_TEST(of_softmax) {
    ct_tensor *x = normal(CT_SHAPE(2, 7));
    const double *y = values(ct_softmax(x, -1));
    double want[14 * 14];
    for (int r = 0; r < 14; r++)
        for (int i = 0; i < 14; i++)
            want[r * 14 + i] = r / 7 == i / 7 ? y[r] * ((r == i) - y[i]) : 0;
    takes(ct_jacobian(OF(softmax), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 14, 14, want);
}
END_TEST

/* y_ij = sum over k of a_ik b_kj */
START_TEST(of_two_inputs) {
    ct_tensor *in[2] = {normal(CT_SHAPE(3, 4)), normal(CT_SHAPE(4, 2))};
    const double *a = values(in[0]), *b = values(in[1]);
    double of_a[6 * 12], of_b[6 * 8];
    for (int r = 0; r < 6; r++) {
        for (int i = 0; i < 12; i++) of_a[r * 12 + i] = i / 4 == r / 2 ? b[i % 4 * 2 + r % 2] : 0;
        for (int i = 0; i < 8; i++) of_b[r * 8 + i] = i % 2 == r % 2 ? a[r / 2 * 4 + i / 2] : 0;
    }
    takes(ct_jacobian(OF(matmul), in, 2, (ct_jacobian_opts){0}, out));
    are(&out[0], 6, 12, of_a);
    are(&out[1], 6, 8, of_b);
}
END_TEST

START_TEST(of_broadcast_inputs) {
    ct_tensor *in[2] = {normal(CT_SHAPE(3, 1)), normal(CT_SHAPE(5))};
    double of_a[15 * 3] = {0}, of_b[15 * 5] = {0};
    for (int r = 0; r < 15; r++) {
        of_a[r * 3 + r / 5] = values(in[1])[r % 5];
        of_b[r * 5 + r % 5] = values(in[0])[r / 5];
    }
    takes(ct_jacobian(OF(product), in, 2, (ct_jacobian_opts){0}, out));
    are(&out[0], 15, 3, of_a);
    are(&out[1], 15, 5, of_b);
}
END_TEST

START_TEST(of_numbers) {
    ct_tensor *x = ct_full(context, CT_F64, CT_SCALAR, -3);
    takes(ct_jacobian(OF(square), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 1, 1, (double[]){-6});
    x = normal(CT_SHAPE(3));
    takes(ct_jacobian(OF(total), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 1, 3, (double[]){1, 1, 1});
    takes(ct_jacobian(OF(first_of), &x, 1, (ct_jacobian_opts){0}, out)); /* y is the input */
    are(&out[0], 3, 3, (double[]){1, 0, 0, 0, 1, 0, 0, 0, 1});
    x = ct_zeros(context, CT_F64, CT_SHAPE(2)); /* at 0 every value of y is 0 */
    takes(ct_jacobian(OF(total), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 1, 2, (double[]){1, 1});
}
END_TEST

/* A view has the matrices of a dense copy, bit for bit, and none for the elements between. */
START_TEST(of_views) {
    ct_tensor *base = normal(CT_SHAPE(6, 7));
    ct_tensor *views[] = {ct_transpose(base, 0, 1), ct_narrow(base, 1, 2, 3), ct_select(base, 1, 4),
                          ct_expand(ct_narrow(base, 1, 0, 1), CT_SHAPE(6, 3))};
    for (int v = 0; v < 4; v++) {
        ct_tensor *dense = ct_clone(ct_contiguous(views[v]));
        const int64_t n = ct_numel(dense);
        takes(ct_jacobian(OF(cube), &views[v], 1, (ct_jacobian_opts){0}, &out[0]));
        takes(ct_jacobian(OF(cube), &dense, 1, (ct_jacobian_opts){0}, &out[1]));
        const size_t bytes = (size_t)(n * n) * sizeof(double);
        ck_assert(!memcmp(data(out[0].numeric, n, n), data(out[1].numeric, n, n), bytes));
        ck_assert(!memcmp(data(out[0].analytic, n, n), data(out[1].analytic, n, n), bytes));
        ck_assert(!memcmp(data(out[0].noise, n, n), data(out[1].noise, n, n), bytes));
    }
}
END_TEST

/* Inputs that are not differentiated, and NULL. */
START_TEST(of_other_inputs) {
    ct_tensor *in[3] = {normal(CT_SHAPE(4, 2)), I64(3, 0, 3), NULL};
    memset(out, 0xff, sizeof out);
    takes(ct_jacobian(OF(rows_of), in, 3, (ct_jacobian_opts){0}, out));
    double want[6 * 8] = {0};
    for (int r = 0; r < 6; r++) want[r * 8 + (r / 2 == 1 ? 0 : 3) * 2 + r % 2] = 1;
    are(&out[0], 6, 8, want);
    is_empty(&out[1]);
    is_empty(&out[2]);
    ck_assert_int_eq(((unsigned char *)&out[3])[0], 0xff); /* only n are written */
    in[0] = I64(1, 2);
    ck_assert(!ct_jacobian(OF(first_of), in, 1, (ct_jacobian_opts){0}, out));
    FAILS(NULL, CT_ERR_DTYPE, "jacobian: the function returns i64");
}
END_TEST

static ct_tensor *ones_of(ct_tensor *const *in) {
    return ct_ones(ct_context_of(in[0]), CT_F64, CT_SHAPE(2));
}

START_TEST(without_a_gradient) { /* all inputs are i64; y depends on no input */
    ct_tensor *in[2] = {I64(1, 2), NULL};
    takes(ct_jacobian(OF(ones_of), in, 2, (ct_jacobian_opts){0}, out));
    is_empty(&out[0]);
    is_empty(&out[1]);
    in[0] = normal(CT_SHAPE(3));
    takes(ct_jacobian(OF(ones_of), in, 1, (ct_jacobian_opts){0}, out));
    for (int e = 0; e < 6; e++)
        ck_assert(data(out[0].analytic, 2, 3)[e] == 0 && data(out[0].numeric, 2, 3)[e] == 0);
}
END_TEST

/* A tensor that is given twice: the partial derivative of each place. */
START_TEST(given_twice) {
    ct_tensor *x = F64(1.5, -2), *in[2] = {x, x};
    takes(ct_jacobian(OF(product), in, 2, (ct_jacobian_opts){0}, out));
    are(&out[0], 2, 2, (double[]){1.5, 0, 0, -2});
    are(&out[1], 2, 2, (double[]){1.5, 0, 0, -2});
}
END_TEST

START_TEST(zero_sizes) {
    ct_tensor *x = ct_zeros(context, CT_F64, CT_SHAPE(0, 3));
    takes(ct_jacobian(OF(total), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 1, 0, NULL);
    takes(ct_jacobian(OF(square), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 0, 0, NULL);
    x = normal(CT_SHAPE(4));
    takes(ct_jacobian(OF(nothing_of), &x, 1, (ct_jacobian_opts){0}, out));
    are(&out[0], 0, 4, NULL);
    ct_tensor *none = ct_zeros(context, CT_F64, CT_SHAPE(3, 0));
    takes(ct_jacobian(OF(nothing_of), &x, 1, (ct_jacobian_opts){.cotangents = none}, out));
    are(&out[0], 3, 4, (double[12]){0});
    none = ct_zeros(context, CT_F64, CT_SHAPE(0, 4));
    takes(ct_jacobian(OF(square), &x, 1, (ct_jacobian_opts){.cotangents = none}, out));
    are(&out[0], 0, 4, NULL);
}
END_TEST

/* ---- steps and noise ---- */

static ct_tensor *number(ct_dtype dtype, double value) {
    return ct_full(context, dtype, CT_SHAPE(1), value);
}
static double only(ct_tensor *t) {
    double value;
    takes(ct_to_f64(t, &value, 1));
    return value;
}

/* The documented formulas, for exp at a point. */
static void is_measured(ct_dtype dtype, double at, double eps, double used) {
    const double h = used * fmax(1, fabs(at)), steps[4] = {h, -h, 2 * h, -2 * h},
                 unit = dtype == CT_F32 ? 0x1p-24 : 0x1p-53;
    double x[4], y[4];
    for (int p = 0; p < 4; p++) {
        x[p] = dtype == CT_F32 ? (float)((float)at + steps[p]) : at + steps[p];
        y[p] = only(ct_exp(number(dtype, x[p])));
    }
    const double d = (y[0] - y[1]) / (x[0] - x[1]), twice = (y[2] - y[3]) / (x[2] - x[3]),
                 noise = fabs(twice - d) + 8 * unit * fmax(y[2], y[3]) / h;
    ct_tensor *in = number(dtype, at);
    takes(ct_jacobian(OF(exponential), &in, 1, (ct_jacobian_opts){.eps = eps}, out));
    const double got = data(out[0].numeric, 1, 1)[0], near = data(out[0].noise, 1, 1)[0];
    ck_assert_msg(got == d, "at %g, eps %g: %.17g, not %.17g", at, eps, got, d);
    ck_assert_msg(fabs(near - noise) <= 1e-12 * noise, "at %g, eps %g: noise %g, not %g", at, eps,
                  near, noise);
    ck_assert(fabs(got - exp(at)) <= near + 1e-6 * unit / 0x1p-53 * exp(at));
}

START_TEST(steps_and_noise) {
    is_measured(CT_F64, 0.3, 0, 1e-6);
    is_measured(CT_F64, -20, 0, 1e-6); /* the step is 20 times eps */
    is_measured(CT_F64, 0.3, 1e-2, 1e-2);
    is_measured(CT_F64, 5, 1e-9, 1e-9);
    is_measured(CT_F32, 0.3, 0, 1e-2);
    is_measured(CT_F32, 2, 0.125, 0.125);
}
END_TEST

/* D(h) of x^3 is 3 x^2 + h^2: the noise covers the error by curvature. */
START_TEST(curvature) {
    ct_tensor *x = F64(0.5, -4);
    takes(ct_jacobian(OF(cube), &x, 1, (ct_jacobian_opts){.eps = 0.01}, out));
    const double *d = data(out[0].numeric, 2, 2), *noise = data(out[0].noise, 2, 2);
    ck_assert(fabs(d[0] - 0.7501) < 1e-12 && fabs(d[3] - 48.0016) < 1e-12);
    ck_assert(noise[0] >= 1e-4 && noise[0] < 4e-4 && noise[3] >= 16e-4 && noise[3] < 64e-4);
}
END_TEST

static ct_tensor *logarithm(ct_tensor *const *in) { return ct_log(in[0]); }
static ct_tensor *both(ct_tensor *const *in) {
    return ct_cat((ct_tensor *[]){ct_exp(in[0]), ct_log(in[0])}, 2, 0);
}

/* An element that is not finite does not change the others. */
START_TEST(not_finite) {
    ct_tensor *x = F64(-1, 2);
    takes(ct_jacobian(OF(logarithm), &x, 1, (ct_jacobian_opts){0}, out));
    const double *d = data(out[0].numeric, 2, 2), *noise = data(out[0].noise, 2, 2);
    ck_assert(isnan(d[0]) && isnan(noise[0]));
    ck_assert(fabs(d[3] - 0.5) <= noise[3] && noise[3] < 1e-8);
    x = F64(INFINITY, 2); /* an infinite y adds nothing to the noise of others */
    takes(ct_jacobian(OF(first_of), &x, 1, (ct_jacobian_opts){0}, out));
    d = data(out[0].numeric, 2, 2), noise = data(out[0].noise, 2, 2);
    ck_assert(fabs(d[3] - 1) <= noise[3] && noise[3] < 1e-8 && d[0] == 0 && d[1] == 0);
    /* -inf at 0, NaN beside it. A cotangent of 0 does not read it */
    x = F64(0);
    const double g[2] = {3, 0};
    takes(ct_jacobian(OF(both), &x, 1,
                      (ct_jacobian_opts){.cotangents = ct_from_f64(context, CT_SHAPE(1, 2), g)},
                      out));
    ck_assert(fabs(data(out[0].numeric, 1, 1)[0] - 3) <= data(out[0].noise, 1, 1)[0]);
}
END_TEST

/* A right backward is within the noise. The inputs of ops.def have no kink or jump nearby. */
START_TEST(right_backwards_are_within_the_noise) {
    int64_t elements = 0;
    for (int l = 0; l < case_count(); l++) {
        const case_line *line = case_at(l);
        for (int v = 0; v < case_variants(line); v++) {
            case_input inputs[CASE_INPUTS];
            ct_tensor *in[CASE_INPUTS];
            ct_jacobian_out got[CASE_INPUTS];
            int64_t size = 0;
            const int n = case_inputs(line, v, 1, inputs);
            ct_scope scope = ct_scope_open(context);
            takes(n > 0 &&
                  case_build(context, inputs, n, (case_build_opts){CT_F64, .seed = 5}, in));
            for (int i = 0; i < n; i++) size += in[i] ? ct_numel(in[i]) : 0;
            const bool small = size <= 60;
            const bool ran = small && ct_jacobian(run_case, (void *)line, in, n,
                                                  (ct_jacobian_opts){.seed = 3}, got);
            ck_assert_msg(!small || ran || ct_error(context) == CT_ERR_DTYPE, "%s: %s", line->name,
                          ct_error_message(context)); /* the result may be i64 or bool */
            ct_error_clear(context);
            for (int i = 0; i < n && ran; i++) {
                if (inputs[i].kind != 'R' && inputs[i].kind != 'D') continue;
                const double *a = ct_data_f64(got[i].analytic), *d = ct_data_f64(got[i].numeric),
                             *noise = ct_data_f64(got[i].noise);
                elements += ct_numel(got[i].numeric);
                for (int64_t e = 0; e < ct_numel(got[i].numeric); e++)
                    ck_assert_msg(fabs(a[e] - d[e]) <= noise[e],
                                  "%s, input %d: %.17g and %.17g, noise %g", line->name, i, a[e],
                                  d[e], noise[e]);
            }
            ct_scope_close(scope);
        }
    }
    ck_assert(elements > 10000);
}
END_TEST

/* ---- cotangents ---- */

/* Row r of both matrices is g_r J, for g of any layout. */
static void are_weighted(ct_tensor *g, int64_t rows, int64_t layout) {
    ct_tensor *x = normal(CT_SHAPE(1, 7));
    const double *y = values(ct_softmax(x, -1)), *weight = values(g);
    double want[9 * 7] = {0};
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 7; j++)
                want[r * 7 + i] += weight[r * 7 + j] * y[j] * ((i == j) - y[i]);
    ck_assert_int_eq(g->contiguous, layout == 0);
    takes(ct_jacobian(OF(softmax), &x, 1, (ct_jacobian_opts){.cotangents = g}, out));
    are(&out[0], rows, 7, want);
}

START_TEST(weighted_rows) {
    are_weighted(normal(CT_SHAPE(9, 7)), 9, 0);
    are_weighted(normal(CT_SHAPE(1, 7)), 1, 0);
    are_weighted(ct_transpose(normal(CT_SHAPE(7, 5)), 0, 1), 5, 1);
    are_weighted(ct_narrow(normal(CT_SHAPE(3, 9)), 1, 1, 7), 3, 1);
    are_weighted(ct_expand(normal(CT_SHAPE(1, 7)), CT_SHAPE(4, 7)), 4, 1);
    are_weighted(ct_scale(normal(CT_SHAPE(2, 7)), 1e-6), 2, 0);
}
END_TEST

/* The rows that are taken if no cotangents are given. */
START_TEST(unit_cotangents) {
    ct_tensor *x = normal(CT_SHAPE(2, 3));
    double unit[36] = {0};
    for (int r = 0; r < 6; r++) unit[r * 7] = 1;
    takes(ct_jacobian(OF(softmax), &x, 1, (ct_jacobian_opts){0}, &out[0]));
    ct_tensor *g = ct_from_f64(context, CT_SHAPE(6, 6), unit);
    takes(ct_jacobian(OF(softmax), &x, 1, (ct_jacobian_opts){.cotangents = g}, &out[1]));
    for (int e = 0; e < 36; e++) {
        ck_assert(values(out[0].numeric)[e] == values(out[1].numeric)[e]);
        ck_assert(values(out[0].analytic)[e] == values(out[1].analytic)[e]);
        ck_assert(values(out[0].noise)[e] == values(out[1].noise)[e]);
    }
}
END_TEST

/* The noise grows with the norm of the cotangent, and not with its largest element. */
START_TEST(noise_of_a_sum) {
    ct_tensor *x = F64(1, 1, 1, 1), *none = ct_zeros(context, CT_F64, CT_SHAPE(1, 4));
    const double g[8] = {2, 0, 0, 0, 2, 2, 2, 2};
    ct_jacobian_opts opts = {.cotangents = ct_from_f64(context, CT_SHAPE(2, 4), g)};
    takes(ct_jacobian(OF(first_of), &x, 1, opts, out));
    /* The least noise, less a few ulps in which C libraries differ. */
    const double rounding = 8 * 0x1p-53 * (1 + 2e-6) / 1e-6 * (1 - 1e-14);
    const double *noise = data(out[0].noise, 2, 4);
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < 2; r++) {
            const double least = (r ? 4 : 2) * rounding, got = noise[r * 4 + i];
            ck_assert_msg(got >= least && got < least + 1e-9, "%.17g, not %.17g", got, least);
        }
    opts.cotangents = none;
    takes(ct_jacobian(OF(first_of), &x, 1, opts, out));
    for (int i = 0; i < 4; i++)
        ck_assert(data(out[0].noise, 1, 4)[i] == 0 && data(out[0].numeric, 1, 4)[i] == 0);
}
END_TEST

/* f32: the cotangents are rounded to f32 for both matrices. */
START_TEST(cotangents_of_f32) {
    ct_tensor *x = ct_full(context, CT_F32, CT_SHAPE(1), 1);
    const double third = 1.0 / 3;
    ct_jacobian_opts opts = {.cotangents = ct_from_f64(context, CT_SHAPE(1, 1), &third)};
    takes(ct_jacobian(OF(first_of), &x, 1, opts, out));
    ck_assert(only(out[0].analytic) == (float)third && only(out[0].numeric) == (float)third);
}
END_TEST

/* ---- wrong and failing backwards ---- */

typedef enum { RIGHT, HALF_AT, OTHER_SHAPE, REFUSES, REFUSES_TWICE, MEMORY, WRITES } fault_of;

typedef struct {
    fault_of fault;
} faulty_attrs;
static int backwards_run;

static ct_tensor *faulty_forward(ct_call *c) { return ct_mul(c->in[0], c->in[1]); }
static bool faulty_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const fault_of f = ((const faulty_attrs *)c->attrs)->fault;
    backwards_run++;
    if (f == REFUSES || (f == REFUSES_TWICE && backwards_run == 2))
        return ct_fail(c->context, CT_ERR_IO, "the backward number %d", backwards_run);
    if (f == MEMORY) return ct_zeros(c->context, CT_F64, CT_SHAPE((int64_t)1 << 50)) != NULL;
    if (c->wants[0]) grad[0] = ct_mul(g[0], c->in[1]);
    if (c->wants[1]) grad[1] = ct_mul(g[0], c->in[0]);
    if (f == HALF_AT) ct_data_f64(grad[1])[2] *= 0.5;
    if (f == OTHER_SHAPE) grad[1] = ct_sum(grad[1], CT_ALL, false);
    if (f == WRITES) ct_data_f64(g[0])[0] = 5;
    return true;
}
static const ct_op faulty_op = {.name = "faulty",
                                .attrs_size = sizeof(faulty_attrs),
                                .forward = faulty_forward,
                                .backward = faulty_backward};
static ct_tensor *faulty(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_apply(&faulty_op, in, 2, &(faulty_attrs){*(const fault_of *)arg});
}

static bool run_faulty(fault_of f, ct_tensor *const *in, int n) {
    backwards_run = 0;
    return ct_jacobian(faulty, &f, in, n, (ct_jacobian_opts){0}, out);
}

/* Exactly the wrong element differs by more than the noise. */
START_TEST(a_wrong_backward) {
    ct_tensor *in[2] = {F64(1.5, -2, 3), F64(0.5, 1, 7)};
    takes(run_faulty(HALF_AT, in, 2));
    are(&out[0], 3, 3, (double[]){0.5, 0, 0, 0, 1, 0, 0, 0, 7});
    const double *a = data(out[1].analytic, 3, 3), *d = data(out[1].numeric, 3, 3),
                 *noise = data(out[1].noise, 3, 3);
    for (int e = 0; e < 9; e++) ck_assert((fabs(a[e] - d[e]) > noise[e]) == (e == 8));
    ck_assert(a[8] == 1.5 && fabs(d[8] - 3) < 1e-8);
    ck_assert_int_eq(backwards_run, 3);
    takes(run_faulty(WRITES, in, 2)); /* each row begins with its own cotangent */
    are(&out[0], 3, 3, (double[]){0.5, 0, 0, 0, 1, 0, 0, 0, 7});
}
END_TEST

static int reported;
static ct_status status_reported;
static char message_reported[1024];
static void report(void *unused, ct_status status, const char *message) {
    (void)unused;
    reported++;
    status_reported = status;
    snprintf(message_reported, sizeof message_reported, "%s", message);
}

START_TEST(a_backward_that_fails) {
    static const struct {
        fault_of fault;
        const char *words;
    } cases[] = {
        {REFUSES, "the backward number 1"},
        {REFUSES_TWICE, "the backward number 2"},
        {OTHER_SHAPE, "faulty: backward's gradient for input 1 has shape (), the input (3)"}};
    ct_context *usual = context;
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .on_error = report});
    reported = 0;
    for (int i = 0; i < 3; i++) {
        ct_tensor *in[3] = {F64(1.5, -2, 3), F64(0.5, 1, 7), I64(1)};
        takes(run_faulty(cases[i].fault, in, 3));
        for (int q = 0; q < 3; q++) {
            ck_assert(!out[q].analytic && !out[q].numeric == (q == 2) && !out[q].noise == (q == 2));
            ck_assert_msg(strstr(out[q].refused, cases[i].words), "%s", out[q].refused);
        }
        ck_assert(fabs(data(out[0].numeric, 3, 3)[8] - 7) <= data(out[0].noise, 3, 3)[8]);
        ck_assert(ct_grad(in[0]) == NULL && !context->tape_last);
        takes(run_faulty(RIGHT, in, 3)); /* nothing is left of it */
        are(&out[0], 3, 3, (double[]){0.5, 0, 0, 0, 1, 0, 0, 0, 7});
    }
    ck_assert_int_eq(reported, 0);
    ck_assert(!run_faulty(MEMORY, (ct_tensor *[]){F64(1, 2, 3), F64(1, 2, 3)}, 2));
    ck_refused(false, CT_ERR_MEMORY, "zeros", "");
    ck_assert_int_eq(reported, 1);
    is_empty(&out[0]);
    ct_context_free(context);
    context = usual;
}
END_TEST

/* ---- what stays unchanged ---- */

/* x W + b, dropped out; W, b and x are leaves or results from outside. */
typedef struct {
    ct_tensor *w, *b;
    bool recomputed;
} layer;
static ct_tensor *layer_of(ct_tensor *const *in, int n, void *arg) {
    const layer *l = arg;
    (void)n;
    return ct_dropout(ct_add(ct_matmul(in[0], l->w), l->b), 0.25, true);
}
static ct_tensor *run_layer(ct_tensor *const *in, int n, void *arg) {
    const layer *l = arg;
    return l->recomputed ? ct_recompute(layer_of, arg, in, n) : layer_of(in, n, arg);
}

static int64_t tape_length(void) {
    int64_t nodes = 0;
    for (const cti_node *node = context->tape_first; node; node = node->next) nodes++;
    return nodes;
}

START_TEST(gradients_and_graphs_from_before) {
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        ct_tensor *leaf = ct_set_requires_grad(normal(CT_SHAPE(3, 2)), true),
                  *fresh = ct_set_requires_grad(normal(CT_SHAPE(2)), true),
                  *x = ct_set_requires_grad(normal(CT_SHAPE(1, 3)), true);
        ct_tensor *w = ct_retain_grad(ct_exp(leaf));
        takes(ct_backward(ct_sum(ct_mul(ct_exp(leaf), leaf), CT_ALL, false)));
        ct_tensor *once = ct_sum(w, CT_ALL, false);
        takes(ct_backward_with(&once, NULL, 1, (ct_backward_opts){.retain_graph = true}));
        ct_tensor *grad = ct_grad(leaf), *retained = ct_grad(w);
        const double of_leaf = values(grad)[3], of_w = values(retained)[3];
        const int64_t nodes = tape_length();
        layer l = {.w = w, .b = fresh, .recomputed = recomputed};
        const ct_rng rng = ct_rng_get(context);
        takes(ct_jacobian(run_layer, &l, &x, 1, (ct_jacobian_opts){.seed = 4}, out));
        ck_assert_int_eq(ct_rng_get(context).stream, rng.stream);
        ck_assert_int_eq(ct_rng_get(context).seed, rng.seed);
        ck_assert(ct_grad(leaf) == grad && ct_grad(w) == retained);
        ck_assert(values(grad)[3] == of_leaf && values(retained)[3] == of_w);
        ck_assert(!ct_grad(fresh) && !ct_grad(x) && ct_requires_grad(x));
        ck_assert_int_eq(tape_length(), nodes);
        takes(ct_backward(once)); /* the graph is still there, and its nodes have no gradient */
        ck_assert(fabs(values(ct_grad(leaf))[3] - of_leaf - values(w)[3]) < 1e-14);
        ck_assert(values(ct_grad(w))[3] == of_w + 1);
        ct_seed(context, 4);
        double want[6];
        ct_tensor *kept = ct_dropout(ct_ones(context, CT_F64, CT_SHAPE(1, 2)), 0.25, true);
        for (int e = 0; e < 6; e++) want[e] = values(w)[e % 3 * 2 + e / 3] * values(kept)[e / 3];
        are(&out[0], 2, 3, want);
    }
}
END_TEST

static ct_tensor *the_argument(ct_tensor *const *in, int n, void *arg) {
    return (void)in, (void)n, arg;
}

START_TEST(a_leaf_from_outside_is_the_result) {
    ct_tensor *leaf = F64(1, 2), *x = F64(3);
    takes(ct_backward(ct_sum(ct_mul(leaf, leaf), CT_ALL, false)));
    ct_tensor *grad = ct_grad(leaf);
    takes(ct_jacobian(the_argument, leaf, &x, 1, (ct_jacobian_opts){0}, out));
    ck_assert(data(out[0].analytic, 2, 1)[1] == 0 && data(out[0].numeric, 2, 1)[1] == 0);
    ck_assert(ct_grad(leaf) == grad);
    IS(grad, 2, 4);
}
END_TEST

/* The watcher of a leaf is told of no backward that ct_jacobian or ct_gradcheck runs. */
static int watched;
static void watch_begin(void *self, const bool *reached, bool retain_graph) {
    (void)self, (void)retain_graph;
    watched += reached[0];
}
static bool watch_whole(void *self, int64_t i, ct_tensor *grad) {
    (void)self, (void)i, (void)grad;
    watched++;
    return true;
}
static void watch_turn(void *self) { (void)self, watched++; }
static void watch_end(void *self, bool ok) {
    (void)self;
    watched += ok;
}
static ct_tensor *times(ct_tensor *const *in, int n, void *leaf) {
    return (void)n, ct_mul(in[0], leaf);
}

START_TEST(no_watcher_is_told) {
    const ct_watch_fns fns = {watch_begin, watch_whole, watch_turn, watch_end};
    ct_tensor *x = F64(3), *leaf = F64(5);
    watched = 0;
    takes(ct_watch(context, &leaf, 1, &fns, NULL));
    takes(ct_jacobian(times, leaf, &x, 1, (ct_jacobian_opts){0}, out));
    ck_assert(ct_gradcheck(times, leaf, &x, 1, (ct_gradcheck_opts){0}).ok);
    ck_assert_int_eq(watched, 0);
    takes(ct_backward(ct_mul(x, leaf)));
    ck_assert_int_eq(watched, 4);
    ct_unwatch(context, NULL);
    are(&out[0], 1, 1, (double[]){5});
}
END_TEST

/* Inputs with and without requires_grad have the same matrices, in a scope without recording too.
 */
START_TEST(flags_of_inputs_and_scopes) {
    for (int flag = 0; flag < 2; flag++)
        for (int no_grad = 0; no_grad < 2; no_grad++) {
            const double at[2] = {3, 4};
            ct_scope outer = no_grad ? ct_scope_open_no_grad(context) : ct_scope_open(context);
            ct_tensor *x = ct_from_f64(context, CT_SHAPE(2), at);
            ct_set_requires_grad(x, flag);
            const int64_t before = ct_memory(context).live;
            ct_scope scope = ct_scope_open(context);
            takes(ct_jacobian(OF(square), &x, 1, (ct_jacobian_opts){0}, out));
            are(&out[0], 2, 2, (double[]){6, 0, 0, 8});
            ck_assert(ct_requires_grad(x) == flag && !ct_grad(x));
            ct_tensor *numeric = out[0].numeric;
            ct_scope_close(scope);
            ck_assert_int_eq(ct_memory(context).live, before);
            FAILS(ct_neg(numeric), CT_ERR_ARGUMENT, "has ended"); /* they were the scope's */
            ct_scope_close(outer);
        }
}
END_TEST

static ct_tensor *scaled_by_mask(ct_tensor *const *in) {
    return ct_mul(ct_dropout(ct_ones(ct_context_of(in[0]), CT_F64, CT_SHAPE(40)), 0.5, true),
                  in[0]);
}

/* Every call draws the same mask, which the seed determines; without a seed, the generator. */
START_TEST(random_numbers) {
    ct_tensor *x = ct_ones(context, CT_F64, CT_SHAPE(40));
    double mask[2][40];
    for (int seeded = 0; seeded < 2; seeded++)
        for (int f = 0; f < 2; f++) {
            ct_seed(context, 11);
            ct_dropout(x, 0.5, true);
            const ct_rng rng = ct_rng_get(context);
            takes(ct_jacobian(run_body, &(body){f ? scaled_by_mask : dropped}, &x, 1,
                              (ct_jacobian_opts){.seed = seeded ? 9 : 0}, out));
            ck_assert(ct_rng_get(context).seed == 11 && ct_rng_get(context).stream == rng.stream);
            if (seeded) ct_seed(context, 9);
            const double *want = values(ct_dropout(x, 0.5, true));
            memcpy(mask[seeded], want, sizeof mask[seeded]);
            double all[1600] = {0};
            for (int e = 0; e < 40; e++) all[e * 41] = want[e];
            are(&out[0], 40, 40, all);
        }
    ck_assert(memcmp(mask[0], mask[1], sizeof mask[0]) != 0);
}
END_TEST

/* ---- errors ---- */

typedef struct {
    int from, calls; /* the first call that misbehaves */
    enum { NOTHING, SHAPE_CHANGES, DTYPE_CHANGES, TO_WHOLE, FAILS_ITSELF } how;
} misbehaviour;

static ct_tensor *misbehaves(ct_tensor *const *in, int n, void *arg) {
    misbehaviour *m = arg;
    (void)n;
    ct_tensor *y = ct_mul(in[0], in[0]);
    if (++m->calls < m->from) return y;
    switch (m->how) {
    case NOTHING: return NULL;
    case SHAPE_CHANGES: return ct_reshape(y, CT_SHAPE(3, 2));
    case DTYPE_CHANGES: return ct_cast(y, CT_F32);
    case TO_WHOLE: return ct_cast(y, CT_I64);
    case FAILS_ITSELF: return ct_matmul(y, y);
    }
    return NULL;
}

/* The first call, the call that is recorded, and a call beside x. The last says where. */
START_TEST(functions_that_fail) {
    static const struct {
        int how;
        ct_status status;
        const char *message;
    } cases[] = {
        {NOTHING, CT_ERR_ARGUMENT, "jacobian: the function returned nothing"},
        {SHAPE_CHANGES, CT_ERR_SHAPE,
         "jacobian: the function returned (3, 2), and before that (2, 3)"},
        {DTYPE_CHANGES, CT_ERR_DTYPE, "jacobian: the function returned f32, and before that f64"},
        {TO_WHOLE, CT_ERR_DTYPE, "jacobian: the function returned i64, and before that f64"},
        {FAILS_ITSELF, CT_ERR_SHAPE, "matmul: inner sizes differ: (2, 3) @ (2, 3)"}};
    ct_context *usual = context;
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .on_error = report});
    for (int i = 0; i < 5; i++)
        for (int from = 1; from <= 26; from++) {
            const bool changes = cases[i].how != NOTHING && cases[i].how != FAILS_ITSELF;
            if (from == 1 && changes) continue;
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = normal(CT_SHAPE(2, 3));
            const double *at = values(x);
            const int64_t live = ct_memory(context).live;
            misbehaviour m = {.from = from, .how = cases[i].how};
            reported = 0;
            ck_assert(!ct_jacobian(misbehaves, &m, &x, 1, (ct_jacobian_opts){0}, out));
            is_empty(&out[0]);
            char want[300], where[100] = "";
            const int element = (from - 3) / 4; /* each is moved four times */
            if (from > 2)
                snprintf(where, sizeof where,
                         "jacobian: with element (%d, %d) of input 0 changed by at most %g: ",
                         element / 3, element % 3, 2e-6 * fmax(1, fabs(at[element])));
            /* the name stands once */
            const bool own = !strncmp(cases[i].message, "jacobian: ", 10);
            snprintf(want, sizeof want, "%s%s", where, cases[i].message + (*where && own ? 10 : 0));
            ck_assert_str_eq(ct_error_message(context), want);
            ck_assert_int_eq(ct_error(context), cases[i].status);
            ck_assert(reported == 1 && status_reported == cases[i].status);
            ck_assert_str_eq(message_reported, want);
            ct_error_clear(context);
            ct_scope_close(scope);
            ck_assert(!context->held && context->frame == &context->root && !context->tape_last);
            ck_assert(ct_memory(context).live < live);
        }
    ct_tensor *x = normal(CT_SHAPE(2, 3));
    misbehaviour m = {.from = 27};
    takes(ct_jacobian(misbehaves, &m, &x, 1, (ct_jacobian_opts){0}, out));
    ck_assert_int_eq(m.calls, 26);
    ct_context_free(context);
    context = usual;
}
END_TEST

START_TEST(wrong_arguments) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *x = normal(CT_SHAPE(2, 3)), *foreign = ct_ones(c, CT_F64, CT_SHAPE(1, 6)),
              *gone = normal(CT_SHAPE(1, 6)), *none = NULL;
    ct_release(gone);
#define REFUSED(f, in, n, status, message, ...)                                                    \
    do {                                                                                           \
        memset(out, 0xff, sizeof out);                                                             \
        ck_assert(!ct_jacobian(f, in, n, (ct_jacobian_opts){__VA_ARGS__}, out));                   \
        is_empty(&out[0]);                                                                         \
        FAILS(NULL, status, message);                                                              \
    } while (0)
#define SQUARE OF(square)
    ck_assert(!ct_jacobian(NULL, NULL, &x, 1, (ct_jacobian_opts){0}, out));
    FAILS(NULL, CT_ERR_ARGUMENT, "jacobian: no function");
    ck_assert(!ct_jacobian(SQUARE, &x, 1, (ct_jacobian_opts){0}, NULL));
    FAILS(NULL, CT_ERR_ARGUMENT, "jacobian: out is NULL");
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: eps is 0, must be greater than 0",
            .eps = CT_ZERO);
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: eps is -1", .eps = -1);
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: eps is nan", .eps = NAN);
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE,
            "jacobian: the cotangents have shape (2, 5), must be (R, 6), because the function "
            "returns (2, 3)",
            .cotangents = normal(CT_SHAPE(2, 5)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "the cotangents have shape (6), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(6)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "have shape (4, 2, 3), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(4, 2, 3)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "have shape (2, 6, 1), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(2, 6, 1)));
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "have shape (0), must be (R, 6)",
            .cotangents = normal(CT_SHAPE(0)));
    REFUSED(SQUARE, &x, 1, CT_ERR_DTYPE, "jacobian: the cotangents are (1, 6) f32, must be f64",
            .cotangents = ct_ones(context, CT_F32, CT_SHAPE(1, 6)));
    REFUSED(SQUARE, &x, 1, CT_ERR_DTYPE, "jacobian: the cotangents are (1, 6) i64",
            .cotangents = ct_zeros(context, CT_I64, CT_SHAPE(1, 6)));
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: tensors of different contexts",
            .cotangents = foreign);
    ck_assert_int_eq(ct_error(c), CT_ERR_ARGUMENT); /* in both */
    ct_error_clear(c);
    REFUSED(SQUARE, &x, 1, CT_ERR_ARGUMENT, "jacobian: the tensor has ended", .cotangents = gone);
    REFUSED(SQUARE, &gone, 1, CT_ERR_ARGUMENT, "jacobian: input 0 has ended", .eps = 0);
    REFUSED(SQUARE, &none, 1, CT_ERR_ARGUMENT, "jacobian: no input",
            .cotangents = normal(CT_SHAPE(1, 6)));
    ck_assert(!ct_jacobian(SQUARE, &none, 1, (ct_jacobian_opts){0}, out)); /* no context at all */
    ck_assert(!ct_jacobian(SQUARE, NULL, 0, (ct_jacobian_opts){0}, NULL));
    ck_assert(!ct_jacobian(the_argument, foreign, &x, 1, (ct_jacobian_opts){0}, out));
    FAILS(NULL, CT_ERR_ARGUMENT, "jacobian: tensors of different contexts");
    ct_error_clear(c);
    ct_matmul(x, x); /* an error is pending */
    REFUSED(SQUARE, &x, 1, CT_ERR_SHAPE, "matmul: ", .eps = 0);
#undef REFUSED
#undef SQUARE
    ct_context_free(c);
}
END_TEST

/* ---- hostile functions ---- */

typedef enum {
    RELEASES,
    LEAVES_SCOPES,
    CLOSES_SCOPES,
    SEEDS,
    NESTS,
    CLEARS,
    BACKWARDS,
    OVERWRITES,
    HOSTILES
} hostility;

static ct_tensor *is_hostile(ct_tensor *const *in, int n, void *arg) {
    ct_context *c = ct_context_of(in[0]);
    ct_tensor *y = ct_mul(in[0], in[0]);
    (void)n;
    switch (*(const hostility *)arg) {
    case RELEASES: ct_release(in[0]); break;
    case LEAVES_SCOPES: ct_scope_open_no_grad(c); break;
    case CLOSES_SCOPES:
        for (uint64_t id = c->scopes; id > 0; id--) /* none of them is its own */
            ct_scope_close((ct_scope){c, id});
        break;
    case SEEDS: ct_seed(c, 99); break;
    case NESTS: {
        ct_jacobian_out inner;
        if (!ct_jacobian(OF(square), in, 1, (ct_jacobian_opts){.seed = 2}, &inner)) return NULL;
        break;
    }
    case CLEARS:
        ct_matmul(in[0], in[0]);
        ct_error_clear(c);
        break;
    case BACKWARDS: ct_backward(ct_sum(ct_exp(y), CT_ALL, false)); break;
    case OVERWRITES: ct_copy_into(in[0], ct_ones(c, CT_F64, ct_shape_of(in[0]))); break;
    case HOSTILES: break;
    }
    return y;
}

START_TEST(hostile_functions) {
    for (hostility h = 0; h <= HOSTILES; h++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = F64(1.5, -2);
        const ct_rng rng = ct_rng_get(context);
        const bool done = ct_jacobian(is_hostile, &h, &x, 1, (ct_jacobian_opts){.seed = 5}, out);
        ck_assert(h != OVERWRITES || !done);
        if (done && out[0].analytic && h != BACKWARDS) are(&out[0], 2, 2, (double[]){3, 0, 0, -4});
        else if (h == HOSTILES || h == SEEDS || h == NESTS || h == CLEARS) takes(false);
        ct_error_clear(context);
        IS(x, 1.5, -2);
        ck_assert(ct_rng_get(context).seed == rng.seed && ct_rng_get(context).stream == rng.stream);
        ck_assert(!context->held && !context->running && !context->tape_last);
        ct_scope_close(scope);
        ck_assert(context->frame == &context->root);
    }
}
END_TEST

/* ---- memory ---- */

static struct {
    ct_tensor *x[3], *leaf, *grad, *cotangents;
} swept;

static void begin_sweep(void *arg) {
    (void)arg;
    context = new_with(
        (ct_context_opts){.seed = 3, .threads = 1, .allocator = {allocate, release, NULL}});
    swept.x[0] = normal(CT_SHAPE(1, 2));
    swept.x[1] = I64(1, 0);
    swept.x[2] = NULL;
    swept.leaf = ct_set_requires_grad(normal(CT_SHAPE(2, 2)), true);
    ct_backward(ct_sum(swept.leaf, CT_ALL, false));
    swept.grad = ct_grad(swept.leaf);
    swept.cotangents = normal(CT_SHAPE(3, 2));
}
static bool run_sweep(void *arg) {
    layer l = {.w = swept.leaf, .b = swept.leaf, .recomputed = *(const bool *)arg};
    l.b = swept.x[0];
    memset(out, 0xff, sizeof out);
    return ct_jacobian(run_layer, &l, swept.x, 3,
                       (ct_jacobian_opts){.cotangents = swept.cotangents}, out);
}
static void end_sweep(const fault_end *end, void *arg) {
    (void)arg;
    if (end->done) FAULT_CK(end, out[0].numeric && out[0].analytic && out[0].noise);
    else is_empty(&out[0]);
    is_empty(&out[1]);
    is_empty(&out[2]);
    FAULT_CK(end, end->done || end->struck);
    FAULT_CK(end, swept.leaf->slot->sum == swept.grad && ct_data_f64(swept.grad)[3] == 1);
    FAULT_CK(end, tape_length() == 1 && !context->held && context->frame == &context->root);
    ct_error_clear(context);
    ct_context_free(context);
    context = NULL;
    ck_assert_int_eq(allocated.bytes, 0);
}

START_TEST(memory_that_runs_out) {
    close_context();
    for (int way = 0; way < 8; way++)
        fault_sweep(&(fault_case){.name = "jacobian",
                                  .kind = way & 1 ? FAULT_TAKE : FAULT_ALLOCATOR,
                                  .forever = way & 2,
                                  .context = &context,
                                  .arg = &(bool){way & 4},
                                  .begin = begin_sweep,
                                  .run = run_sweep,
                                  .end = end_sweep,
                                  .least = way & 1 ? 40 : 1,
                                  .most = 5000,
                                  .may_succeed = !(way & 1)});
    open_context();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("jacobian");
    TCase *tcase = tcase_create("jacobian");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    const TTest *const tests[] = {of_each_element,
                                  of_softmax,
                                  of_two_inputs,
                                  of_broadcast_inputs,
                                  of_numbers,
                                  of_views,
                                  of_other_inputs,
                                  without_a_gradient,
                                  given_twice,
                                  zero_sizes,
                                  steps_and_noise,
                                  curvature,
                                  not_finite,
                                  right_backwards_are_within_the_noise,
                                  weighted_rows,
                                  unit_cotangents,
                                  noise_of_a_sum,
                                  cotangents_of_f32,
                                  a_wrong_backward,
                                  a_backward_that_fails,
                                  gradients_and_graphs_from_before,
                                  a_leaf_from_outside_is_the_result,
                                  no_watcher_is_told,
                                  flags_of_inputs_and_scopes,
                                  random_numbers,
                                  functions_that_fail,
                                  wrong_arguments,
                                  hostile_functions,
                                  memory_that_runs_out,
                                  NULL};
    for (const TTest *const *test = tests; *test; test++) tcase_add_test(tcase, *test);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
