/* neuron, add and mul against numbers made by hand, the library's ct_add and ct_mul, and
 * differences. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static ct_tensor *scalar(ct_context *context, double x) {
    return course_f64(context, CT_SCALAR, &x);
}

static ct_tensor *yours(const ct_op *op, ct_tensor *a, ct_tensor *b) {
    return ct_apply(op, (ct_tensor *[]){a, b}, 2, NULL);
}

static ct_tensor *librarys(const ct_op *op, ct_tensor *a, ct_tensor *b) {
    return op == &add ? ct_add(a, b) : ct_mul(a, b);
}

static void neuron_by_hand(ct_context *context) {
    ct_tensor *in[] = {scalar(context, 2), scalar(context, 0.5), scalar(context, -1)};
    course_value("w = 2, x = 0.5, b = -1", ct_apply(&neuron, in, 3, NULL), scalar(context, 0),
                 1e-15);
    in[2] = scalar(context, log(2) - 1);
    course_value("w = 2, x = 0.5, b = ln 2 - 1", ct_apply(&neuron, in, 3, NULL),
                 scalar(context, 0.6), 1e-15);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *op) {
    return ct_apply(op, in, n, NULL);
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *op) {
    if (n == 3) return ct_tanh(ct_add(ct_mul(in[0], in[1]), in[2]));
    return librarys(op, in[0], in[1]);
}

static void neuron_gradient(ct_context *context) {
    ct_tensor *in[] = {scalar(context, 0.7), scalar(context, -1.3), scalar(context, 0.4)};
    course_value("the forward that is differentiated", ct_apply(&neuron, in, 3, NULL),
                 scalar(context, tanh(0.7 * -1.3 + 0.4)), 1e-15);
    course_gradient("w = 0.7, x = -1.3, b = 0.4 (inputs 0, 1, 2)", &neuron, NULL, in, 3,
                    (ct_gradcheck_opts){0});
    in[0] = scalar(context, 3e5), in[1] = scalar(context, 1e-6), in[2] = scalar(context, 0.2);
    course_gradient_as("w = 300000, x = 0.000001, b = 0.2 (inputs 0, 1, 2)", by_you, by_library,
                       (void *)&neuron, in, 3, 1e-14);
}

/* Shapes that broadcast; what each shows stands beside it. */
typedef struct {
    ct_shape a, b;
    const char *what;
} pair;

static const pair same[] = {
    {{1, {4}}, {1, {4}}, "(4) and (4)"},
    {{2, {3, 5}}, {2, {3, 5}}, "(3, 5) and (3, 5)"},
    {{0, {0}}, {0, {0}}, "() and ()"},
    {{2, {0, 3}}, {2, {0, 3}}, "(0, 3) and (0, 3)"},
};
static const pair different[] = {
    {{2, {2, 3}}, {1, {3}}, "(2, 3) and (3)"}, /* a dim that one lacks */
    {{1, {3}}, {2, {2, 3}}, "(3) and (2, 3)"}, /* that the other lacks */
    /* aligned at the right, though the left would fit too */
    {{2, {3, 3}}, {1, {3}}, "(3, 3) and (3)"},
    {{2, {3, 1}}, {2, {1, 4}}, "(3, 1) and (1, 4)"},       /* a dim of 1, on each side */
    {{3, {2, 3, 4}}, {2, {3, 1}}, "(2, 3, 4) and (3, 1)"}, /* both ways at once */
    {{3, {2, 1, 5}}, {3, {1, 3, 1}}, "(2, 1, 5) and (1, 3, 1)"},
    {{2, {2, 3}}, {0, {0}}, "(2, 3) and ()"},  /* a number for all */
    {{2, {0, 3}}, {1, {3}}, "(0, 3) and (3)"}, /* nothing to add to: a gradient of zeros */
};

static void each(ct_context *context, const ct_op *op, const pair *pairs, int count,
                 bool gradient) {
    for (int i = 0; i < count; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s of %s", op->name, pairs[i].what);
        ct_tensor *in[] = {course_randn(context, pairs[i].a), course_randn(context, pairs[i].b)};
        course_value(what, yours(op, in[0], in[1]), librarys(op, in[0], in[1]), 1e-15);
        if (gradient) course_gradient(what, op, NULL, in, 2, (ct_gradcheck_opts){0});
    }
}
#define EACH(op, pairs, gradient) each(context, op, pairs, sizeof pairs / sizeof *pairs, gradient)

static void same_shapes(ct_context *context) { EACH(&add, same, false), EACH(&mul, same, false); }
static void add_broadcast(ct_context *context) {
    course_value("the statement's example",
                 yours(&add, course_f64(context, CT_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6}),
                       course_f64(context, CT_SHAPE(3), (double[]){10, 20, 30})),
                 course_f64(context, CT_SHAPE(2, 3), (double[]){11, 22, 33, 14, 25, 36}), 0);
    EACH(&add, different, false);
}
static void mul_broadcast(ct_context *context) { EACH(&mul, different, false); }

/* 90,000 numbers and those of shape b. */
static void large_gradient(ct_context *context, const ct_op *op, ct_shape b) {
    char what[80];
    snprintf(what, sizeof what, "%s of (300, 300) and %s", op->name,
             b.ndim == 1 ? "(300)" : "(300, 300)");
    ct_tensor *in[] = {course_randn(context, CT_SHAPE(300, 300)), course_randn(context, b)};
    course_gradient_as(what, by_you, by_library, (void *)op, in, 2, 1e-9);
}

static void same_shapes_gradient(ct_context *context) {
    EACH(&add, same, true), EACH(&mul, same, true);
    large_gradient(context, &add, CT_SHAPE(300, 300));
    large_gradient(context, &mul, CT_SHAPE(300, 300));
}
static void add_gradient(ct_context *context) {
    EACH(&add, different, true);
    large_gradient(context, &add, CT_SHAPE(300));
}
static void mul_gradient(ct_context *context) {
    EACH(&mul, different, true);
    large_gradient(context, &mul, CT_SHAPE(300));
}

static void refused(ct_context *context) {
    const struct {
        ct_shape a, b;
        const char *what, *words;
    } wrong[] = {
        {CT_SHAPE(2, 3), CT_SHAPE(4), "(2, 3) and (4)", "sizes 3 and 4 do not broadcast"},
        {CT_SHAPE(2, 5), CT_SHAPE(3, 1, 5), "(2, 5) and (3, 1, 5), which broadcast to (3, 2, 5)",
         NULL},
        {CT_SHAPE(2, 5), CT_SHAPE(3, 5), "(2, 5) and (3, 5)", "sizes 2 and 3 do not broadcast"},
        {CT_SHAPE(0), CT_SHAPE(2), "(0) and (2)", "sizes 0 and 2 do not broadcast"}};
    const ct_op *ops[] = {&add, &mul};
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < 4; i++) {
            ct_tensor *a = course_randn(context, wrong[i].a),
                      *b = course_randn(context, wrong[i].b);
            if (wrong[i].words)
                course_refused(wrong[i].what, context, yours(ops[o], a, b), CT_ERR_SHAPE,
                               wrong[i].words);
            else course_value(wrong[i].what, yours(ops[o], a, b), librarys(ops[o], a, b), 1e-15);
        }
}

const course_test course_tests[] = {
    {"neuron_by_hand", 1, neuron_by_hand},
    {"neuron_gradient", 2, neuron_gradient},
    {"same_shapes", 1, same_shapes},
    {"add_broadcast", 1, add_broadcast},
    {"mul_broadcast", 1, mul_broadcast},
    {"same_shapes_gradient", 1, same_shapes_gradient},
    {"add_gradient", 1, add_gradient},
    {"mul_gradient", 1, mul_gradient},
    {"refused", 1, refused},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
