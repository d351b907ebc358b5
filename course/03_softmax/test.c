/* softmax and log_softmax against plain loops, and against numbers made by hand. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

/* An op of the exercise, and the same by plain loops. */
typedef struct {
    const char *words; /* in an error's sentence */
    const ct_op *op;
    ct_tensor *(*reference)(ct_tensor *x, int dim);
} pair;
static const pair soft = {"softmax:", &softmax, ref_softmax},
                  log_soft = {"log_softmax:", &log_softmax, ref_log_softmax};

static ct_tensor *apply(pair p, ct_tensor *x) { return ct_apply(p.op, &x, 1, NULL); }

static ct_tensor *by_you(ct_tensor *const *in, int n, void *p) {
    (void)n;
    return apply(*(const pair *)p, in[0]);
}

enum {
    FIRST_DIM,
    ALL_DIMS,
    SIGMOID,
    NOT_DIVIDED,
    NO_EXPONENTIAL,
    NEGATED,
    SUM_WITHOUT_FIRST,
    SUM_WITHOUT_LAST,
    SUM_GOES_ON,
    NO_MAXIMUM,
    MAXIMUM_OF_ALL,
    MAXIMUM_FROM_ZERO,
    MAXIMUM_LOST,
    OTHER_OP,
    BASE_2,
    BASE_10,
    POWER_OF_2,
    TWICE,
    ROOT_OF_N,
    NORM,
    MAXIMUM_DIVIDES,
    LOG_OF_SOFTMAX,
    LOG_DIVIDES,
    LOG_ADDED,
    MAXIMUM_ABOVE_ALONE,
    MAXIMUM_TWICE,
    MAXIMUM_ADDED,
    SUM_WITHOUT_ITSELF,
    SUM_FROM_ONE,
    MEAN_FOR_SUM,
    OVER_N,
    OVER_LARGEST,
    OVER_FIRST,
    OVER_LAST,
    OVER_OWN_SUM_SO_FAR,
    SQUARED_SCORES,
    ABSOLUTE_SCORES,
    TIMES_2,
    ROOT,
    SQUARES,
    ONE_MINUS,
    LARGEST_ALONE,
    MINIMUM,
    MEAN_OFF,
    FIRST_OFF,
    LAST_NOT_DIVIDED,
    FIRST_NOT_DIVIDED,
    SUM_OF_FIRST_ROW,
    SUM_OF_ROW_BEFORE,
    LOG_NEGATED,
    LOG_OF_MEAN,
    LOG1P,
    NO_LOG,
    LOG_SIGMOID,
    OVER_MIDDLE,
    MAXIMUM_GOES_ON,
    MAXIMUM_WITHOUT_LAST,
    MAXIMUM_OF_SIZES
};
static const course_mistake mistakes[] = {
    [FIRST_DIM] = {"when the sum is over the wrong dim, the first: columns, not rows"},
    [ALL_DIMS] = {"when one sum is made of all rows"},
    [SIGMOID] = {"with a sigmoid: each score for itself", true},
    [NOT_DIVIDED] = {"when nothing is divided by the sum", true},
    [NO_EXPONENTIAL] = {"without e^x: x_i / sum x_j"},
    [NEGATED] = {"with e^-x in place of e^x"},
    [SUM_WITHOUT_FIRST] = {"when the sum lacks the row's first number: i begins at 1"},
    [SUM_WITHOUT_LAST] = {"when the sum lacks the row's last number"},
    [SUM_GOES_ON] = {"when the sum is not set back to 0 for each row"},
    [NO_MAXIMUM] = {"when no maximum is taken off before e^x"},
    [MAXIMUM_OF_ALL] = {"when all rows share one maximum"},
    [MAXIMUM_FROM_ZERO] = {"when the search for the maximum begins with 0"},
    [MAXIMUM_LOST] = {"when the maximum is taken off in the sum alone: it belongs to x_i, too"},
    [OTHER_OP] = {"when softmax gives the logarithm, or log_softmax does not"},
    [BASE_2] = {"with a logarithm to base 2"},
    [BASE_10] = {"with a logarithm to base 10"},
    [POWER_OF_2] = {"with 2^x in place of e^x"},
    [TWICE] = {"when softmax is applied twice"},
    [ROOT_OF_N] = {"when the scores are divided by sqrt n"},
    [NORM] = {"when e^x is divided by the root of the sum of its squares"},
    [MAXIMUM_DIVIDES] = {"when x is divided by the maximum, which must be subtracted"},
    [LOG_DIVIDES] = {"when the logarithm of the sum divides: the logarithm of a quotient is a "
                     "difference"},
    [LOG_ADDED] = {"when the logarithm of the sum is added, and not subtracted"},
    [MAXIMUM_ABOVE_ALONE] = {"when the maximum is taken off x_i alone, and not in the sum"},
    [MAXIMUM_TWICE] = {"when the maximum is taken off twice, once more than in the sum"},
    [MAXIMUM_ADDED] = {"when the maximum is added where it must be subtracted"},
    [SUM_WITHOUT_ITSELF] = {"when the sum is over the others alone, without x_i itself"},
    [SUM_FROM_ONE] = {"when the sum begins with 1, and not 0"},
    [MEAN_FOR_SUM] = {"with the mean of the exponentials in place of their sum"},
    [OVER_N] = {"when the result is divided by n, too"},
    [OVER_LARGEST] = {"when e^x is divided by the largest one, and not by the sum"},
    [OVER_FIRST] = {"when e^x is divided by the row's first one, and not by the sum"},
    [OVER_LAST] = {"when e^x is divided by the row's last one, and not by the sum"},
    [OVER_OWN_SUM_SO_FAR] = {"when each is divided by the sum as it is so far, in the same loop"},
    [SQUARED_SCORES] = {"with e^(x^2) in place of e^x"},
    [ABSOLUTE_SCORES] = {"with e^|x| in place of e^x"},
    [TIMES_2] = {"with e^(2x) in place of e^x"},
    [ROOT] = {"when x is divided by n before e^x"},
    [SQUARES] = {"with x^2 in place of e^x"},
    [ONE_MINUS] = {"with 1 - p in place of p"},
    [LARGEST_ALONE] = {"with 1 for the largest and 0 for others", true},
    [MINIMUM] = {"when the minimum is taken off where it must be the maximum"},
    [MEAN_OFF] = {"when the mean is taken off where it must be the maximum"},
    [FIRST_OFF] = {"when the row's first number is taken for its maximum"},
    [LAST_NOT_DIVIDED] = {"when a row's last number is not divided by the sum"},
    [FIRST_NOT_DIVIDED] = {"when a row's first number is not divided by the sum"},
    [SUM_OF_FIRST_ROW] = {"when every row is divided by the first one's sum"},
    [SUM_OF_ROW_BEFORE] = {"when a row is divided by the sum of the one before"},
    [LOG_NEGATED] = {"with the sign of the logarithm reversed: -ln p"},
    [LOG_OF_MEAN] = {"with the logarithm of the mean of the exponentials"},
    [LOG1P] = {"with ln(1 + sum) in place of ln sum"},
    [NO_LOG] = {"when the sum is subtracted, and not its logarithm"},
    [LOG_SIGMOID] = {"with p ln p in place of ln p"},
    [OVER_MIDDLE] = {"when sums are over the last dim but one"},
    [MAXIMUM_GOES_ON] = {"when the maximum is not set back for each row: it is that of all rows so "
                         "far"},
    [MAXIMUM_WITHOUT_LAST] = {"when the search for the maximum leaves out the row's last number"},
    [MAXIMUM_OF_SIZES] = {"when the largest absolute value is taken for the maximum"},
    [LOG_OF_SOFTMAX] = {"when the logarithm is taken of a softmax that is 0 already"},
};

/* The rows of x (..., 1), each with the maximum of the rows before it, or the row's. */
static ct_tensor *of_rows(ct_tensor *x, bool largest) {
    ct_tensor *flat = ct_reshape(x, CT_SHAPE(-1));
    const int64_t n = ct_numel(flat);
    if (n < 2 || n > 64) return NULL;
    ct_tensor *row[64];
    for (int64_t i = 0; i < n; i++)
        row[i] = largest ? ref_max(ct_narrow(flat, 0, 0, i + 1), CT_DIMS(0), true)
                         : ct_narrow(flat, 0, i ? i - 1 : 0, 1);
    return ct_reshape(ref_cat(row, (int)n, 0), ct_shape_of(x));
}

/* The number that is subtracted from x before e^x. */
static ct_tensor *taken_off(ct_tensor *x, ct_shape dims, course_set bits) {
    ct_tensor *from = ct_detach(x);
    const int64_t n = ct_dim(x, -1);
    if (bits >> MINIMUM & 1) return ref_neg(ref_max(ref_neg(from), dims, true));
    if (bits >> MEAN_OFF & 1) return ref_mean(from, dims, true);
    if (bits >> FIRST_OFF & 1) return ct_narrow(from, -1, 0, 1);
    if (bits >> MAXIMUM_WITHOUT_LAST & 1) from = n > 1 ? ct_narrow(from, -1, 0, n - 1) : from;
    if (bits >> MAXIMUM_OF_SIZES & 1) from = ref_abs(from);
    ct_tensor *max = ref_max(from, bits >> MAXIMUM_OF_ALL & 1 ? CT_ALL : dims, true);
    if (bits >> MAXIMUM_GOES_ON & 1) max = of_rows(max, true);
    if (max && bits >> MAXIMUM_FROM_ZERO & 1) max = ref_relu(max);
    if (max && bits >> NO_MAXIMUM & 1) max = ref_scale(max, 0);
    if (max && bits >> POWER_OF_2 & 1) max = ref_scale(max, log(2));
    if (max && bits >> MAXIMUM_ADDED & 1) max = ref_neg(max);
    return max;
}

/* The divisor of the exponentials e. */
static ct_tensor *sum_of(ct_tensor *e, ct_shape dims, course_set bits) {
    const int64_t n = ct_dim(e, -1);
    ct_tensor *counted = e;
    if (bits >> SUM_WITHOUT_FIRST & 1) counted = ct_narrow(e, -1, 1, n - 1);
    if (bits >> SUM_WITHOUT_LAST & 1) counted = ct_narrow(e, -1, 0, n - 1);
    ct_tensor *sum = ref_sum(counted, dims, true);
    if (bits >> NORM & 1) sum = ref_sqrt(ref_sum(ref_mul(e, e), dims, true));
    if (bits >> OVER_LARGEST & 1) sum = ref_max(e, dims, true);
    if (bits >> OVER_FIRST & 1) sum = ct_narrow(e, -1, 0, 1);
    if (bits >> OVER_LAST & 1) sum = ct_narrow(e, -1, n - 1, 1);
    if (bits >> OVER_OWN_SUM_SO_FAR & 1) sum = ref_cumsum(e, -1);
    if (bits >> SUM_GOES_ON & 1)
        sum = ct_reshape(ref_cumsum(ct_reshape(sum, CT_SHAPE(-1)), 0), ct_shape_of(sum));
    if (bits >> SUM_OF_FIRST_ROW & 1)
        sum = ref_expand(ct_narrow(ct_reshape(sum, CT_SHAPE(-1)), 0, 0, 1), ct_shape_of(sum));
    if (bits >> SUM_OF_ROW_BEFORE & 1) sum = of_rows(sum, false);
    if (sum && bits >> SUM_FROM_ONE & 1) sum = ref_add_scalar(sum, 1);
    if (sum && bits & (COURSE_BIT(MEAN_FOR_SUM) | COURSE_BIT(LOG_OF_MEAN)))
        sum = ref_scale(sum, 1 / (double)n);
    if (sum && bits >> SUM_WITHOUT_ITSELF & 1) sum = ref_sub(sum, e);
    return sum;
}

static ct_tensor *softmax_variant(ct_tensor *scores, ct_tensor *max, ct_tensor *e, ct_tensor *sum,
                                  course_set bits) {
    const int64_t n = ct_dim(e, -1);
    if (bits >> MAXIMUM_ABOVE_ALONE & 1) sum = ref_mul(sum, ref_exp(max));
    if (bits >> MAXIMUM_LOST & 1) e = ref_exp(scores);
    if (bits >> MAXIMUM_TWICE & 1) e = ref_mul(e, ref_exp(ref_neg(max)));
    ct_tensor *y = ref_div(e, sum);
    if (bits >> LAST_NOT_DIVIDED & 1)
        y = ref_cat((ct_tensor *[]){ct_narrow(y, -1, 0, n - 1), ct_narrow(e, -1, n - 1, 1)}, 2, -1);
    if (bits >> FIRST_NOT_DIVIDED & 1)
        y = ref_cat((ct_tensor *[]){ct_narrow(e, -1, 0, 1), ct_narrow(y, -1, 1, n - 1)}, 2, -1);
    if (bits >> OVER_N & 1) y = ref_scale(y, 1 / (double)n);
    if (bits >> ONE_MINUS & 1) y = ref_add_scalar(ref_neg(y), 1);
    return bits >> TWICE & 1 ? ref_softmax(y, -1) : y;
}

static ct_tensor *log_variant(ct_tensor *scores, ct_tensor *max, ct_tensor *e, ct_tensor *sum,
                              course_set bits) {
    if (bits >> TWICE & 1) return ref_log_softmax(ref_div(e, sum), -1);
    if (bits >> LOG_OF_SOFTMAX & 1) return ref_log(ref_div(e, sum));
    if (bits >> ONE_MINUS & 1) return ref_log(ref_add_scalar(ref_neg(ref_div(e, sum)), 1));
    if (bits >> MAXIMUM_ABOVE_ALONE & 1) sum = ref_mul(sum, ref_exp(max));
    if (bits >> MAXIMUM_TWICE & 1) scores = ref_sub(scores, max);
    if (bits >> LOG1P & 1) sum = ref_add_scalar(sum, 1);
    if (!(bits >> NO_LOG & 1)) sum = ref_log(sum);
    if (bits >> BASE_2 & 1) sum = ref_scale(sum, 1 / log(2));
    if (bits >> BASE_10 & 1) sum = ref_scale(sum, 1 / log(10));
    if (bits >> LOG_DIVIDES & 1) return ref_div(ref_sub(scores, max), sum);
    if (bits >> LOG_ADDED & 1) sum = ref_neg(sum);
    ct_tensor *y = ref_sub(bits >> MAXIMUM_LOST & 1 ? scores : ref_sub(scores, max), sum);
    if (bits >> OVER_N & 1) y = ref_scale(y, 1 / (double)ct_dim(y, -1));
    if (bits >> LOG_SIGMOID & 1) y = ref_mul(y, ref_exp(y));
    return bits >> LOG_NEGATED & 1 ? ref_neg(y) : y;
}

/* bits == 0: the right one */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    const pair *p = arg;
    const bool logarithm = (p->op == &log_softmax) != (bits >> OTHER_OP & 1);
    if (bits >> OVER_MIDDLE & 1 && ct_ndim(in[0]) < 3) return NULL;
    const ct_shape dims = bits >> ALL_DIMS & 1      ? CT_ALL
                          : bits >> FIRST_DIM & 1   ? CT_DIMS(0)
                          : bits >> OVER_MIDDLE & 1 ? CT_DIMS(-2)
                                                    : CT_DIMS(-1);
    (void)n;
    ct_tensor *x = in[0], *scores = x;
    if (!bits) return p->reference(x, -1);
    if (bits >> SIGMOID & 1) return logarithm ? ref_log(ref_sigmoid(x)) : ref_sigmoid(x);
    if (bits >> LARGEST_ALONE & 1)
        return logarithm ? NULL : ref_one_hot(ref_argmax(x, -1), ct_dim(x, -1));
    if (bits >> NEGATED & 1) scores = x = ref_neg(x);
    if (bits >> SQUARED_SCORES & 1) scores = x = ref_mul(x, x);
    if (bits >> ABSOLUTE_SCORES & 1) scores = x = ref_abs(x);
    if (bits >> TIMES_2 & 1) scores = x = ref_scale(x, 2);
    if (bits >> ROOT & 1) scores = x = ref_scale(x, 1 / (double)ct_dim(x, -1));
    if (bits >> POWER_OF_2 & 1) scores = ref_scale(x, log(2));
    if (bits >> ROOT_OF_N & 1) scores = x = ref_scale(x, 1 / sqrt((double)ct_dim(x, -1)));
    ct_tensor *max = taken_off(x, dims, bits);
    if (!max) return NULL;
    ct_tensor *e = bits >> NO_EXPONENTIAL & 1 ? x
                   : bits >> SQUARES & 1      ? ref_mul(x, x)
                                              : ref_exp(ref_sub(scores, max));
    if (bits >> MAXIMUM_DIVIDES & 1) e = ref_exp(ref_div(scores, max));
    ct_tensor *sum = sum_of(e, dims, bits);
    if (!sum) return NULL;
    if (bits >> NOT_DIVIDED & 1) return logarithm ? ref_sub(scores, max) : e;
    return (logarithm ? log_variant : softmax_variant)(scores, max, e, sum, bits);
}

static void probe(ct_context *context, ct_tensor **in, void **arg) {
    (void)arg;
    in[0] = ref_scale(course_randn(context, CT_SHAPE(2, 3, 4)), 2);
}

/* a of y = e^(a x - c) or y = a x - c; NAN if y is neither, or has only two numbers, which always
 * fit. */
static double slope_of(const double *x, const double *y, int64_t columns, bool logarithm) {
    double slope = NAN;
    for (int64_t i = 1; i < columns; i++) {
        const double up = logarithm ? y[i] - y[0] : log(y[i] / y[0]), here = up / (x[i] - x[0]);
        if (i > 1 && !(fabs(here - slope) < 1e-7)) return NAN;
        slope = here;
    }
    return columns > 2 ? slope : NAN;
}

/* Names the row in which e^x, or x, has a wrong divisor, or a wrong number is subtracted: y = e^(x
 * - c) or x - c. */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const bool logarithm = ((const pair *)arg)->op == &log_softmax;
    const int64_t columns = ct_dim(got, -1), count = columns ? ct_numel(got) / columns : 0;
    const double *x = ct_data_f64(in[0]), *y = ct_data_f64(got), *z = ct_data_f64(right);
    (void)n;
    for (int64_t row = 0; row < count; row++, x += columns, y += columns, z += columns) {
        double off = 0, must = 0;
        int64_t same = 0, wrong = 0, finite = 0;
        for (int64_t i = 0; i < columns; i++) {
            const double here = x[i] - (logarithm ? y[i] : log(y[i]));
            if (i == 0) off = here, must = x[i] - (logarithm ? z[i] : log(z[i]));
            finite += isfinite(here);
            same += fabs(here - off) < 1e-9;
            wrong += fabs(y[i] - z[i]) > 1e-9;
        }
        if (columns < 2 || wrong == 0 || finite < columns) continue;
        const char *form = logarithm ? "x" : "e^x";
        if (same == columns && !logarithm && off > 700)
            snprintf(said, size, "row %d is e^x divided by e^%.8g, and must be divided by e^%.8g",
                     (int)row, off, must);
        else if (same == columns)
            snprintf(said, size,
                     "row %d is %s %s one number, %.8g, and must be %s %.8g: look at what "
                     "is %s",
                     (int)row, form, logarithm ? "minus" : "divided by", logarithm ? off : exp(off),
                     logarithm ? "minus" : "divided by", logarithm ? must : exp(must),
                     logarithm ? "subtracted" : "summed");
        else {
            const double slope = slope_of(x, y, columns, logarithm);
            if (isfinite(slope))
                snprintf(said, size, "row %d is that of %.8g x in place of x", (int)row, slope);
            else
                snprintf(said, size, "row %d is not %s %s one number for all of the row", (int)row,
                         form, logarithm ? "minus" : "divided by");
        }
        return;
    }
}
static const char *const inputs[] = {"x: matrix, row, column", "the result: matrix, row, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *p) {
    return course_as_yours(&function, in, n, p);
}

static void as_the_reference(const char *what, pair p, ct_tensor *x) {
    course_forward(what, &function, &p, &x, 1, 1e-12);
}

static void softmax_by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){0, log(2), log(5)});
    as_the_reference("softmax of (0, ln 2, ln 5)", soft, x);
    course_value("softmax of (0, ln 2, ln 5)", apply(soft, x),
                 course_f64(context, CT_SHAPE(3), (double[]){1.0 / 8, 2.0 / 8, 5.0 / 8}), 1e-12);
}

static void softmax_shapes(ct_context *context) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(17),   CT_SHAPE(2, 3, 4),
                               CT_SHAPE(4, 1), CT_SHAPE(0, 5), CT_SHAPE(5, 0)};
    for (int i = 0; i < 6; i++)
        as_the_reference("softmax of each row", soft, course_randn(context, shapes[i]));
}

/* Each row needs its own maximum: e^1000 overflows, and if 1e300 is subtracted every e^x of the
 * other rows is 0. */
static void softmax_large(ct_context *context) {
    const double rows[] = {1000,      1001, 1002, -1000, -1001, -1002,
                           -INFINITY, 0,    0,    1e300, 0,     -1e300};
    as_the_reference(
        "softmax of (1000, 1001, 1002), (-1000, -1001, -1002), (-inf, 0, 0), (1e300, 0, -1e300)",
        soft, course_f64(context, CT_SHAPE(4, 3), rows));
}

/* y (g - sum of g y), or g - e^y sum of g, with a part of it left out or wrong. */
enum { NO_SUM, SUM_WITHOUT_Y, OF_LAST, NOT_TIMES_Y, SUM_ADDED };
static ct_tensor *gradient_with(ct_tensor *const *in, ct_tensor *g, bool logarithm, int part) {
    const ct_shape row = CT_DIMS(-1);
    ct_tensor *y = ref_softmax(in[0], -1),
              *term = logarithm || part == SUM_WITHOUT_Y ? g : ref_mul(g, y);
    if (part == OF_LAST) term = ct_narrow(term, -1, ct_dim(g, -1) - 1, 1);
    ct_tensor *sum = ref_scale(ref_sum(term, row, true), part == NO_SUM      ? 0
                                                         : part == SUM_ADDED ? -1
                                                                             : 1);
    if (logarithm) return ref_sub(g, part == NOT_TIMES_Y ? sum : ref_mul(y, sum));
    ct_tensor *off = ref_sub(g, sum);
    return part == NOT_TIMES_Y ? off : ref_mul(y, off);
}
#define GRADIENT_WITH(name, logarithm, part)                                                       \
    static ct_tensor *name(ct_tensor *const *in, ct_tensor *g, const void *attrs) {                \
        return (void)attrs, gradient_with(in, g, logarithm, part);                                 \
    }
GRADIENT_WITH(no_sum, false, NO_SUM)
GRADIENT_WITH(sum_without_y, false, SUM_WITHOUT_Y)
GRADIENT_WITH(sum_of_last, false, OF_LAST)
GRADIENT_WITH(not_times_y, false, NOT_TIMES_Y)
GRADIENT_WITH(sum_added, false, SUM_ADDED)
GRADIENT_WITH(log_no_sum, true, NO_SUM)
GRADIENT_WITH(log_sum_of_last, true, OF_LAST)
GRADIENT_WITH(log_not_times_y, true, NOT_TIMES_Y)
GRADIENT_WITH(log_sum_added, true, SUM_ADDED)
static const course_wrong_gradient of_softmax[] = {
    {"in dx = y (g - sum of g y) the sum is missing: every output depends on every x", 0, no_sum},
    {"in dx = y (g - sum of g y) the sum is that of g, without y", 0, sum_without_y},
    {"in dx = y (g - sum of g y) the sum is the last g y alone: = or =+ in place of +=", 0,
     sum_of_last},
    {"in dx = y (g - sum of g y) the factor y is missing", 0, not_times_y},
    {"in dx = y (g - sum of g y) the sum is added, and must be subtracted", 0, sum_added},
};
static const course_wrong_gradient of_log_softmax[] = {
    {"in dx = g - e^y sum of g the sum is missing: every output depends on every x", 0, log_no_sum},
    {"in dx = g - e^y sum of g the sum is the last g alone: = or =+ in place of +=", 0,
     log_sum_of_last},
    {"in dx = g - e^y sum of g the factor e^y, the softmax, is missing", 0, log_not_times_y},
    {"in dx = g - e^y sum of g the sum is added, and must be subtracted", 0, log_sum_added},
};

/* A gradient is worth something only if the function is the right one. */
static void gradient(ct_context *context, pair p) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4), CT_SHAPE(4, 1)};
    for (int i = 0; i < 3; i++) {
        ct_tensor *x = course_randn(context, shapes[i]);
        course_forward_first("the forward whose gradient is asked for", &function, &p, &x, 1,
                             1e-12);
        const bool logarithm = p.op == &log_softmax;
        course_name_gradient(p.op, NULL, &x, 1, logarithm ? of_log_softmax : of_softmax,
                             logarithm ? sizeof of_log_softmax / sizeof *of_log_softmax
                                       : sizeof of_softmax / sizeof *of_softmax);
        course_gradient(p.op->name, p.op, NULL, &x, 1, (ct_gradcheck_opts){0});
    }
    ct_tensor *large = course_randn(context, CT_SHAPE(1, 20000));
    course_gradient_as("a row of 20,000", by_you, by_reference, &p, &large, 1, 1e-9);
}
static void softmax_gradient(ct_context *context) { gradient(context, soft); }
static void log_softmax_gradient(ct_context *context) { gradient(context, log_soft); }

static void log_softmax_values(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){0, log(2), log(5)});
    ct_tensor *y =
        course_f64(context, CT_SHAPE(3), (double[]){log(1.0 / 8), log(2.0 / 8), log(5.0 / 8)});
    as_the_reference("log_softmax of (0, ln 2, ln 5)", log_soft, x);
    course_value("log_softmax of (0, ln 2, ln 5)", apply(log_soft, x), y, 1e-12);
    as_the_reference("log_softmax of each row", log_soft, course_randn(context, CT_SHAPE(2, 3, 4)));
}

/* The probabilities are 0 in f64; their logarithms are not. */
static void log_softmax_large(ct_context *context) {
    as_the_reference("log_softmax of (1000, 1001, 1002), (0, 1000, -1000), (-5000, -5000, -4000)",
                     log_soft,
                     course_f64(context, CT_SHAPE(3, 3),
                                (double[]){1000, 1001, 1002, 0, 1000, -1000, -5000, -5000, -4000}));
}

static void scalar_is_an_error(ct_context *context) {
    const pair pairs[] = {soft, log_soft};
    for (int i = 0; i < 2; i++) {
        as_the_reference("one number, which is no error", pairs[i],
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
