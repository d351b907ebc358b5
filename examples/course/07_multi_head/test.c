/* Heads split and combined against the library's and by hand; multi_head against the library's
 * module with the same parameters. */
#include "../course.h"
#include "exercise.h"

static ct_tensor *split(ct_tensor *x, int64_t heads) {
    return ct_apply(&split_heads, &x, 1, &(split_heads_attrs){heads});
}
static ct_tensor *combine(ct_tensor *x) { return ct_apply(&combine_heads, &x, 1, NULL); }

/* ---- heads ---- */

/* (1, 2, 4) and (1, 2, 2, 2) */
static const double together[] = {1, 2, 3, 4, 5, 6, 7, 8}, apart[] = {1, 2, 5, 6, 3, 4, 7, 8};

static void split_by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(1, 2, 4), together);
    course_value("the statement's example in two heads", split(x, 2),
                 course_f64(context, CT_SHAPE(1, 2, 2, 2), apart), 0);
}

static void split_shapes(ct_context *context) {
    /* B, T, E, H */
    const int64_t sizes[][4] = {
        {2, 3, 12, 3}, {3, 1, 6, 2}, {1, 5, 4, 1}, {2, 5, 7, 7}, {1, 1, 1, 1}};
    for (int i = 0; i < 5; i++) {
        ct_tensor *x = course_randn(context, CT_SHAPE(sizes[i][0], sizes[i][1], sizes[i][2]));
        course_value("heads split", split(x, sizes[i][3]), ct_split_heads(x, sizes[i][3]), 0);
    }
}

static void combine_values(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(1, 2, 2, 2), apart);
    course_value("the statement's example, its two heads combined", combine(x),
                 course_f64(context, CT_SHAPE(1, 2, 4), together), 0);
    /* B, H, T, d */
    const int64_t sizes[][4] = {{2, 3, 5, 4}, {3, 1, 6, 2}, {1, 5, 1, 3}, {1, 1, 1, 1}};
    for (int i = 0; i < 4; i++) {
        x = course_randn(context, CT_SHAPE(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]));
        course_value("heads combined", combine(x), ct_combine_heads(x), 0);
    }
}

static void refused(ct_context *context) {
    course_refused("7 columns in 2 heads", context,
                   split(course_randn(context, CT_SHAPE(2, 3, 7)), 2), CT_ERR_SHAPE,
                   "split_heads:");
    course_refused("4 columns in 0 heads", context,
                   split(course_randn(context, CT_SHAPE(2, 3, 4)), 0), CT_ERR_SHAPE,
                   "split_heads:");
    course_refused("two dims split", context, split(course_randn(context, CT_SHAPE(3, 4)), 2),
                   CT_ERR_SHAPE, "split_heads:");
    course_refused("three dims combined", context,
                   combine(course_randn(context, CT_SHAPE(2, 3, 4))), CT_ERR_SHAPE,
                   "combine_heads:");
}

static ct_tensor *split_by_you(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return split(in[0], 2);
}
static ct_tensor *split_by_library(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_split_heads(in[0], 2);
}
static ct_tensor *combine_by_you(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return combine(in[0]);
}
static ct_tensor *combine_by_library(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_combine_heads(in[0]);
}

/* A gradient is only worth something of the right function. */
static void split_gradient(ct_context *context) {
    ct_tensor *x = course_randn(context, CT_SHAPE(2, 3, 4));
    course_value("the forward that is differentiated", split(x, 2), ct_split_heads(x, 2), 0);
    course_gradient("split_heads", &split_heads, &(split_heads_attrs){2}, &x, 1,
                    (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 256, 256));
    course_gradient_as("split_heads of (2, 256, 256)", split_by_you, split_by_library, NULL, &x, 1,
                       1e-9);
}

static void combine_gradient(ct_context *context) {
    ct_tensor *x = course_randn(context, CT_SHAPE(2, 3, 4, 2));
    course_value("the forward that is differentiated", combine(x), ct_combine_heads(x), 0);
    course_gradient("combine_heads", &combine_heads, NULL, &x, 1, (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 2, 256, 128));
    course_gradient_as("combine_heads of (2, 2, 256, 128)", combine_by_you, combine_by_library,
                       NULL, &x, 1, 1e-9);
}

/* ---- multi-head attention ---- */

enum { X, IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS, INPUTS };

typedef struct {
    ct_module *mha; /* the library's, whose parameters both have */
    int64_t heads;
    bool causal;
    ct_tensor *in[INPUTS];
} problem;

static problem random_problem(ct_context *context, int64_t b, int64_t t, int64_t e, int64_t heads,
                              bool causal) {
    problem p = {
        ct_mha_new(context, (ct_mha_opts){.embed_dim = e, .num_heads = heads, .dtype = CT_F64}),
        heads,
        causal,
        {NULL}};
    p.in[X] = course_randn(context, CT_SHAPE(b, t, e));
    p.in[IN_WEIGHT] = ct_module_get(p.mha, "in_proj_weight");
    p.in[IN_BIAS] = ct_module_get(p.mha, "in_proj_bias");
    p.in[OUT_WEIGHT] = ct_module_get(p.mha, "out_proj.weight");
    p.in[OUT_BIAS] = ct_module_get(p.mha, "out_proj.bias");
    for (int i = IN_WEIGHT; i < INPUTS; i++) ct_init_normal(p.in[i], 0, 0.5);
    return p;
}

static ct_tensor *yours(ct_tensor *const *in, int n, void *arg) {
    const problem *p = arg;
    (void)n;
    return multi_head(
        in[X], &(multi_head_params){in[IN_WEIGHT], in[IN_BIAS], in[OUT_WEIGHT], in[OUT_BIAS]},
        p->heads, p->causal);
}

static ct_tensor *librarys(ct_tensor *const *in, int n, void *arg) {
    const problem *p = arg;
    (void)n;
    return ct_mha_forward(p->mha, in[X], NULL, NULL, (ct_mha_call){.causal = p->causal}).out;
}

static void compare(const char *what, problem p) {
    course_value(what, yours(p.in, INPUTS, &p),
                 ct_mha_forward(p.mha, p.in[X], NULL, NULL, (ct_mha_call){.causal = p.causal}).out,
                 1e-12);
}

/* The parameters are fixed. */
static ct_tensor *yours_of_x(ct_tensor *const *in, int n, void *arg) {
    problem p = *(const problem *)arg;
    (void)n;
    p.in[X] = in[0];
    return yours(p.in, INPUTS, &p);
}

static void all_see_all(ct_context *context) {
    /* B, T, E, H */
    const int64_t sizes[][4] = {{2, 5, 12, 3}, {1, 1, 4, 2}, {3, 4, 6, 1}, {1, 3, 3, 3}};
    for (int i = 0; i < 4; i++)
        compare("multi-head attention",
                random_problem(context, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], false));
}

static void causal(ct_context *context) {
    compare("causal multi-head attention", random_problem(context, 2, 5, 8, 2, true));
}

static void gradient(ct_context *context) {
    problem p = random_problem(context, 2, 3, 4, 2, true);
    compare("the forward that is differentiated, causal", p);
    course_gradient_of("causal multi-head attention; inputs 0 ... 4 are x, in_weight, in_bias, "
                       "out_weight, out_bias",
                       yours, &p, p.in, INPUTS, (ct_gradcheck_opts){0});
    p = random_problem(context, 1, 512, 64, 2, true);
    course_gradient_as("x of 512 tokens", yours_of_x, librarys, &p, &p.in[X], 1, 1e-9);
}

const course_test course_tests[] = {
    {"split_by_hand", 1, split_by_hand},
    {"split_shapes", 1, split_shapes},
    {"combine", 1, combine_values},
    {"refused", 1, refused},
    {"split_gradient", 1, split_gradient},
    {"combine_gradient", 1, combine_gradient},
    {"all_see_all", 2, all_see_all},
    {"causal", 1, causal},
    {"gradient", 1, gradient},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
