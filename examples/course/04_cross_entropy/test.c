/* cross_entropy against the library's own, and against numbers made by hand. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

enum { IGNORE = -100 };

/* Logits with targets, and which of these is to be ignored. */
typedef struct {
    ct_tensor *logits, *targets;
    cross_entropy_attrs attrs;
} batch;

static batch batch_of(ct_context *context, ct_tensor *logits, const int64_t *targets, int64_t n,
                      int64_t ignore) {
    ct_tensor *t = ct_from_i64(context, CT_SHAPE(n), targets);
    if (!t) course_fail("the test itself: %s", ct_error_message(context));
    return (batch){logits, t, {ignore}};
}

static ct_tensor *loss(batch b) {
    return ct_apply(&cross_entropy, (ct_tensor *[]){b.logits, b.targets}, 2, &b.attrs);
}

/* The library ignores -100 alone: so that is what the ignored targets become for it. */
static ct_tensor *library_loss(batch b) {
    ct_tensor *ignored = ct_eq(b.targets, ct_full(ct_context_of(b.targets), CT_I64, CT_SCALAR,
                                                  (double)b.attrs.ignore_index));
    return ct_cross_entropy(b.logits, ct_masked_fill(b.targets, ignored, IGNORE),
                            (ct_cross_entropy_opts){0});
}

static void value(const char *what, batch b) {
    ct_tensor *expected = library_loss(b); /* first: what writes to the logits cannot change it */
    course_value(what, loss(b), expected, 1e-12);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    batch b = *(const batch *)arg;
    (void)n;
    b.logits = in[0];
    return loss(b);
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *arg) {
    batch b = *(const batch *)arg;
    (void)n;
    b.logits = in[0];
    return library_loss(b);
}
static void large_gradient(ct_context *context, const char *what, const int64_t *targets) {
    batch b = batch_of(context, course_randn(context, CT_SHAPE(3, 20000)), targets, 3, IGNORE);
    course_gradient_as(what, by_you, by_library, &b, &b.logits, 1, 1e-9);
}

/* A gradient is worth something only if the function is the right one. */
static void check_gradient(const char *what, batch b) {
    value("the forward whose gradient is asked for", b);
    course_gradient(what, &cross_entropy, &b.attrs, (ct_tensor *[]){b.logits, b.targets}, 2,
                    (ct_gradcheck_opts){0});
}

static void one_row_by_hand(ct_context *context) {
    batch b = batch_of(context, course_f64(context, CT_SHAPE(1, 3), (double[]){0, log(2), log(5)}),
                       (int64_t[]){1}, 1, IGNORE);
    course_value("the loss of (0, ln 2, ln 5) with target 1", loss(b),
                 course_f64(context, CT_SCALAR, (double[]){log(4)}), 1e-12);
}

static void mean_of_rows(ct_context *context) {
    const double logits[] = {0, log(2), log(5), log(3), 0, 0};
    batch b = batch_of(context, course_f64(context, CT_SHAPE(2, 3), logits), (int64_t[]){1, 0}, 2,
                       IGNORE);
    course_value("the loss of (0, ln 2, ln 5) and (ln 3, 0, 0) with targets 1 and 0", loss(b),
                 course_f64(context, CT_SCALAR, (double[]){log(20.0 / 3) / 2}), 1e-12);
    value("the loss of 5 rows", batch_of(context, course_randn(context, CT_SHAPE(5, 7)),
                                         (int64_t[]){6, 0, 3, 3, 1}, 5, IGNORE));
    value(
        "the loss where there is one class",
        batch_of(context, course_randn(context, CT_SHAPE(3, 1)), (int64_t[]){0, 0, 0}, 3, IGNORE));
}

/* e^1000 overflows, and the probability of the last target is 0 in f64: its logarithm is not. */
static void large_logits(ct_context *context) {
    ct_tensor *wide = course_f64(context, CT_SHAPE(1, 3), (double[]){1000, 0, -1000});
    ct_tensor *low = course_f64(context, CT_SHAPE(1, 3), (double[]){-1001, -1000, -1002});
    value("logits (1000, 0, -1000), target 0", batch_of(context, wide, (int64_t[]){0}, 1, IGNORE));
    value("logits (1000, 0, -1000), target 2", batch_of(context, wide, (int64_t[]){2}, 1, IGNORE));
    value("logits (-1001, -1000, -1002), target 1",
          batch_of(context, low, (int64_t[]){1}, 1, IGNORE));
}

static void gradient_by_hand(ct_context *context) {
    ct_tensor *logits = ct_set_requires_grad(
        course_f64(context, CT_SHAPE(1, 3), (double[]){0, log(2), log(5)}), true);
    ct_backward(loss(batch_of(context, logits, (int64_t[]){1}, 1, IGNORE)));
    course_value("the gradient of (0, ln 2, ln 5) with target 1", ct_grad(logits),
                 course_f64(context, CT_SHAPE(1, 3), (double[]){1.0 / 8, -6.0 / 8, 5.0 / 8}),
                 1e-12);
}

static void gradient(ct_context *context) {
    check_gradient("4 rows of 5", batch_of(context, course_randn(context, CT_SHAPE(4, 5)),
                                           (int64_t[]){2, 0, 4, 2}, 4, IGNORE));
    check_gradient("3 rows of 1", batch_of(context, course_randn(context, CT_SHAPE(3, 1)),
                                           (int64_t[]){0, 0, 0}, 3, IGNORE));
    large_gradient(context, "3 rows of 20,000", (int64_t[]){7, 19999, 0});
}

/* Also an index that is a class, as that of a padding token. */
static void ignored_rows(ct_context *context) {
    ct_tensor *logits = course_randn(context, CT_SHAPE(5, 4));
    value("rows 1 and 4 ignored by -100",
          batch_of(context, logits, (int64_t[]){1, -100, 3, 0, -100}, 5, -100));
    value("rows 1 and 3 ignored by 0", batch_of(context, logits, (int64_t[]){1, 0, 3, 0, 2}, 5, 0));
}

static void ignored_rows_gradient(ct_context *context) {
    check_gradient("rows 1 and 4 ignored by -100",
                   batch_of(context, course_randn(context, CT_SHAPE(5, 4)),
                            (int64_t[]){1, -100, 3, 0, -100}, 5, -100));
    check_gradient(
        "rows 1 and 3 ignored by 0",
        batch_of(context, course_randn(context, CT_SHAPE(5, 4)), (int64_t[]){1, 0, 3, 0, 2}, 5, 0));
    large_gradient(context, "3 rows of 20,000, one ignored", (int64_t[]){7, IGNORE, 0});
}

static void nothing_counts(ct_context *context) {
    check_gradient("every row ignored", batch_of(context, course_randn(context, CT_SHAPE(2, 3)),
                                                 (int64_t[]){7, 7}, 2, 7));
    check_gradient("no row",
                   batch_of(context, course_randn(context, CT_SHAPE(0, 3)), NULL, 0, IGNORE));
    value("one row that counts",
          batch_of(context, course_randn(context, CT_SHAPE(2, 3)), (int64_t[]){7, 1}, 2, 7));
}

static void refused(const char *what, batch b, ct_status status, const char *words) {
    course_refused(what, ct_context_of(b.logits), loss(b), status, words);
}

static void errors(ct_context *context) {
    ct_tensor *row = course_randn(context, CT_SHAPE(1, 5)),
              *rows = course_randn(context, CT_SHAPE(3, 5));
    ct_tensor *cube = course_randn(context, CT_SHAPE(3, 2, 5));
    value("a target that is right", batch_of(context, row, (int64_t[]){4}, 1, IGNORE));
    refused("target 5 of 5 classes", batch_of(context, rows, (int64_t[]){5, 0, 1}, 3, IGNORE),
            CT_ERR_ARGUMENT, "cross_entropy: target 5");
    refused("target -1", batch_of(context, rows, (int64_t[]){4, -1, 1}, 3, IGNORE), CT_ERR_ARGUMENT,
            "cross_entropy: target -1");
    refused("3 rows and 2 targets", batch_of(context, rows, (int64_t[]){4, 0}, 2, IGNORE),
            CT_ERR_SHAPE, "cross_entropy:");
    refused("logits (3, 2, 5)", batch_of(context, cube, (int64_t[]){4, 0, 1}, 3, IGNORE),
            CT_ERR_SHAPE, "cross_entropy:");
}

const course_test course_tests[] = {
    {"one_row_by_hand", 1, one_row_by_hand},
    {"mean_of_rows", 1, mean_of_rows},
    {"large_logits", 1, large_logits},
    {"gradient_by_hand", 1, gradient_by_hand},
    {"gradient", 2, gradient},
    {"ignored_rows", 1, ignored_rows},
    {"ignored_rows_gradient", 1, ignored_rows_gradient},
    {"nothing_counts", 1, nothing_counts},
    {"errors", 1, errors},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
