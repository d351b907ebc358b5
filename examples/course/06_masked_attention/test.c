/* masked_attention against the library's attention of one head, and against numbers made by
 * hand. */
#include "../attention_variants.h"
#include "../course.h"
#include "exercise.h"

#include <math.h>

typedef struct {
    ct_tensor *in[4]; /* q, k, v, key_mask */
    bool causal;
} problem;

static ct_tensor *yours(problem p) {
    return ct_apply(&masked_attention, p.in, 4, &(masked_attention_attrs){p.causal});
}

static ct_tensor *librarys(problem p) {
    /* one head */
    ct_tensor *q = ct_unsqueeze(p.in[0], 1), *k = ct_unsqueeze(p.in[1], 1),
              *v = ct_unsqueeze(p.in[2], 1);
    return ct_squeeze(
        ct_attention(q, k, v, (ct_attention_opts){.key_mask = p.in[3], .causal = p.causal}).out, 1);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *causal) {
    (void)n;
    return yours((problem){{in[0], in[1], in[2], in[3]}, *(bool *)causal});
}

enum {
    KEY_MASK_IGNORED = ATTENTION_MISTAKES,
    KEY_MASK_INVERTED,
    KEY_MASK_OF_FIRST,
    KEY_MASK_OF_QUERIES,
    LAST_KEY_LOST,
    ONE_MASK
};
static const course_mistake mistakes[] = {
    ATTENTION_MISTAKES_SAID,
    [KEY_MASK_IGNORED] = {"when the key mask is not looked at"},
    [KEY_MASK_INVERTED] = {"when true in the key mask hides a key: true is a real one"},
    [KEY_MASK_OF_FIRST] = {"with the key mask of the first sequence for all of the batch"},
    [KEY_MASK_OF_QUERIES] = {"when the key mask hides queries (rows), and not keys (columns)"},
    [ONE_MASK] = {"when a causal call does not look at the key mask"},
    [LAST_KEY_LOST] = {"when the last key is left out"},
};

/* bits == 0: the library's own attention */
static ct_tensor *variant(ct_tensor *const *in, int n, void *causal, course_set bits) {
    (void)n;
    ct_tensor *q = in[0], *k = in[1], *v = in[2], *mask = in[3];
    if (!bits) return librarys((problem){{q, k, v, mask}, *(bool *)causal});
    if (bits >> ONE_MASK & 1 && *(bool *)causal) mask = NULL;
    if (bits >> KEY_MASK_IGNORED & 1) mask = NULL;
    if (mask && bits >> KEY_MASK_INVERTED & 1) mask = ct_logical_not(mask);
    if (mask && bits >> KEY_MASK_OF_FIRST & 1) mask = ct_narrow(mask, 0, 0, 1);
    if (mask) mask = ct_unsqueeze(mask, bits >> KEY_MASK_OF_QUERIES & 1 ? 2 : 1);
    if (bits >> LAST_KEY_LOST & 1) {
        const int64_t keys = ct_dim(k, 1) - 1;
        k = ct_narrow(k, 1, 0, keys), v = ct_narrow(v, 1, 0, keys);
        if (mask) mask = ct_narrow(mask, 2, 0, keys);
    }
    return course_attention(q, k, v, mask, *(bool *)causal, bits);
}
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes);

static ct_tensor *by_library(ct_tensor *const *in, int n, void *causal) {
    return course_as_yours(&function, in, n, causal);
}

static void compare(const char *what, problem p) {
    course_forward(what, &function, &p.causal, p.in, 4, 1e-12);
}

static problem random_problem(ct_context *context, int64_t b, int64_t t, int64_t s, int64_t d,
                              int64_t e) {
    return (problem){{course_randn(context, CT_SHAPE(b, t, d)),
                      course_randn(context, CT_SHAPE(b, s, d)),
                      course_randn(context, CT_SHAPE(b, s, e))},
                     false};
}

/* Two sequences of four keys: of the first the last is padding, the second is nothing but
 * padding. */
static ct_tensor *padding(ct_context *context) {
    return ct_from_bool(context, CT_SHAPE(2, 4),
                        (bool[]){true, true, true, false, false, false, false, false});
}

/* The example of README.md. */
static void by_hand(ct_context *context) {
    problem p = {
        {course_f64(context, CT_SHAPE(1, 2, 4), (double[]){0, 0, 0, 0, 2 * log(3), 0, 0, 0}),
         course_f64(context, CT_SHAPE(1, 2, 4), (double[]){1, 0, 0, 0, 0, 1, 0, 0}),
         course_f64(context, CT_SHAPE(1, 2, 1), (double[]){4, 8})},
        false};
    compare("the statement's example", p);
    course_value("the statement's example", yours(p),
                 course_f64(context, CT_SHAPE(1, 2, 1), (double[]){6, 5}), 1e-12);
}

static void shapes(ct_context *context) {
    /* B, T, S, d, e */
    const int64_t sizes[][5] = {{1, 1, 1, 1, 1}, {2, 3, 3, 4, 4}, {3, 5, 2, 1, 7}, {1, 2, 9, 3, 1}};
    for (int i = 0; i < 4; i++) {
        problem p = random_problem(context, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                                   sizes[i][4]);
        compare("attention without a mask", p);
    }
}

static void causal(ct_context *context) {
    const int64_t sizes[][2] = {{4, 4}, {5, 3}, {3, 5}, {1, 1}};
    for (int i = 0; i < 4; i++) {
        problem p = random_problem(context, 2, sizes[i][0], sizes[i][1], 3, 2);
        p.causal = true;
        compare("causal attention", p);
    }
}

static void key_mask(ct_context *context) {
    problem p = random_problem(context, 2, 3, 4, 3, 2);
    p.in[3] = ct_from_bool(context, CT_SHAPE(2, 4),
                           (bool[]){true, true, true, false, false, true, false, true});
    compare("attention with a key mask", p);
    p.in[3] = ct_from_bool(context, CT_SHAPE(2, 4),
                           (bool[]){true, true, true, false, true, true, false, true});
    p.causal = true;
    compare("attention with a key mask, and causal", p);
}

static void nothing_to_see(ct_context *context) {
    problem p = random_problem(context, 2, 3, 4, 3, 2);
    p.in[3] = padding(context);
    compare("attention where the second sequence is all padding", p);
    p = random_problem(context, 1, 3, 3, 2, 2);
    p.in[3] = ct_from_bool(context, CT_SHAPE(1, 3), (bool[]){false, true, true});
    p.causal = true;
    compare("causal attention where the first key is padding, so that query 0 sees nothing", p);
}

/* Scores up to a million; the first query's are as ever. */
static void large(ct_context *context) {
    problem p = random_problem(context, 1, 4, 5, 2, 3);
    p.in[0] = ct_mul(p.in[0], course_f64(context, CT_SHAPE(1, 4, 1), (double[]){1, 1e2, 1e4, 1e6}));
    compare("attention with scores up to a million", p);
    p.in[0] = ct_full(context, CT_F64, CT_SHAPE(1, 4, 2), -1e6);
    p.in[1] = ct_full(context, CT_F64, CT_SHAPE(1, 5, 2), 1);
    compare("attention where every score is minus a million", p);
}

static void large_gradient(ct_context *context, const char *what, bool causal, bool masked) {
    problem p = random_problem(context, 1, 128, 128, 16, 16);
    if (masked)
        p.in[3] = ct_lt(ct_rand(context, CT_F64, CT_SHAPE(1, 128)),
                        ct_full(context, CT_F64, CT_SCALAR, 0.75));
    course_gradient_as(what, by_you, by_library, &causal, p.in, 4, 1e-9);
}

/* A gradient is only worth something of the right function. */
static void check_gradient(const char *what, problem p) {
    course_forward_first("the forward that is differentiated", &function, &p.causal, p.in, 4,
                         1e-12);
    course_gradient(what, &masked_attention, &(masked_attention_attrs){p.causal}, p.in, 4,
                    (ct_gradcheck_opts){0});
}

static void gradient(ct_context *context) {
    check_gradient("no mask; inputs 0, 1, 2 are q, k, v", random_problem(context, 2, 3, 4, 5, 2));
    check_gradient("no mask; inputs 0, 1, 2 are q, k, v", random_problem(context, 1, 3, 3, 3, 3));
    large_gradient(context, "128 queries and keys", false, false);
}

static void gradient_masked(ct_context *context) {
    problem p = random_problem(context, 2, 3, 4, 5, 2);
    p.in[3] = padding(context);
    check_gradient("a key mask; inputs 0, 1, 2 are q, k, v", p);
    p.causal = true;
    check_gradient("causal and a key mask; inputs 0, 1, 2 are q, k, v", p);
    large_gradient(context, "128 queries and keys, causal and a key mask", true, true);
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"shapes", 1, shapes},
    {"causal", 1, causal},
    {"key_mask", 1, key_mask},
    {"nothing_to_see", 1, nothing_to_see},
    {"large", 1, large},
    {"gradient", 2, gradient},
    {"gradient_masked", 2, gradient_masked},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
