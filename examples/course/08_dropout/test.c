/* dropout: which elements go is known, as the test can draw the same numbers again. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static ct_tensor *apply(ct_tensor *x, double p, bool training) {
    return ct_apply(&dropout, &x, 1, &(dropout_attrs){p, training});
}

/* What training must give, from the generator as it is now; it is left as it was. */
static ct_tensor *expected_of(ct_context *context, ct_tensor *x, double p) {
    const ct_rng now = ct_rng_get(context);
    ct_tensor *u = ct_rand(context, CT_F64, ct_shape_of(x));
    ct_rng_set(context, now);
    ct_tensor *dropped = ct_lt(u, ct_full(context, CT_F64, CT_SCALAR, p));
    return ct_masked_fill(ct_scale(x, 1 / (1 - p)), dropped, 0);
}

static int64_t zeros_in(ct_tensor *y) {
    const double *numbers = ct_data_f64(ct_contiguous(y));
    int64_t zeros = 0;
    for (int64_t i = 0; i < ct_numel(y); i++) zeros += numbers[i] == 0;
    return zeros;
}

/* With the generator as it was when the gradient was asked for. */
typedef struct {
    double p;
    bool training;
    ct_rng rng;
} call;
static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    const call *c = arg;
    ct_context *context = ct_context_of(in[0]);
    const ct_rng now = ct_rng_get(context);
    ct_rng_set(context, c->rng);
    ct_tensor *out = apply(in[0], c->p, c->training);
    if (n == 2) out = ct_add(out, apply(in[1], c->p, c->training));
    ct_rng_set(context, now);
    return out;
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *arg) {
    const call *c = arg;
    ct_context *context = ct_context_of(in[0]);
    const ct_rng now = ct_rng_get(context);
    ct_rng_set(context, c->rng);
    ct_tensor *out = NULL;
    for (int i = 0; i < n; i++) {
        ct_tensor *one = c->training ? expected_of(context, in[i], c->p) : ct_scale(in[i], 1);
        ct_rand(context, CT_F64, ct_shape_of(in[i])); /* as apply draws */
        out = i ? ct_add(out, one) : one;
    }
    ct_rng_set(context, now);
    return out;
}
static void large_gradient(ct_context *context, const char *what, int n, double p, bool training) {
    ct_tensor *in[] = {course_randn(context, CT_SHAPE(256, 256)),
                       course_randn(context, CT_SHAPE(256, 256))};
    course_gradient_as(what, by_you, by_library, &(call){p, training, ct_rng_get(context)}, in, n,
                       1e-9);
}

static void evaluation(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(2, 3), (double[]){1, -2, 3, 4, 5, -6});
    const ct_rng before = ct_rng_get(context);
    course_value("x, as nothing is dropped", apply(x, 0.5, false), x, 0);
    const ct_rng after = ct_rng_get(context);
    if (after.seed != before.seed || after.stream != before.stream)
        course_fail("numbers are drawn although nothing is dropped");
    course_gradient("evaluation", &dropout, &(dropout_attrs){0.5, false},
                    (ct_tensor *[]){course_randn(context, CT_SHAPE(2, 3))}, 1,
                    (ct_gradcheck_opts){0});
    large_gradient(context, "evaluation of (256, 256)", 1, 0.5, false);
}

static void training(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(2, 4), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    ct_tensor *expected = expected_of(context, x, 0.25);
    course_value("0 where u < 0.25, else x / 0.75, for x = 1 ... 8", apply(x, 0.25, true), expected,
                 1e-12);
    x = course_randn(context, CT_SHAPE(3, 5, 7)), expected = expected_of(context, x, 0.6);
    course_value("0 where u < 0.6, else x / 0.4", apply(x, 0.6, true), expected, 1e-12);
    x = course_f64(context, CT_SCALAR, (double[]){3}), expected = expected_of(context, x, 0.1);
    course_value("of a scalar", apply(x, 0.1, true), expected, 1e-12);
    x = course_randn(context, CT_SHAPE(0, 3));
    course_value("of no elements", apply(x, 0.1, true), x, 0);
}

/* A fifth of the elements goes, and the mean stays: 10,000 draws are off by 0.004 and 0.005,
 * usually. */
static void mean_is_kept(ct_context *context) {
    ct_tensor *y = apply(ct_ones(context, CT_F64, CT_SHAPE(100, 100)), 0.2, true);
    if (!y) course_fail("%s", ct_error_message(context));
    const double dropped = (double)zeros_in(y) / 1e4, mean = ct_item(ct_mean(y, CT_ALL, false));
    if (fabs(dropped - 0.2) > 0.025)
        course_fail("with p = 0.2, %g of 10,000 ones are dropped", dropped);
    if (!(fabs(mean - 1) <= 0.03))
        course_fail("with p = 0.2, the mean of 10,000 ones is %g after dropout, not about 1", mean);
}

/* Fails also where nothing is dropped, or all: the gradient of that is no question. */
static void must_drop(ct_context *context, double p) {
    const ct_rng before = ct_rng_get(context);
    ct_tensor *y = apply(ct_ones(context, CT_F64, CT_SHAPE(100)), p, true);
    if (!y) course_fail("%s", ct_error_message(context));
    const int64_t zeros = zeros_in(y);
    if (zeros == 0 || zeros == 100)
        course_fail("of 100 elements %d are dropped with p = %g: its gradient can wait", (int)zeros,
                    p);
    ct_rng_set(context, before);
}

static void another_mask_each_time(ct_context *context) {
    must_drop(context, 0.5);
    ct_tensor *x = ct_ones(context, CT_F64, CT_SHAPE(100));
    const ct_rng before = ct_rng_get(context);
    ct_tensor *first = apply(x, 0.5, true), *second = apply(x, 0.5, true);
    ct_tensor *moved = ct_max(ct_abs(ct_sub(first, second)), CT_ALL, false);
    if (!moved) course_fail("%s", ct_error_message(context));
    if (ct_item(moved) == 0) course_fail("two calls drop the same of 100 elements");
    ct_rng_set(context, before);
    course_value("a call with the generator put back", apply(x, 0.5, true), first, 0);
}

static void gradient(ct_context *context) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 3, 4), CT_SHAPE(11)};
    for (int i = 0; i < 3; i++) {
        must_drop(context, 0.4);
        course_gradient("x", &dropout, &(dropout_attrs){0.4, true},
                        (ct_tensor *[]){course_randn(context, shapes[i])}, 1,
                        (ct_gradcheck_opts){0});
    }
    large_gradient(context, "x of (256, 256)", 1, 0.4, true);
}

static ct_tensor *two_calls(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_add(apply(in[0], 0.3, true), apply(in[1], 0.6, true));
}

/* Backward runs when both forwards are over: what each drew must be its own. */
static void gradient_of_two_calls(ct_context *context) {
    must_drop(context, 0.3);
    ct_tensor *in[] = {course_randn(context, CT_SHAPE(3, 5)),
                       course_randn(context, CT_SHAPE(3, 5))};
    course_gradient_of("dropout(a) + dropout(b)", two_calls, NULL, in, 2, (ct_gradcheck_opts){0});
    large_gradient(context, "dropout(a) + dropout(b) of (256, 256)", 2, 0.3, true);
}

static void none_and_all(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){1, -2, 3});
    course_value("p = 0", apply(x, 0, true), x, 1e-12);
    course_value("p = 1", apply(x, 1, true), ct_zeros(context, CT_F64, CT_SHAPE(3)), 0);
    course_gradient("p = 0", &dropout, &(dropout_attrs){0, true}, &x, 1, (ct_gradcheck_opts){0});
    course_gradient("p = 1", &dropout, &(dropout_attrs){1, true}, &x, 1, (ct_gradcheck_opts){0});
}

static void errors(ct_context *context) {
    ct_tensor *x = ct_ones(context, CT_F64, CT_SHAPE(3));
    if (!apply(x, 0.5, true)) course_fail("p = 0.5: %s", ct_error_message(context));
    const double wrong[] = {-0.1, 1.5, NAN};
    for (int i = 0; i < 6; i++) {
        char what[64];
        snprintf(what, sizeof what, "p = %g, %s", wrong[i % 3], i < 3 ? "training" : "evaluation");
        course_refused(what, context, apply(x, wrong[i % 3], i < 3), CT_ERR_ARGUMENT, "dropout:");
    }
}

const course_test course_tests[] = {
    {"evaluation", 1, evaluation},     {"training", 1, training},
    {"mean_is_kept", 1, mean_is_kept}, {"another_mask_each_time", 1, another_mask_each_time},
    {"gradient", 3, gradient},         {"gradient_of_two_calls", 1, gradient_of_two_calls},
    {"none_and_all", 1, none_and_all}, {"errors", 1, errors},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
