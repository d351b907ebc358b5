/* dropout. The test draws the same numbers again, so the elements to drop are known. */
#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <string.h>

static ct_tensor *apply(ct_tensor *x, double p, bool training) {
    return ct_apply(&dropout, &x, 1, &(dropout_attrs){p, training});
}

static int64_t zeros_in(ct_tensor *y) {
    const double *numbers = ct_data_f64(ct_contiguous(y));
    int64_t zeros = 0;
    for (int64_t i = 0; i < ct_numel(y); i++) zeros += numbers[i] == 0;
    return zeros;
}

/* A call of dropout, and the state of the generator at its beginning. */
typedef struct {
    double p;
    bool training;
    ct_rng rng;
} call;

/* a + b on the tape */
static ct_tensor *both_forward(ct_call *c) { return ref_add(c->in[0], c->in[1]); }
static bool both_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)c;
    for (int i = 0; i < 2; i++) grad[i] = ref_copy(cotangents[0]);
    return grad[0] && grad[1];
}
static const ct_op both = {.name = "both", .forward = both_forward, .backward = both_backward};

static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    const call *c = arg;
    ct_context *context = ct_context_of(in[0]);
    const ct_rng now = ct_rng_get(context);
    ct_rng_set(context, c->rng);
    ct_tensor *out = apply(in[0], c->p, c->training);
    if (n == 2 && out) {
        ct_tensor *second = apply(in[1], c->p, c->training);
        out = second ? ct_apply(&both, (ct_tensor *[]){out, second}, 2, NULL) : NULL;
    }
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
    ONLY_KEPT_LEFT,
    ONE_A_COLUMN,
    DRAWN_TRANSPOSED,
    DRAWN_IN_REVERSE,
    DRAWN_LATER,
    DRAWN_BY_ROWS,
    COUNT_KEPT,
    COUNT_KEPT_IN_ROW,
    NORMAL,
    HALF_P,
    P_SQUARED,
    X_COMPARED,
    SIZE_COMPARED,
    FIRST_DROPPED,
    LAST_KEPT,
    FIRST_KEPT,
    DROPPED_ONE,
    DROPPED_NEGATED,
    DROPPED_KEPT,
    DROPPED_MEAN,
    TIMES_U,
    P_SUBTRACTED,
    EVALUATION_DIVIDES,
    NEXT_DRAWN
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
    [ONE_A_COLUMN] = {"when one number is drawn for each column, and all rows drop the same"},
    [DRAWN_TRANSPOSED] = {"when the numbers drawn are read column by column"},
    [DRAWN_IN_REVERSE] = {"when the numbers drawn are read from their end"},
    [DRAWN_LATER] = {"when something else is drawn before"},
    [DRAWN_BY_ROWS] = {"when each row has a ct_rand of its own, in place of one for all"},
    [COUNT_KEPT] = {"when what is kept is divided by the part that was kept by chance, and not by "
                    "1 - p"},
    [COUNT_KEPT_IN_ROW] = {"when what is kept is divided by the part of its row that was kept by "
                           "chance, and not by 1 - p"},
    [NORMAL] = {"with normal numbers (ct_randn) in place of uniform ones"},
    [HALF_P] = {"when those with u < p / 2 are dropped"},
    [P_SQUARED] = {"when those with u < p^2 are dropped"},
    [X_COMPARED] = {"when x < p decides, and not a number drawn"},
    [SIZE_COMPARED] = {"when |x| < p decides, and not a number drawn"},
    [FIRST_DROPPED] = {"when the first ones are dropped, p of all, and not those with u < p"},
    [LAST_KEPT] = {"when the last element is not looked at, and x is copied"},
    [FIRST_KEPT] = {"when the first element is not looked at, and x is copied"},
    [DROPPED_ONE] = {"when what is dropped becomes 1"},
    [DROPPED_NEGATED] = {"when what is dropped becomes -x"},
    [DROPPED_KEPT] = {"when what is dropped keeps its x, and is not set to 0"},
    [DROPPED_MEAN] = {"when what is dropped becomes the mean of x"},
    [TIMES_U] = {"when x is multiplied by the number drawn"},
    [P_SUBTRACTED] = {"when what is kept has p subtracted, and is not divided by 1 - p"},
    [EVALUATION_DIVIDES] = {"when evaluation divides by 1 - p"},
    [NEXT_DRAWN] = {"when each element is decided by the next one's number"},
};

static ct_tensor *draw(ct_tensor *x, course_set bits) {
    ct_context *context = ct_context_of(x);
    ct_shape shape = ct_shape_of(x);
    double u[256];
    const int64_t n = ct_numel(x), columns = shape.ndim ? shape.dim[shape.ndim - 1] : 1;
    if (bits >> DRAWN_TWICE & 1) ct_rand(context, CT_F64, shape);
    if (bits >> DRAWN_LATER & 1) ct_rand(context, CT_F64, CT_SCALAR);
    if (bits >> NORMAL & 1) return ct_randn(context, CT_F64, shape);
    if (bits >> ONE_FOR_ALL & 1) return ref_expand(ct_rand(context, CT_F64, CT_SCALAR), shape);
    if (bits >> ONE_A_COLUMN & 1) {
        if (n == 0 || columns == n) return NULL;
        ct_tensor *flat = ct_reshape(ct_rand(context, CT_F64, shape), CT_SHAPE(-1, columns));
        return ct_reshape(ref_expand(ct_narrow(flat, 0, 0, 1), CT_SHAPE(n / columns, columns)),
                          shape);
    }
    if (bits >> DRAWN_TRANSPOSED & 1) {
        if (shape.ndim < 2) return NULL;
        ct_shape other = shape;
        other.dim[shape.ndim - 1] = shape.dim[shape.ndim - 2];
        other.dim[shape.ndim - 2] = columns;
        return ct_transpose(ct_rand(context, CT_F64, other), -1, -2);
    }
    if (bits >> ONE_A_ROW & 1 && shape.ndim) shape.dim[shape.ndim - 1] = 1;
    const bool by_rows = bits >> DRAWN_BY_ROWS & 1;
    if (!(bits &
          (COURSE_BIT(DRAWN_BY_ONE) | COURSE_BIT(DRAWN_IN_REVERSE) | COURSE_BIT(NEXT_DRAWN))) &&
        !by_rows)
        return ct_rand(context, CT_F64, shape);
    if (n > 256 || n == 0) return NULL;
    if (bits >> DRAWN_BY_ONE & 1)
        for (int64_t i = 0; i < n; i++) u[i] = ct_item(ct_rand(context, CT_F64, CT_SCALAR));
    else if (by_rows)
        for (int64_t i = 0; i < n; i += columns)
            ct_to_f64(ct_rand(context, CT_F64, CT_SHAPE(columns)), u + i, columns);
    else ct_to_f64(ct_rand(context, CT_F64, shape), u, n);
    for (int64_t i = 0; i < n / 2 && bits >> DRAWN_IN_REVERSE & 1; i++) {
        const double other = u[i];
        u[i] = u[n - 1 - i], u[n - 1 - i] = other;
    }
    if (bits >> NEXT_DRAWN & 1) {
        const double first = u[0];
        memmove(u, u + 1, (size_t)(n - 1) * sizeof *u), u[n - 1] = first;
    }
    return ct_from_f64(context, shape, u);
}

/* A bool tensor, true for the elements of x that are dropped. */
static ct_tensor *gone_of(ct_tensor *x, double p, course_set bits) {
    ct_context *context = ct_context_of(x);
    ct_tensor *u = draw(x, bits);
    if (!u) return NULL;
    if (bits >> HALF_P & 1) p /= 2;
    if (bits >> P_SQUARED & 1) p *= p;
    if (bits >> X_COMPARED & 1) u = x;
    if (bits >> SIZE_COMPARED & 1) u = ref_abs(x);
    const int64_t n = ct_numel(x);
    bool gone[256];
    if (bits & (COURSE_BIT(FIRST_DROPPED) | COURSE_BIT(FIRST_KEPT) | COURSE_BIT(LAST_KEPT))) {
        if (n > 256 || n == 0 || ct_numel(u) != n) return NULL;
        for (int64_t i = 0; i < n; i++)
            gone[i] = bits >> FIRST_DROPPED & 1 ? (double)i < p * (double)n
                                                : ct_data_f64(ct_contiguous(u))[i] < p &&
                                                      i != (bits >> FIRST_KEPT & 1 ? 0 : n - 1);
        return ct_from_bool(context, ct_shape_of(x), gone);
    }
    return bits >> LARGE_DROPPED & 1 ? ref_gt(u, ct_full(context, CT_F64, CT_SCALAR, 1 - p))
                                     : ref_lt(u, ct_full(context, CT_F64, CT_SCALAR, p));
}

/* The kept elements, divided by the fraction that was kept, of all elements or of a row. */
static ct_tensor *over_count(ct_tensor *x, ct_tensor *gone, bool of_row) {
    ct_context *context = ct_context_of(x);
    ct_tensor *kept = ref_where(gone, ct_zeros(context, CT_F64, ct_shape_of(x)),
                                ct_ones(context, CT_F64, ct_shape_of(x)));
    return ref_div(ref_mul(x, kept), ref_mean(kept, of_row ? CT_DIMS(-1) : CT_ALL, true));
}

static ct_tensor *dropped(ct_tensor *x, double p, bool training, course_set bits) {
    ct_context *context = ct_context_of(x);
    if (bits >> TRAINING_IGNORED & 1) training = false;
    if (bits >> EVALUATION_DROPS & 1) training = true;
    if (!training)
        return ref_scale(x, bits >> EVALUATION_SCALED & 1    ? 1 - p
                            : bits >> EVALUATION_DIVIDES & 1 ? 1 / (1 - p)
                                                             : 1);
    double scale = 1 / (1 - p);
    if (bits >> NOT_SCALED & 1) scale = 1;
    if (bits >> SCALE_P & 1) scale = 1 / p;
    if (bits >> SCALE_TIMES & 1) scale = 1 - p;
    if (bits >> SCALE_ROOT & 1) scale = 1 / sqrt(1 - p);
    if (bits >> SCALE_SUM & 1) scale = 1 + p;
    if (bits >> SCALE_SQUARE & 1) scale *= scale;
    if (bits >> TIMES_U & 1) return ref_mul(x, ct_rand(context, CT_F64, ct_shape_of(x)));
    ct_tensor *gone = gone_of(x, p, bits);
    if (!gone) return NULL;
    if (bits >> KEPT_WITH_P & 1) gone = ref_logical_not(gone);
    gone = ref_expand(gone, ct_shape_of(x));
    ct_tensor *kept = ref_scale(x, scale);
    if (bits >> P_SUBTRACTED & 1) kept = ref_add_scalar(x, -p);
    if (bits >> P_ADDED & 1) return ref_where(gone, ref_scale(x, p), kept);
    if (bits >> DROPPED_NEGATED & 1) return ref_where(gone, ref_neg(x), kept);
    if (bits >> DROPPED_KEPT & 1) return ref_where(gone, x, kept);
    if (bits >> DROPPED_MEAN & 1)
        return ref_where(gone, ref_expand(ref_mean(x, CT_ALL, true), ct_shape_of(x)), kept);
    if (bits >> COUNT_KEPT & 1) return over_count(x, gone, false);
    if (bits >> COUNT_KEPT_IN_ROW & 1) return ct_ndim(x) ? over_count(x, gone, true) : NULL;
    if (bits >> ONLY_KEPT_LEFT & 1)
        return ref_masked_fill(ct_full(context, CT_F64, ct_shape_of(x), scale), gone, 0);
    return bits >> MULTIPLIED & 1 ? ref_scale(ref_masked_fill(x, gone, 0), scale)
                                  : ref_masked_fill(kept, gone, bits >> DROPPED_ONE & 1 ? 1 : 0);
}

/* The elements that are dropped, and the factor of the others. */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const call *c = arg;
    const double *x = ct_data_f64(in[0]), *y = ct_data_f64(ct_contiguous(got)),
                 *must = ct_data_f64(ct_contiguous(right));
    int64_t count = ct_numel(got), zeros = 0, wanted = 0, first = -1, same = 0, kept = 0;
    double factor = 0;
    if (n != 1 || !c->training) return;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(y[i])) return;
        zeros += y[i] == 0, wanted += must[i] == 0;
        if ((y[i] == 0) != (must[i] == 0) && first < 0) first = i;
        if (y[i] == 0) continue;
        if (kept++ == 0) factor = y[i] / x[i];
        same += fabs(y[i] / x[i] - factor) < 1e-9;
    }
    size_t at;
    if (first < 0) at = (size_t)snprintf(said, size, "the right ones are dropped");
    else
        at = (size_t)snprintf(said, size,
                              "of %d elements %d are 0, and %d must be: number %d is%s, "
                              "and must%s",
                              (int)count, (int)zeros, (int)wanted, (int)first,
                              y[first] == 0 ? "" : " not", y[first] == 0 ? " not" : "");
    if (kept && same == kept)
        snprintf(said + at, size - at, "; what is not 0 is x times %.8g, %s", factor,
                 fabs(factor - 1 / (1 - c->p)) < 1e-9 ? "as it must" : "and must be x / (1 - p)");
    else if (kept) snprintf(said + at, size - at, "; what is not 0 is not x times one number");
}

/* bits == 0: the right result */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    const call *c = arg;
    ct_context *context = ct_context_of(in[0]);
    const ct_rng now = ct_rng_get(context);
    ct_rng_set(context, c->rng);
    ct_tensor *out = dropped(in[0], c->p, c->training, bits);
    if (n == 2) out = ref_add(out, dropped(in[1], c->p, c->training, bits));
    ct_rng_set(context, now);
    return out;
}
static ct_tensor *by_reference(ct_tensor *const *in, int n, void *arg) {
    return variant(in, n, arg, 0);
}
/* Other numbers drawn: with few of them much is the same by chance. */
static void probe(ct_context *context, ct_tensor **in, void **arg) {
    static call c;
    c = *(const call *)*arg;
    c.p = c.p > 0 && c.p < 1 ? 0.45 : c.p;
    in[0] = course_randn(context, CT_SHAPE(6, 7)), *arg = &c;
}
static const char *const inputs[] = {"x: matrix, row, column", "the result: matrix, row, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static void compare(ct_context *context, const char *what, ct_tensor *x, double p, bool training,
                    double tolerance) {
    course_forward(what, &function, &(call){p, training, ct_rng_get(context)}, &x, 1, tolerance);
}
/* The gradient of the forward that was written: its mistakes, if they have names, cost the points
 * of other tests. Of two inputs the result is dropout(a) + dropout(b). */
static ct_tensor *drawn_by_you(ct_tensor *const *in, int n, void *arg) {
    const call *c = arg;
    ct_tensor *out = apply(in[0], c->p, c->training);
    if (n < 2 || !out) return out;
    ct_tensor *second = apply(in[1], c->p, c->training);
    return second ? ct_apply(&both, (ct_tensor *[]){out, second}, 2, NULL) : NULL;
}
static ct_tensor *drawn_as_yours(ct_tensor *const *in, int n, void *arg) {
    call c = *(const call *)arg;
    c.rng = ct_rng_get(ct_context_of(in[0]));
    return course_as_yours(&function, in, n, &c);
}
static void check_gradient(const char *what, call *c, ct_tensor *const *in, int n) {
    course_forward_first("the forward that is differentiated", &function, c, in, 1, 1e-12);
    course_own_forward(drawn_as_yours, c);
    course_gradient_of(what, drawn_by_you, c, in, n, (ct_gradcheck_opts){0});
    course_forgive();
}
static void large_gradient(ct_context *context, const char *what, int n, double p, bool training) {
    ct_tensor *in[] = {course_randn(context, CT_SHAPE(256, 256)),
                       course_randn(context, CT_SHAPE(256, 256))};
    course_gradient_as(what, by_you, by_reference, &(call){p, training, ct_rng_get(context)}, in, n,
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
    x = course_randn(context, CT_SHAPE(2, 3));
    check_gradient("evaluation", &(call){0.5, false, after}, &x, 1);
    large_gradient(context, "evaluation of (256, 256)", 1, 0.5, false);
}

static void training(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(2, 4), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    compare(context, "0 where u < 0.25, else x / 0.75, for x = 1 ... 8", x, 0.25, true, 1e-12);
    x = course_randn(context, CT_SHAPE(3, 5, 7));
    compare(context, "0 where u < 0.57, else x / 0.43", x, 0.57, true, 1e-12);
    x = course_f64(context, CT_SCALAR, (double[]){3});
    compare(context, "of a scalar", x, 0.1, true, 1e-12);
    x = course_randn(context, CT_SHAPE(0, 3));
    course_value("of no elements", apply(x, 0.1, true), x, 0);
}

/* A fifth of the elements is dropped, and the mean stays. With 10,000 draws the fraction has a
 * standard deviation of 0.004, and the mean of 0.005. */
static void mean_is_kept(ct_context *context) {
    ct_tensor *y = apply(ct_ones(context, CT_F64, CT_SHAPE(100, 100)), 0.2, true);
    if (!y) course_fail("%s", ct_error_message(context));
    const double dropped = (double)zeros_in(y) / 1e4, mean = ct_item(ref_mean(y, CT_ALL, false));
    if (fabs(dropped - 0.2) > 0.025)
        course_fail("with p = 0.2, %g of 10,000 ones are dropped", dropped);
    if (!(fabs(mean - 1) <= 0.03))
        course_fail("with p = 0.2, the mean of 10,000 ones is %g after dropout, not about 1", mean);
}

/* Fails also if nothing is dropped, or everything, because the gradient is then trivial. */
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
    ct_tensor *moved = ref_max(ref_abs(ref_sub(first, second)), CT_ALL, false);
    if (!moved) course_fail("%s", ct_error_message(context));
    if (ct_item(moved) == 0) course_fail("two calls drop the same of 100 elements");
    ct_rng_set(context, before);
    course_value("a call with the generator put back", apply(x, 0.5, true), first, 0);
}

static void gradient(ct_context *context) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 3, 4), CT_SHAPE(11)};
    for (int i = 0; i < 3; i++) {
        must_drop(context, 0.4);
        ct_tensor *x = course_randn(context, shapes[i]);
        check_gradient("x", &(call){0.4, true, ct_rng_get(context)}, &x, 1);
    }
    large_gradient(context, "x of (256, 256)", 1, 0.4, true);
}

/* Backward runs after both forwards, so each call must have kept its own mask. */
static void gradient_of_two_calls(ct_context *context) {
    must_drop(context, 0.3);
    ct_tensor *in[] = {course_randn(context, CT_SHAPE(3, 5)),
                       course_randn(context, CT_SHAPE(3, 5))};
    check_gradient("dropout(a) + dropout(b)", &(call){0.3, true, ct_rng_get(context)}, in, 2);
    large_gradient(context, "dropout(a) + dropout(b) of (256, 256)", 2, 0.3, true);
}

static void none_and_all(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){1, -2, 3});
    compare(context, "p = 0", x, 0, true, 1e-12);
    compare(context, "p = 1", x, 1, true, 0);
    check_gradient("p = 0", &(call){0, true, ct_rng_get(context)}, &x, 1);
    check_gradient("p = 1", &(call){1, true, ct_rng_get(context)}, &x, 1);
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
