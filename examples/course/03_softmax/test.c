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
    LOG_ADDED
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
    [LOG_OF_SOFTMAX] = {"when the logarithm is taken of a softmax that is 0 already"},
};

/* bits == 0: the library's own */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    const pair *p = arg;
    const bool logarithm = (p->op == &log_softmax) != (bits >> OTHER_OP & 1);
    const ct_shape dims = bits >> ALL_DIMS & 1    ? CT_ALL
                          : bits >> FIRST_DIM & 1 ? CT_DIMS(0)
                                                  : CT_DIMS(-1);
    (void)n;
    ct_tensor *x = in[0], *scores = x;
    if (!bits) return p->library(x, -1);
    if (bits >> SIGMOID & 1) return logarithm ? ct_log(ct_sigmoid(x)) : ct_sigmoid(x);
    if (bits >> NEGATED & 1) scores = x = ct_neg(x);
    if (bits >> POWER_OF_2 & 1) scores = ct_scale(x, log(2));
    if (bits >> ROOT_OF_N & 1) scores = x = ct_scale(x, 1 / sqrt((double)ct_dim(x, -1)));
    ct_tensor *max = ct_max(ct_detach(x), bits >> MAXIMUM_OF_ALL & 1 ? CT_ALL : dims, true);
    if (bits >> MAXIMUM_FROM_ZERO & 1) max = ct_relu(max);
    if (bits >> NO_MAXIMUM & 1) max = ct_scale(max, 0);
    if (bits >> POWER_OF_2 & 1) max = ct_scale(max, log(2));
    ct_tensor *e = bits >> NO_EXPONENTIAL & 1 ? x : ct_exp(ct_sub(scores, max));
    if (bits >> MAXIMUM_DIVIDES & 1) e = ct_exp(ct_div(scores, max));
    ct_tensor *counted = e;
    if (bits >> SUM_WITHOUT_FIRST & 1) counted = ct_narrow(e, -1, 1, ct_dim(e, -1) - 1);
    if (bits >> SUM_WITHOUT_LAST & 1) counted = ct_narrow(e, -1, 0, ct_dim(e, -1) - 1);
    ct_tensor *sum = ct_sum(counted, dims, true);
    if (bits >> NORM & 1) sum = ct_sqrt(ct_sum(ct_mul(e, e), dims, true));
    if (bits >> SUM_GOES_ON & 1)
        sum = ct_reshape(ct_cumsum(ct_reshape(sum, CT_SHAPE(-1)), 0), ct_shape_of(sum));
    if (bits >> NOT_DIVIDED & 1) return logarithm ? ct_sub(scores, max) : e;
    if (!logarithm) return bits >> TWICE & 1 ? ct_softmax(ct_div(e, sum), -1) : ct_div(e, sum);
    if (bits >> TWICE & 1) return ct_log_softmax(ct_div(e, sum), -1);
    if (bits >> LOG_OF_SOFTMAX & 1) return ct_log(ct_div(e, sum));
    sum = ct_log(sum);
    if (bits >> BASE_2 & 1) sum = ct_scale(sum, 1 / log(2));
    if (bits >> BASE_10 & 1) sum = ct_scale(sum, 1 / log(10));
    if (bits >> LOG_DIVIDES & 1) return ct_div(ct_sub(scores, max), sum);
    if (bits >> LOG_ADDED & 1) sum = ct_neg(sum);
    return ct_sub(bits >> MAXIMUM_LOST & 1 ? scores : ct_sub(scores, max), sum);
}
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes);

static ct_tensor *by_library(ct_tensor *const *in, int n, void *p) {
    return course_as_yours(&function, in, n, p);
}

static void as_the_library(const char *what, pair p, ct_tensor *x) {
    course_forward(what, &function, &p, &x, 1, 1e-12);
}

static void softmax_by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(3), (double[]){0, log(2), log(5)});
    as_the_library("softmax of (0, ln 2, ln 5)", soft, x);
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

/* A gradient is worth something only if the function is the right one. */
static void gradient(ct_context *context, pair p) {
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4), CT_SHAPE(4, 1)};
    for (int i = 0; i < 3; i++) {
        course_forward_first("the forward whose gradient is asked for", &function, &p,
                             (ct_tensor *[]){course_randn(context, shapes[i])}, 1, 1e-12);
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
    as_the_library("log_softmax of (0, ln 2, ln 5)", log_soft, x);
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
