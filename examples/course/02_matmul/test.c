/* matmul against numbers made by hand, the library's ct_matmul, and differences. */
#include "../course.h"
#include "exercise.h"

static ct_tensor *yours(ct_tensor *a, ct_tensor *b, bool transpose) {
    return ct_apply(&matmul, (ct_tensor *[]){a, b}, 2, &(matmul_attrs){transpose});
}

static ct_tensor *librarys(ct_tensor *a, ct_tensor *b, bool transpose) {
    return ct_matmul(a, transpose ? ct_transpose(b, -1, -2) : b);
}

typedef struct {
    const char *what;
    ct_shape a, b;
} pair;

/* Values, and where asked for the gradient: that of another function would say nothing. */
static void try(ct_context *context, pair p, bool transpose, bool gradient) {
    ct_tensor *in[] = {course_randn(context, p.a), course_randn(context, p.b)};
    course_value(p.what, yours(in[0], in[1], transpose), librarys(in[0], in[1], transpose), 1e-13);
    if (gradient)
        course_gradient(p.what, &matmul, &(matmul_attrs){transpose}, in, 2, (ct_gradcheck_opts){0});
}

static void by_hand(ct_context *context) {
    ct_tensor *a = course_f64(context, CT_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6}),
              *b = course_f64(context, CT_SHAPE(3, 1), (double[]){1, 0, -1});
    course_value("the statement's example", yours(a, b, false),
                 course_f64(context, CT_SHAPE(2, 1), (double[]){-2, -2}), 0);
}

/* Square ones too: there a transposed gradient has the right shape. */
static const pair plain[] = {{"(2, 3) by (3, 4)", {2, {2, 3}}, {2, {3, 4}}},
                             {"(3, 3) by (3, 3)", {2, {3, 3}}, {2, {3, 3}}},
                             {"(1, 5) by (5, 1)", {2, {1, 5}}, {2, {5, 1}}},
                             {"(4, 1) by (1, 3)", {2, {4, 1}}, {2, {1, 3}}},
                             {"(2, 0) by (0, 3), which is all zeros", {2, {2, 0}}, {2, {0, 3}}}};
static const pair turned[] = {{"(2, 3) by (4, 3)^T", {2, {2, 3}}, {2, {4, 3}}},
                              {"(3, 3) by (3, 3)^T", {2, {3, 3}}, {2, {3, 3}}}};
static const pair batched[] = {{"(3, 2, 4) by (3, 4, 2)", {3, {3, 2, 4}}, {3, {3, 4, 2}}},
                               {"(3, 2, 4) by (4, 5), shared", {3, {3, 2, 4}}, {2, {4, 5}}},
                               {"(3, 4), shared, by (2, 4, 2)", {2, {3, 4}}, {3, {2, 4, 2}}},
                               {"(2, 3, 4) by (1, 4, 2), shared", {3, {2, 3, 4}}, {3, {1, 4, 2}}},
                               {"(1, 2, 3) by (3, 2)", {3, {1, 2, 3}}, {2, {3, 2}}}};

#define EACH(pairs, transpose, gradient)                                                           \
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)                                    \
    try(context, pairs[i], transpose, gradient)

/* transpose points at a bool */
static ct_tensor *by_you(ct_tensor *const *in, int n, void *transpose) {
    (void)n;
    return yours(in[0], in[1], *(bool *)transpose);
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *transpose) {
    (void)n;
    return librarys(in[0], in[1], *(bool *)transpose);
}
static void large_gradient(ct_context *context, const char *what, ct_shape a, bool transpose) {
    ct_tensor *in[] = {course_randn(context, a), course_randn(context, CT_SHAPE(200, 200))};
    course_gradient_as(what, by_you, by_library, &transpose, in, 2, 1e-9);
}

static void shapes(ct_context *context) { EACH(plain, false, false); }
static void transposed(ct_context *context) { EACH(turned, true, false); }
static void batches(ct_context *context) { EACH(batched, false, false); }
static void gradient(ct_context *context) {
    EACH(plain, false, true);
    large_gradient(context, "(200, 200) by (200, 200)", CT_SHAPE(200, 200), false);
}
static void gradient_transposed(ct_context *context) {
    EACH(turned, true, true);
    large_gradient(context, "(200, 200) by (200, 200)^T", CT_SHAPE(200, 200), true);
}
static void gradient_batches(ct_context *context) {
    EACH(batched, false, true);
    try(context, (pair){"(2, 3, 4) by (5, 4)^T, shared", CT_SHAPE(2, 3, 4), CT_SHAPE(5, 4)}, true,
        true);
    large_gradient(context, "(2, 100, 200) by (200, 200), shared", CT_SHAPE(2, 100, 200), false);
}

static void refused(ct_context *context) {
    ct_tensor *a = course_randn(context, CT_SHAPE(2, 3)),
              *b = course_randn(context, CT_SHAPE(4, 2));
    course_refused("(2, 3) by (4, 2)", context, yours(a, b, false), CT_ERR_SHAPE,
                   "matmul: inner sizes 3 and 4 differ");
    course_refused("(2, 3) by (4, 2)^T", context, yours(a, b, true), CT_ERR_SHAPE,
                   "matmul: inner sizes 3 and 2 differ");
    a = course_randn(context, CT_SHAPE(2, 3, 4)), b = course_randn(context, CT_SHAPE(3, 4, 5));
    course_refused("(2, 3, 4) by (3, 4, 5)", context, yours(a, b, false), CT_ERR_SHAPE,
                   "matmul: batches of 2 and 3 differ");
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"shapes", 1, shapes},
    {"transposed", 1, transposed},
    {"batches", 1, batches},
    {"gradient", 2, gradient},
    {"gradient_transposed", 1, gradient_transposed},
    {"gradient_batches", 2, gradient_batches},
    {"refused", 1, refused},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
