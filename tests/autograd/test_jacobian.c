/* ct_jacobian: both matrices against closed forms, the noise, and the results of a wrong or failing
 * backward. */
#include "tests/support/cases.h"
#include "src/autograd/tape.h"

#include "jacobian_check.h"

/* ---- functions ---- */

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

int main(void) {
    return run_tests(
        "jacobian", open_context, close_context,
        TESTS(TEST(of_each_element), TEST(of_softmax), TEST(of_two_inputs),
              TEST(of_broadcast_inputs), TEST(of_numbers), TEST(of_views), TEST(of_other_inputs),
              TEST(without_a_gradient), TEST(given_twice), TEST(zero_sizes), TEST(steps_and_noise),
              TEST(curvature), TEST(not_finite), TEST(right_backwards_are_within_the_noise),
              TEST(weighted_rows), TEST(unit_cotangents), TEST(noise_of_a_sum),
              TEST(cotangents_of_f32), TEST(a_wrong_backward), TEST(a_backward_that_fails)));
}
