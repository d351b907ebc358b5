/* rotary against the library's rope, against numbers made by hand, and for what it is good for. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static ct_tensor *yours(ct_tensor *x, rotary_attrs attrs) {
    return ct_apply(&rotary, &x, 1, &attrs);
}

/* The expected value comes first: who writes to the input does not change it. */
static void compare(const char *what, ct_tensor *x, rotary_attrs a, double tolerance) {
    ct_tensor *expected = ct_rope(
        x, (ct_rope_opts){.base = a.base, .offset = a.offset, .interleaved = a.interleaved});
    course_value(what, yours(x, a), expected, tolerance);
}

/* The example of README.md. */
static void by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(2, 4), (double[]){1, 2, 3, 4, 1, 2, 3, 4});
    const double c0 = cos(1), s0 = sin(1), c1 = cos(0.25), s1 = sin(0.25);
    ct_tensor *y = course_f64(
        context, CT_SHAPE(2, 4),
        (double[]){1, 2, 3, 4, c0 - 3 * s0, 2 * c1 - 4 * s1, s0 + 3 * c0, 2 * s1 + 4 * c1});
    course_value("the statement's example", yours(x, (rotary_attrs){.base = 16}), y, 1e-12);
}

static void shapes(ct_context *context) {
    const ct_shape shapes[] = {CT_SHAPE(1, 2), CT_SHAPE(7, 6), CT_SHAPE(3, 1, 4),
                               CT_SHAPE(2, 3, 5, 8), CT_SHAPE(2, 0, 4)};
    for (int i = 0; i < 5; i++)
        compare("pairs (j, j + d/2)", course_randn(context, shapes[i]),
                (rotary_attrs){.base = 10000}, 1e-12);
}

static void offset(ct_context *context) {
    compare("from position 5 on", course_randn(context, CT_SHAPE(2, 3, 4)),
            (rotary_attrs){.base = 100, .offset = 5}, 1e-12);
    compare("from position 1,000,000 on", course_randn(context, CT_SHAPE(2, 3, 4)),
            (rotary_attrs){.base = 10000, .offset = 1000000}, 1e-8);
}

/* <q at 3, k at 1> = <q at 12, k at 10>, and not <q at 3, k at 2>. */
static void distance(ct_context *context) {
    ct_tensor *q = course_randn(context, CT_SHAPE(1, 8)),
              *k = course_randn(context, CT_SHAPE(1, 8));
    const int64_t at[][2] = {{3, 1}, {12, 10}, {3, 2}};
    ct_tensor *score[3];
    for (int i = 0; i < 3; i++) {
        ct_tensor *turned_q =
            yours(ct_scale(q, 1), (rotary_attrs){.base = 100, .offset = at[i][0]});
        ct_tensor *turned_k =
            yours(ct_scale(k, 1), (rotary_attrs){.base = 100, .offset = at[i][1]});
        score[i] = ct_sum(ct_mul(turned_q, turned_k), CT_ALL, false);
        if (!score[i]) course_fail("%s", ct_error_message(context));
    }
    course_value(
        "the product of a query at 12 and a key at 10, expected that of the same at 3 and 1",
        score[1], score[0], 1e-12);
    if (fabs(ct_item(score[2]) - ct_item(score[0])) < 1e-6)
        course_fail("the product of a query and a key does not depend on their distance");
}

static void refused(ct_context *context) {
    const rotary_attrs attrs = {.base = 100};
    course_refused("a row of 5 columns", context,
                   yours(course_randn(context, CT_SHAPE(2, 5)), attrs), CT_ERR_SHAPE, "rotary:");
    course_refused("a tensor of one dim", context, yours(course_randn(context, CT_SHAPE(4)), attrs),
                   CT_ERR_SHAPE, "rotary:");
}

static void interleaved(ct_context *context) {
    compare("pairs (2j, 2j + 1)", course_randn(context, CT_SHAPE(2, 3, 8)),
            (rotary_attrs){.base = 100, .offset = 2, .interleaved = true}, 1e-12);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return yours(in[0], *(const rotary_attrs *)attrs);
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *attrs) {
    const rotary_attrs a = *(const rotary_attrs *)attrs;
    (void)n;
    return ct_rope(
        in[0], (ct_rope_opts){.base = a.base, .offset = a.offset, .interleaved = a.interleaved});
}

/* A gradient is only worth something of the right function. */
static void check_gradient(ct_context *context, const char *what, rotary_attrs attrs) {
    ct_tensor *x = course_randn(context, CT_SHAPE(2, 3, 6));
    compare("the forward that is differentiated", x, attrs, 1e-12);
    course_gradient(what, &rotary, &attrs, &x, 1, (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 32, 1024));
    course_gradient_as(what, by_you, by_library, &attrs, &x, 1, 1e-9);
}

static void gradient(ct_context *context) {
    check_gradient(context, "pairs (j, j + d/2), from position 0", (rotary_attrs){.base = 100});
    check_gradient(context, "pairs (j, j + d/2), from position 4",
                   (rotary_attrs){.base = 100, .offset = 4});
}

static void gradient_interleaved(ct_context *context) {
    check_gradient(context, "pairs (2j, 2j + 1), from position 4",
                   (rotary_attrs){.base = 100, .offset = 4, .interleaved = true});
}

const course_test course_tests[] = {
    {"by_hand", 2, by_hand},   {"shapes", 1, shapes},
    {"offset", 1, offset},     {"distance", 1, distance},
    {"refused", 1, refused},   {"interleaved", 1, interleaved},
    {"gradient", 2, gradient}, {"gradient_interleaved", 1, gradient_interleaved},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
