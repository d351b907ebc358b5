/* dropout: which elements go is known, as the test can draw the same numbers again. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static ct_tensor *apply(ct_tensor *x, double p, bool training) {
    return ct_apply(&dropout, &x, 1, &(dropout_attrs){p, training});
}

static int64_t zeros_in(ct_tensor *y) {
    const double *numbers = ct_data_f64(ct_contiguous(y));
    int64_t zeros = 0;
    for (int64_t i = 0; i < ct_numel(y); i++) zeros += numbers[i] == 0;
    return zeros;
}

/* With the generator as it was when the value or the gradient was asked for. */
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

enum {
    NOT_SCALED,
    SCALE_P,
    SCALE_TIMES,
    SCALE_ROOT,
    SCALE_SUM,
    SCALE_SQUARE,
    KEPT_WITH_P,
    DRAWN_TWICE,
    DRAWN_BY_ONE,
    ONE_FOR_ALL,
    ONE_A_ROW,
    TRAINING_IGNORED,
    EVALUATION_SCALED,
    EVALUATION_DROPS,
    LARGE_DROPPED,
    MULTIPLIED,
    P_ADDED,
    ONLY_KEPT_LEFT
};
static const course_mistake mistakes[] = {
    [NOT_SCALED] = {"when what is kept is not divided by 1 - p"},
    [SCALE_P] = {"when what is kept is divided by p, and not by 1 - p"},
    [SCALE_TIMES] = {"when what is kept is multiplied by 1 - p, and not divided"},
    [SCALE_ROOT] = {"when what is kept is divided by the root of 1 - p"},
    [SCALE_SUM] = {"when what is kept is multiplied by 1 + p"},
    [SCALE_SQUARE] = {"when what is kept is divided by 1 - p twice"},
    [KEPT_WITH_P] = {"when those with u < p are kept, and the others dropped"},
    [DRAWN_TWICE] = {"when numbers are drawn twice, and the second ones used"},
    [DRAWN_BY_ONE] = {"when each element has a ct_rand of its own, in place of one for all"},
    [ONE_FOR_ALL] = {"when one number is drawn for all elements"},
    [ONE_A_ROW] = {"when one number is drawn for each row"},
    [TRAINING_IGNORED] = {"when nothing is dropped, as in evaluation", true},
    [EVALUATION_SCALED] = {"when evaluation multiplies by 1 - p"},
    [EVALUATION_DROPS] = {"when evaluation drops as training does"},
    [LARGE_DROPPED] = {"when those with u > 1 - p are dropped, and not those with u < p"},
    [MULTIPLIED] =
        {"when what is dropped is multiplied by 0 and by 1 / (1 - p), which is infinite"},
    [P_ADDED] = {"when what is dropped becomes x p"},
    [ONLY_KEPT_LEFT] = {"when the mask is given, and not x times the mask"},
};

static ct_tensor *draw(ct_tensor *x, course_set bits) {
    ct_context *context = ct_context_of(x);
    ct_shape shape = ct_shape_of(x);
    double u[256];
    if (bits >> DRAWN_TWICE & 1) ct_rand(context, CT_F64, shape);
    if (bits >> ONE_FOR_ALL & 1) return ct_expand(ct_rand(context, CT_F64, CT_SCALAR), shape);
    if (bits >> ONE_A_ROW & 1 && shape.ndim) shape.dim[shape.ndim - 1] = 1;
    if (!(bits >> DRAWN_BY_ONE & 1)) return ct_rand(context, CT_F64, shape);
    if (ct_numel(x) > 256) return NULL;
    for (int64_t i = 0; i < ct_numel(x); i++) u[i] = ct_item(ct_rand(context, CT_F64, CT_SCALAR));
    return ct_from_f64(context, shape, u);
}

static ct_tensor *dropped(ct_tensor *x, double p, bool training, course_set bits) {
    ct_context *context = ct_context_of(x);
    if (bits >> TRAINING_IGNORED & 1) training = false;
    if (bits >> EVALUATION_DROPS & 1) training = true;
    if (!training) return ct_scale(x, bits >> EVALUATION_SCALED & 1 ? 1 - p : 1);
    double scale = 1 / (1 - p);
    if (bits >> NOT_SCALED & 1) scale = 1;
    if (bits >> SCALE_P & 1) scale = 1 / p;
    if (bits >> SCALE_TIMES & 1) scale = 1 - p;
    if (bits >> SCALE_ROOT & 1) scale = 1 / sqrt(1 - p);
    if (bits >> SCALE_SUM & 1) scale = 1 + p;
    if (bits >> SCALE_SQUARE & 1) scale *= scale;
    ct_tensor *u = draw(x, bits);
    if (!u) return NULL;
    ct_tensor *gone = bits >> LARGE_DROPPED & 1
                          ? ct_gt(u, ct_full(context, CT_F64, CT_SCALAR, 1 - p))
                          : ct_lt(u, ct_full(context, CT_F64, CT_SCALAR, p));
    if (bits >> KEPT_WITH_P & 1) gone = ct_logical_not(gone);
    if (bits >> P_ADDED & 1) return ct_where(gone, ct_scale(x, p), ct_scale(x, scale));
    if (bits >> ONLY_KEPT_LEFT & 1)
        return ct_masked_fill(ct_full(context, CT_F64, ct_shape_of(x), scale), gone, 0);
    return bits >> MULTIPLIED & 1 ? ct_scale(ct_masked_fill(x, gone, 0), scale)
                                  : ct_masked_fill(ct_scale(x, scale), gone, 0);
}

/* bits == 0: what must come out */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    const call *c = arg;
    ct_context *context = ct_context_of(in[0]);
    const ct_rng now = ct_rng_get(context);
    ct_rng_set(context, c->rng);
    ct_tensor *out = dropped(in[0], c->p, c->training, bits);
    if (n == 2) out = ct_add(out, dropped(in[1], c->p, c->training, bits));
    ct_rng_set(context, now);
    return out;
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *arg) {
    return variant(in, n, arg, 0);
}
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes);

static void compare(ct_context *context, const char *what, ct_tensor *x, double p, bool training,
                    double tolerance) {
    course_forward(what, &function, &(call){p, training, ct_rng_get(context)}, &x, 1, tolerance);
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
    compare(context, "x, as nothing is dropped", x, 0.5, false, 0);
    ct_rng_set(context, before);
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
    compare(context, "0 where u < 0.25, else x / 0.75, for x = 1 ... 8", x, 0.25, true, 1e-12);
    x = course_randn(context, CT_SHAPE(3, 5, 7));
    compare(context, "0 where u < 0.6, else x / 0.4", x, 0.6, true, 1e-12);
    x = course_f64(context, CT_SCALAR, (double[]){3});
    compare(context, "of a scalar", x, 0.1, true, 1e-12);
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
    compare(context, "p = 0", x, 0, true, 1e-12);
    compare(context, "p = 1", x, 1, true, 0);
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
