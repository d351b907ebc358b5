/* What the tests of an exercise are made with. A test.c defines course_tests and course_test_count;
 * course.c has main, which runs one test in a process of its own and tells `grade` how it ended. */
#ifndef COURSE_H
#define COURSE_H

#include <cotangent/cotangent.h>

typedef struct {
    const char *name; /* "backward", an identifier */
    int points;
    void (*run)(ct_context *context); /* passed when it returns with no error pending */
} course_test;

extern const course_test course_tests[];
extern const int course_test_count;

/* Each of these ends the test as failed, with a sentence, unless all is as it should be; then it
 * returns. */
void course_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Shape, dtype and values: |got - expected| <= tolerance max(1, |expected|) for each element; NaN
 * and infinities must be the same. */
void course_value(const char *what, ct_tensor *got, ct_tensor *expected, double tolerance);

/* The gradients of ct_apply(op, in, n, attrs), or of a function, by ct_gradcheck. */
void course_gradient(const char *what, const ct_op *op, const void *attrs, ct_tensor *const *in,
                     int n, ct_gradcheck_opts opts);
void course_gradient_of(const char *what, ct_fn fn, void *arg, ct_tensor *const *in, int n,
                        ct_gradcheck_opts opts);

/* `got` must be NULL, with an error of this status whose message contains the words; the error is
 * cleared. */
void course_refused(const char *what, ct_context *context, ct_tensor *got, ct_status status,
                    const char *words);

/* Tensors of f64; never NULL. */
ct_tensor *course_f64(ct_context *context, ct_shape shape, const double *values);
ct_tensor *course_randn(ct_context *context, ct_shape shape);

#endif
