/* The functions with which the tests of an exercise are written. A test.c defines course_tests and
 * course_test_count; course.c has main, which runs one test in a process of its own and reports its
 * end to `grade`. */
#ifndef COURSE_H
#define COURSE_H

#include "reference.h"

#include <cotangent/cotangent.h>

typedef struct {
    const char *name; /* "backward", an identifier */
    int points;
    void (*run)(ct_context *context); /* passed when it returns with no error pending */
    bool hidden; /* students do not see how it ends; may be left out, which the next line allows */
    int times;   /* it may take so many times as long as other tests; 0: once */
} course_test;
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* The tests of the exercise. Their names are identifiers, and no two are equal. */
extern const course_test course_tests[];
extern const int course_test_count;

/* Each of the functions below returns if everything is right. Otherwise it ends the test as failed,
 * with a sentence that begins with the diagnosis, in a few words; numbers come after it. */
void course_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Ends the test as failed, but with `points` of its points. The number is limited to the range from
 * 0 to one less than the test is worth. */
void course_partial(int points, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Sets the diagnosis for a failure of this test from here on: the mistake in a few words, which
 * stand before the sentence of the failure. Each call replaces the previous diagnosis; an empty
 * text removes it. */
void course_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether shape, dtype and values are the same, as course_value compares them. With course_hint:
 *     if (course_same(y, ct_sigmoid(x), 1e-9)) course_hint("this is what a sigmoid gives");
 *     course_value("softmax of x", y, ct_softmax(x, -1), 1e-12);
 * Returns false if one of them is NULL; an error that is pending stays. */
bool course_same(ct_tensor *got, ct_tensor *other, double tolerance);

/* Checks shape, dtype and values: |got - expected| <= tolerance max(1, |expected|) for each
 * element; NaN and infinities must be the same. */
void course_value(const char *what, ct_tensor *got, ct_tensor *expected, double tolerance);

/* ---- wrong forwards that have a name ---- */

/* A mistake that a forward may have: a set has mistakes[i] if its bit i is 1. */
typedef struct {
    const char *what; /* the end of a sentence, "this is what comes out without the scale 1 / sqrt
                       * d" */
    bool easier;      /* with this mistake the gradient is easier than the right one, so it gets no
                         points */
} course_mistake;
__extension__ typedef unsigned __int128 course_set;
#define COURSE_BIT(mistake) ((course_set)1 << (mistake))
static inline bool course_has(course_set set, int mistake) { return set >> mistake & 1; }

/* The right forward (the empty set, 0), or the forward with the mistakes of the set, by
 * the plain loops of reference.h. NULL if these inputs do not allow the mistake; an error is
 * cleared. */
typedef ct_tensor *(*course_variant)(ct_tensor *const *in, int n, void *arg, course_set mistakes);

/* Makes inputs at which most mistakes give different results, and may replace `arg`. If several
 * mistakes explain a wrong result, the results at these inputs decide. */
typedef void (*course_probe)(ct_context *context, ct_tensor **in, void **arg);

/* Describes a wrong forward that no mistake of the table explains: which quantity inside it is
 * wrong, and by how much. It may find nothing, and then writes nothing. `got` has the right shape;
 * it may hold NaN. */
typedef void (*course_explain)(ct_tensor *const *in, int n, void *arg, ct_tensor *got,
                               ct_tensor *right, char *said, size_t size);

typedef struct {
    ct_fn yours;
    course_variant variant;
    const course_mistake *mistakes;
    int count;
    /* the name of each input, then of the result, with the meanings of its last dims: "k: sequence,
     * key, column"; NULL: messages number them */
    const char *const *inputs;
    course_probe probe;     /* or NULL */
    course_explain explain; /* or NULL */
} course_function;
#define COURSE_FUNCTION(yours, variant, mistakes, ...)                                             \
    {yours, variant, mistakes, sizeof(mistakes) / sizeof *(mistakes), __VA_ARGS__}

/* Compares f->yours(in) with f->variant(in, 0) as course_value does, with the same random numbers.
 * If they differ, the report names a mistake that gives the same values to nine digits: one or two
 * of the table; or a dim of an input or of the result that is read only at its first or last index,
 * or is exchanged with another dim. If no mistake does, the report has the words of `explain`, and
 * lists elements that depend on inputs on which they must not depend, or that lack a dependence. */
void course_forward(const char *what, const course_function *f, void *arg, ct_tensor *const *in,
                    int n, double tolerance);

/* Does the same at the beginning of a gradient's test. If all mistakes of the forward have a name,
 * and none makes the gradient easier, the test goes on with the gradient of the forward that was
 * written. It ends with about half of its points if that gradient is right.
 *
 * An op that returns its input, zeros, or a result without a name gets no points. The gradient is
 * compared with the gradient of the variant (course_as_yours) at the same large inputs. */
void course_forward_first(const char *what, const course_function *f, void *arg,
                          ct_tensor *const *in, int n, double tolerance);

/* Gives back the points that course_forward_first takes for a forward whose mistakes have names:
 * for a gradient on which those have no influence. */
void course_forgive(void);

/* f->variant with the mistakes that course_forward_first has found, if any. course_gradient_as
 * compares the student's gradient with its gradient. */
ct_tensor *course_as_yours(const course_function *f, ct_tensor *const *in, int n, void *arg);

/* ---- gradients ---- */

/* Checks the gradients of ct_apply(op, in, n, attrs), or of a function, by ct_gradcheck.
 * Differences are taken of the judge's own forward, which course_own_forward tells for the next
 * check, or a course_forward_first at the same tensors. Without it they are taken of the student's,
 * so a forward that is right only now and then could make any gradient right. */
void course_own_forward(ct_fn own, void *arg);
void course_gradient(const char *what, const ct_op *op, const void *attrs, ct_tensor *const *in,
                     int n, ct_gradcheck_opts opts);
void course_gradient_of(const char *what, ct_fn fn, void *arg, ct_tensor *const *in, int n,
                        ct_gradcheck_opts opts);

/* A wrong gradient that has a name: that of `input` for a cotangent g of the result, or NULL for
 * inputs that do not allow it. */
typedef struct {
    const char *what; /* a sentence: "in dw stands x for z" */
    int input;
    ct_tensor *(*of)(ct_tensor *const *in, ct_tensor *g, const void *attrs);
} course_wrong_gradient;

/* If a gradient of ct_apply(op, in, n, attrs) is one of these wrong ones, its name becomes the hint
 * for the check that follows, or the names of two that are the same at these inputs; otherwise the
 * hint is empty. */
void course_name_gradient(const ct_op *op, const void *attrs, ct_tensor *const *in, int n,
                          const course_wrong_gradient *known, int count);

/* Fails, with `points`, if a backward of this test so far has set grad[i] of an input that has no
 * gradient, because it is NULL or not f64. (A gradient that is not wanted here may be set.) */
void course_no_other_gradients(ct_tensor *const *in, int n, int points);

/* Compares the gradients of ct_apply(op, in, n, attrs), for a cotangent of ones, with the numbers
 * that the exercise's text prints, as course_value does, with the hint. If an expected gradient is
 * NULL it is not compared. */
void course_gradient_is(const char *what, const ct_op *op, const void *attrs, ct_tensor *const *in,
                        int n, ct_tensor *const *expected, double tolerance);

/* Compares the gradient of `yours`, for a random cotangent, with differences of `reference`, the
 * same function by the judge: along a random direction of each input. It may be off by `tolerance`
 * times the largest element, and sqrt n, as the errors of n elements add up. If it is off by more,
 * the direction is halved until one wrong element is left. This is for tens of thousands of inputs,
 * for which a backward that takes differences of its own forward runs out of time (a fifth of the
 * test's time and a hundred forwards). Inputs that are NULL or not f64 have no gradient. If the
 * results of the functions differ, which another test finds, only the time counts. */
void course_gradient_as(const char *what, ct_fn yours, ct_fn reference, void *arg,
                        ct_tensor *const *in, int n, double tolerance);
/* The same for gradients that are there: grad[i] of sum(weights reference(in)). */
void course_gradient_along(const char *what, ct_fn reference, void *arg, ct_tensor *const *in,
                           int n, ct_tensor *weights, ct_tensor *const *grad, double tolerance);

/* The gradient of sum(cotangent fn(in)) with respect to input `which`, each element by differences
 * at two steps on each side, so for small inputs. Of a function that is linear in this input they
 * are exact but for rounding, with step 1. */
ct_tensor *course_derivative(ct_fn fn, void *arg, ct_tensor *const *in, int n, int which,
                             ct_tensor *cotangent, double step);

/* Checks that `got` is NULL and that the pending error has this status and a message with the
 * words. Then clears the error. */
void course_refused(const char *what, ct_context *context, ct_tensor *got, ct_status status,
                    const char *words);

/* These make tensors of f64. They never return NULL. */
ct_tensor *course_f64(ct_context *context, ct_shape shape, const double *values);
ct_tensor *course_randn(ct_context *context, ct_shape shape);

#endif
