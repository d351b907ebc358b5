/* layer_norm against the library's own, and against numbers made by hand. */
#include "../course.h"
#include "exercise.h"

/* x, weight and bias, with eps. */
typedef struct {
    ct_tensor *in[3];
    layer_norm_attrs attrs;
} operands;

static operands random_operands(ct_context *context, ct_shape x) {
    const ct_shape row = CT_SHAPE(x.dim[x.ndim - 1]);
    return (operands){
        {course_randn(context, x), course_randn(context, row), course_randn(context, row)}, {1e-5}};
}

static ct_tensor *apply(operands o) { return ct_apply(&layer_norm, o.in, 3, &o.attrs); }

static void as_the_library(const char *what, operands o, double tolerance) {
    /* first: what writes to an input cannot change it */
    ct_tensor *expected = ct_layer_norm(o.in[0], o.in[1], o.in[2], o.attrs.eps);
    course_value(what, apply(o), expected, tolerance);
}

static void by_hand(ct_context *context) {
    operands o = {{course_f64(context, CT_SHAPE(4), (double[]){-3, -3, 5, 5}),
                   course_f64(context, CT_SHAPE(4), (double[]){1, 2, 3, 4}),
                   course_f64(context, CT_SHAPE(4), (double[]){0, 0, 10, 10})},
                  {9}};
    course_value(
        "layer_norm of (-3, -3, 5, 5) with weight (1, 2, 3, 4), bias (0, 0, 10, 10) and eps 9",
        apply(o), course_f64(context, CT_SHAPE(4), (double[]){-0.8, -1.6, 12.4, 13.2}), 1e-12);
}

static void shapes(ct_context *context) {
    const ct_shape all[] = {CT_SHAPE(3, 5), CT_SHAPE(17), CT_SHAPE(2, 3, 4), CT_SHAPE(4, 1),
                            CT_SHAPE(0, 5)};
    for (int i = 0; i < 5; i++)
        as_the_library("layer_norm of each row", random_operands(context, all[i]), 1e-12);
    operands same = random_operands(context, CT_SHAPE(2, 3));
    same.in[0] = course_f64(context, CT_SHAPE(2, 3), (double[]){7, 7, 7, 0, 0, 0});
    as_the_library("layer_norm of a row of equal numbers", same, 1e-12);
}

/* Moving a row does not change its norm. Each number here is exact in f64; its square is not. */
static void far_from_zero(ct_context *context) {
    operands o = random_operands(context, CT_SHAPE(2, 4));
    const double near[] = {1, 2, 4, 8, 3, 1, 4, 1}, far = 1073741824; /* 2^30 */
    double x[8];
    for (int i = 0; i < 8; i++) x[i] = near[i] + far;
    o.in[0] = course_f64(context, CT_SHAPE(2, 4), near);
    ct_tensor *expected = ct_layer_norm(o.in[0], o.in[1], o.in[2], o.attrs.eps);
    o.in[0] = course_f64(context, CT_SHAPE(2, 4), x);
    course_value("layer_norm of (1, 2, 4, 8) and (3, 1, 4, 1), each plus 2^30", apply(o), expected,
                 1e-9);
}

/* The gradient of one input; the others are fixed. */
typedef struct {
    operands o;
    int which;
} one_input;

static ct_tensor *of_one_input(ct_tensor *const *in, int n, void *arg) {
    one_input f = *(const one_input *)arg;
    (void)n;
    f.o.in[f.which] = in[0];
    return apply(f.o);
}

static ct_tensor *of_one_input_by_library(ct_tensor *const *in, int n, void *arg) {
    one_input f = *(const one_input *)arg;
    (void)n;
    f.o.in[f.which] = in[0];
    return ct_layer_norm(f.o.in[0], f.o.in[1], f.o.in[2], f.o.attrs.eps);
}
static void large_gradient(ct_context *context, int which, const char *what) {
    one_input f = {random_operands(context, CT_SHAPE(2, 20000)), which};
    course_gradient_as(what, of_one_input, of_one_input_by_library, &f, &f.o.in[which], 1, 1e-9);
}

/* A result that does not depend on an input has the gradient 0, which is right and worth
 * nothing. */
static void must_depend(ct_context *context, one_input f, const char *what) {
    ct_tensor *y = apply(f.o);
    f.o.in[f.which] = ct_add_scalar(f.o.in[f.which], 1);
    ct_tensor *moved = ct_max(ct_abs(ct_sub(apply(f.o), y)), CT_ALL, false);
    if (!moved) course_fail("%s", ct_error_message(context));
    if (ct_item(moved) == 0)
        course_fail("forward gives the same for every %s: its gradient can wait", what);
}

static void gradient(ct_context *context, int which, const char *what) {
    const ct_shape all[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4)};
    for (int i = 0; i < 2; i++) {
        one_input f = {random_operands(context, all[i]), which};
        must_depend(context, f, what);
        course_gradient_of(what, of_one_input, &f, &f.o.in[which], 1, (ct_gradcheck_opts){0});
    }
}
static void gradient_of_bias(ct_context *context) {
    gradient(context, 2, "bias");
    large_gradient(context, 2, "bias of rows of 20,000");
}
static void gradient_of_weight(ct_context *context) {
    gradient(context, 1, "weight");
    large_gradient(context, 1, "weight of rows of 20,000");
}

/* The gradient of x is worth something only if the function is the right one. */
static void gradient_of_x(ct_context *context) {
    const ct_shape all[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4), CT_SHAPE(4, 1)};
    for (int i = 0; i < 3; i++) {
        as_the_library("the forward whose gradient is asked for", random_operands(context, all[i]),
                       1e-12);
        one_input f = {random_operands(context, all[i]), 0};
        course_gradient_of("x", of_one_input, &f, &f.o.in[0], 1, (ct_gradcheck_opts){0});
    }
    large_gradient(context, 0, "x of rows of 20,000");
}

/* All three at once, as in training: what is set for one must not spoil another. */
static void gradients_together(ct_context *context) {
    as_the_library("the forward whose gradient is asked for",
                   random_operands(context, CT_SHAPE(3, 5)), 1e-12);
    operands o = random_operands(context, CT_SHAPE(3, 5));
    course_gradient("x, weight and bias", &layer_norm, &o.attrs, o.in, 3, (ct_gradcheck_opts){0});
    large_gradient(context, 0, "x of rows of 20,000");
}

static void errors(ct_context *context) {
    operands right = random_operands(context, CT_SHAPE(3, 4)), o = right;
    if (!apply(right)) course_fail("shapes that fit: %s", ct_error_message(context));
    o.in[1] = course_randn(context, CT_SHAPE(3));
    course_refused("x (3, 4) and weight (3)", context, apply(o), CT_ERR_SHAPE, "layer_norm:");
    o = right, o.in[2] = course_randn(context, CT_SHAPE(4, 1));
    course_refused("x (3, 4) and bias (4, 1)", context, apply(o), CT_ERR_SHAPE, "layer_norm:");
    o = right, o.in[0] = course_randn(context, CT_SCALAR);
    course_refused("x a scalar", context, apply(o), CT_ERR_SHAPE, "layer_norm:");
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"shapes", 1, shapes},
    {"far_from_zero", 1, far_from_zero},
    {"gradient_of_bias", 1, gradient_of_bias},
    {"gradient_of_weight", 1, gradient_of_weight},
    {"gradient_of_x", 3, gradient_of_x},
    {"gradients_together", 1, gradients_together},
    {"errors", 1, errors},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
