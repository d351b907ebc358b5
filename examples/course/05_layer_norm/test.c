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

static ct_tensor *by_you(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return apply((operands){{in[0], in[1], in[2]}, *(layer_norm_attrs *)attrs});
}

enum {
    EPS_OUTSIDE,
    EPS_MISSING,
    EPS_FIXED,
    BESSEL,
    NO_ROOT,
    MEAN_KEPT,
    NO_MEAN,
    ABOUT_ZERO,
    SQUARES_SUMMED,
    MEAN_SUMMED,
    OVER_ALL,
    DOWN_COLUMNS,
    FIRST_ROW,
    NO_WEIGHT,
    NO_BIAS,
    BIAS_INSIDE,
    EXCHANGED,
    WEIGHT_MORE,
    BIAS_SUBTRACTED,
    ABSOLUTE,
    MULTIPLIED,
    NO_VARIANCE,
    WEIGHT_FIRST,
    LAST_LOST,
    MEAN_LESS,
    EPS_SQUARED,
    FIRST_WEIGHT,
    WEIGHT_OF_ROW
};
static const course_mistake mistakes[] = {
    [EPS_OUTSIDE] = {"when eps is added to the root, and not to the variance under it"},
    [EPS_MISSING] = {"without eps"},
    [EPS_FIXED] = {"with 1e-5 in place of the attribute eps"},
    [BESSEL] = {"when the variance is divided by D - 1, not D"},
    [NO_ROOT] = {"when it is divided by var + eps, and not by the root of that"},
    [MEAN_KEPT] = {"when the mean is not taken off x above the line"},
    [NO_MEAN] = {"without the mean: x / sqrt(mean x^2 + eps), which is RMS norm"},
    [ABOUT_ZERO] = {"with the mean of x^2 for the variance"},
    [SQUARES_SUMMED] = {"when the squares are summed and not divided by D"},
    [MEAN_SUMMED] = {"with the sum for the mean: it is not divided by D"},
    [OVER_ALL] = {"with one mean and variance of all rows together"},
    [DOWN_COLUMNS] = {"with mean and variance of columns, not rows"},
    [FIRST_ROW] = {"with mean and variance of the first row for all rows"},
    [NO_WEIGHT] = {"without the weight", true},
    [NO_BIAS] = {"without the bias", true},
    [BIAS_INSIDE] = {"when the bias is added before the weight multiplies: (z + b) w"},
    [EXCHANGED] = {"with weight and bias exchanged: z b + w"},
    [WEIGHT_MORE] = {"with 1 + w in place of w"},
    [BIAS_SUBTRACTED] = {"when the bias is subtracted"},
    [ABSOLUTE] = {"with the mean of |x - mean| in place of the root of the variance"},
    [MULTIPLIED] = {"when z is multiplied by the root, and not divided"},
    [NO_VARIANCE] = {"when x - mean is not divided by anything", true},
    [WEIGHT_FIRST] = {"when x is multiplied by the weight before it is normed"},
    [LAST_LOST] = {"when mean and variance lack the row's last number"},
    [MEAN_LESS] = {"when the sum is divided by D - 1 for the mean, too"},
    [FIRST_WEIGHT] = {"with the first weight and bias for all columns"},
    [WEIGHT_OF_ROW] = {"with weight and bias of the row's number, not of the column's"},
    [EPS_SQUARED] = {"with eps^2 under the root"},
};

/* bits == 0: the library's own */
static ct_tensor *variant(ct_tensor *const *in, int n, void *attrs, course_set bits) {
    double eps = ((layer_norm_attrs *)attrs)->eps;
    ct_tensor *x = in[0], *w = in[1], *b = in[2], *from = x;
    (void)n;
    if (!bits) return ct_layer_norm(x, w, b, eps);
    const ct_shape dims = bits >> OVER_ALL & 1       ? CT_ALL
                          : bits >> DOWN_COLUMNS & 1 ? CT_DIMS(0)
                                                     : CT_DIMS(-1);
    if (bits >> EPS_MISSING & 1) eps = 0;
    if (bits >> EPS_FIXED & 1) eps = 1e-5;
    if (bits >> EPS_SQUARED & 1) eps *= eps;
    if (bits >> WEIGHT_FIRST & 1) from = x = ct_mul(x, w);
    if (bits >> FIRST_ROW & 1)
        from = ct_narrow(ct_reshape(x, CT_SHAPE(-1, ct_dim(x, -1))), 0, 0, 1);
    if (bits >> LAST_LOST & 1) from = ct_narrow(from, -1, 0, ct_dim(from, -1) - 1);
    const double size = (double)ct_dim(from, -1);
    ct_tensor *mean = ct_mean(from, dims, true);
    if (bits >> MEAN_SUMMED & 1) mean = ct_sum(from, dims, true);
    if (bits >> MEAN_LESS & 1) mean = ct_scale(mean, size / (size - 1));
    if (bits >> NO_MEAN & 1) mean = ct_scale(mean, 0);
    ct_tensor *off = ct_sub(from, mean);
    ct_tensor *var = ct_mean(ct_mul(off, off), dims, true);
    if (bits >> ABOUT_ZERO & 1) var = ct_mean(ct_mul(from, from), dims, true);
    if (bits & (COURSE_BIT(BESSEL) | COURSE_BIT(MEAN_LESS))) var = ct_scale(var, size / (size - 1));
    if (bits >> SQUARES_SUMMED & 1) var = ct_scale(var, size);
    const bool outside = bits >> EPS_OUTSIDE & 1;
    ct_tensor *divisor = bits >> NO_ROOT & 1 ? ct_add_scalar(var, eps)
                         : outside           ? ct_add_scalar(ct_sqrt(var), eps)
                                             : ct_sqrt(ct_add_scalar(var, eps));
    if (bits >> ABSOLUTE & 1) divisor = ct_add_scalar(ct_mean(ct_abs(off), dims, true), eps);
    ct_tensor *z = bits >> MEAN_KEPT & 1 ? x : ct_sub(x, mean);
    if (bits >> MULTIPLIED & 1) z = ct_mul(z, divisor);
    else if (!(bits >> NO_VARIANCE & 1)) z = ct_div(z, divisor);
    if (bits >> EXCHANGED & 1) w = in[2], b = in[1];
    if (bits >> FIRST_WEIGHT & 1) w = ct_narrow(w, 0, 0, 1), b = ct_narrow(b, 0, 0, 1);
    if (bits >> WEIGHT_OF_ROW & 1) {
        const int64_t count = ct_numel(x) / ct_dim(x, -1);
        ct_shape rows = ct_shape_of(x);
        rows.dim[rows.ndim - 1] = 1;
        if (count > ct_dim(x, -1)) return NULL;
        w = ct_reshape(ct_narrow(w, 0, 0, count), rows);
        b = ct_reshape(ct_narrow(b, 0, 0, count), rows);
    }
    if (bits >> WEIGHT_MORE & 1) w = ct_add_scalar(w, 1);
    if (bits >> BIAS_SUBTRACTED & 1) b = ct_neg(b);
    if (bits >> BIAS_INSIDE & 1) b = ct_mul(b, w);
    if (!(bits & (COURSE_BIT(NO_WEIGHT) | COURSE_BIT(WEIGHT_FIRST)))) z = ct_mul(z, w);
    return bits >> NO_BIAS & 1 ? z : ct_add(z, b);
}
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes);

static void as_the_library(const char *what, operands o, double tolerance) {
    course_forward(what, &function, &o.attrs, o.in, 3, tolerance);
}
static void first_as_the_library(operands o) {
    course_forward_first("the forward whose gradient is asked for", &function, &o.attrs, o.in, 3,
                         1e-12);
}

static void by_hand(ct_context *context) {
    operands o = {{course_f64(context, CT_SHAPE(4), (double[]){-3, -3, 5, 5}),
                   course_f64(context, CT_SHAPE(4), (double[]){1, 2, 3, 4}),
                   course_f64(context, CT_SHAPE(4), (double[]){0, 0, 10, 10})},
                  {9}};
    as_the_library(
        "layer_norm of (-3, -3, 5, 5) with weight (1, 2, 3, 4), bias (0, 0, 10, 10) and eps 9", o,
        1e-12);
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
    return course_as_yours(&function, f.o.in, 3, &f.o.attrs);
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
        first_as_the_library(random_operands(context, all[i]));
        one_input f = {random_operands(context, all[i]), 0};
        course_gradient_of("x", of_one_input, &f, &f.o.in[0], 1, (ct_gradcheck_opts){0});
    }
    large_gradient(context, 0, "x of rows of 20,000");
}

/* All three at once, as in training: what is set for one must not spoil another. */
static void gradients_together(ct_context *context) {
    first_as_the_library(random_operands(context, CT_SHAPE(3, 5)));
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
