/* softmax and log_softmax against the library's own, and against numbers made by hand. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

/* Each op of the exercise with the library's of that name. */
typedef struct {
    const char *words; /* in an error's sentence */
    const ct_op *op;
    ct_tensor *(*library)(ct_tensor *x, int dim);
} pair;
static const pair soft = {"softmax:", &softmax, ct_softmax},
                  log_soft = {"log_softmax:", &log_softmax, ct_log_softmax};

static ct_tensor *apply(pair p, ct_tensor *x) { return ct_apply(p.op, &x, 1, NULL); }

static void as_the_library(const char *what, pair p, ct_tensor *x) {
    ct_tensor *expected = p.library(x, -1); /* first: what writes to x cannot change it */
    course_value(what, apply(p, x), expected, 1e-12);
}

static void softmax_by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){0, log(2), log(5)});
    course_value("softmax of (0, ln 2, ln 5)", apply(soft, x),
                 course_f64(context, CT_SHAPE(3), (double[]){1.0 / 8, 2.0 / 8, 5.0 / 8}), 1e-12);
}

static void softmax_shapes(ct_context *context) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(17),   CT_SHAPE(2, 3, 4),
                               CT_SHAPE(4, 1), CT_SHAPE(0, 5), CT_SHAPE(5, 0)};
    for (int i = 0; i < 6; i++)
        as_the_library("softmax of each row", soft, course_randn(context, shapes[i]));
}

/* Each row needs its own maximum: e^1000 overflows, and with 1e300 taken off every e^x of the other
 * rows is 0. */
static void softmax_large(ct_context *context) {
    const double rows[] = {1000,      1001, 1002, -1000, -1001, -1002,
                           -INFINITY, 0,    0,    1e300, 0,     -1e300};
    as_the_library(
        "softmax of (1000, 1001, 1002), (-1000, -1001, -1002), (-inf, 0, 0), (1e300, 0, -1e300)",
        soft, course_f64(context, CT_SHAPE(4, 3), rows));
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *p) {
    (void)n;
    return apply(*(const pair *)p, in[0]);
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *p) {
    (void)n;
    return ((const pair *)p)->library(in[0], -1);
}

/* A gradient is worth something only if the function is the right one. */
static void gradient(ct_context *context, pair p) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4), CT_SHAPE(4, 1)};
    for (int i = 0; i < 3; i++) {
        as_the_library("the forward whose gradient is asked for", p,
                       course_randn(context, shapes[i]));
        course_gradient(p.op->name, p.op, NULL, (ct_tensor *[]){course_randn(context, shapes[i])},
                        1, (ct_gradcheck_opts){0});
    }
    ct_tensor *large = course_randn(context, CT_SHAPE(1, 20000));
    course_gradient_as("a row of 20,000", by_you, by_library, &p, &large, 1, 1e-9);
}
static void softmax_gradient(ct_context *context) { gradient(context, soft); }
static void log_softmax_gradient(ct_context *context) { gradient(context, log_soft); }

static void log_softmax_values(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){0, log(2), log(5)});
    ct_tensor *y =
        course_f64(context, CT_SHAPE(3), (double[]){log(1.0 / 8), log(2.0 / 8), log(5.0 / 8)});
    course_value("log_softmax of (0, ln 2, ln 5)", apply(log_soft, x), y, 1e-12);
    as_the_library("log_softmax of each row", log_soft, course_randn(context, CT_SHAPE(2, 3, 4)));
}

/* The probabilities are 0 in f64; their logarithms are not. */
static void log_softmax_large(ct_context *context) {
    as_the_library("log_softmax of (1000, 1001, 1002), (0, 1000, -1000), (-5000, -5000, -4000)",
                   log_soft,
                   course_f64(context, CT_SHAPE(3, 3),
                              (double[]){1000, 1001, 1002, 0, 1000, -1000, -5000, -5000, -4000}));
}

static void scalar_is_an_error(ct_context *context) {
    const pair pairs[] = {soft, log_soft};
    for (int i = 0; i < 2; i++) {
        as_the_library("one number, which is no error", pairs[i],
                       course_f64(context, CT_SHAPE(1), (double[]){3}));
        course_refused("a scalar", context,
                       apply(pairs[i], course_f64(context, CT_SCALAR, (double[]){3})), CT_ERR_SHAPE,
                       pairs[i].words);
    }
}

const course_test course_tests[] = {
    {"softmax_by_hand", 1, softmax_by_hand},
    {"softmax_shapes", 1, softmax_shapes},
    {"softmax_large", 1, softmax_large},
    {"softmax_gradient", 3, softmax_gradient},
    {"log_softmax_values", 1, log_softmax_values},
    {"log_softmax_large", 1, log_softmax_large},
    {"log_softmax_gradient", 1, log_softmax_gradient},
    {"scalar_is_an_error", 1, scalar_is_an_error},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
