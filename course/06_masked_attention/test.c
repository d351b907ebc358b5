/* masked_attention against plain loops, and against numbers made by
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

static ct_tensor *reference_of(problem p) {
    return ref_attention(p.in[0], p.in[1], p.in[2], p.in[3], p.causal);
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
    ONE_MASK,
    CAUSAL_LOST,
    HIDDEN_IF_BOTH,
    KEY_MASK_AFTER,
    KEY_MASK_SHIFTED,
    KEY_MASK_SHIFTED_BACK,
    KEY_MASK_COUNTED,
    KEY_MASK_HIDES_BOTH,
    KEY_MASK_ZEROES,
    KEY_MASK_FORCED_FIRST
};
static const course_mistake mistakes[] = {
    ATTENTION_MISTAKES_SAID,
    [KEY_MASK_IGNORED] = {"when the key mask is not looked at"},
    [KEY_MASK_INVERTED] = {"when true in the key mask hides a key: true is a real one"},
    [KEY_MASK_OF_FIRST] = {"with the key mask of the first sequence for all of the batch"},
    [KEY_MASK_OF_QUERIES] = {"when the key mask hides queries (rows), and not keys (columns)"},
    [ONE_MASK] = {"when a causal call does not look at the key mask"},
    [CAUSAL_LOST] = {"when a call with a key mask does not look at `causal`"},
    [HIDDEN_IF_BOTH] = {"when a key is hidden only if both masks hide it: one is enough"},
    [KEY_MASK_AFTER] = {"when the key mask is applied after the softmax, or to the values alone: "
                        "weights of what is seen must sum to 1"},
    [KEY_MASK_SHIFTED] = {"with key j + 1 of the key mask for key j"},
    [KEY_MASK_SHIFTED_BACK] = {"with key j - 1 of the key mask for key j"},
    [KEY_MASK_COUNTED] = {"when as many first keys are seen as the key mask has true ones"},
    [KEY_MASK_HIDES_BOTH] = {"when the key mask hides queries, too"},
    [KEY_MASK_ZEROES] = {"when the scores of keys that the key mask hides are set to 0: e^0 is 1"},
    [KEY_MASK_FORCED_FIRST] = {"when the first key is always seen"},
};

#define OTHER_KEYS                                                                                 \
    (COURSE_BIT(KEY_MASK_SHIFTED) | COURSE_BIT(KEY_MASK_SHIFTED_BACK) |                            \
     COURSE_BIT(KEY_MASK_COUNTED) | COURSE_BIT(KEY_MASK_FORCED_FIRST))

/* bool (B, S) */
static ct_tensor *other_keys(ct_tensor *mask, course_set bits) {
    const int64_t batch = ct_dim(mask, 0), keys = ct_dim(mask, 1);
    bool given[512], other[512];
    if (batch * keys > 512 || !ct_to_bool(mask, given, batch * keys)) return NULL;
    for (int64_t b = 0; b < batch; b++) {
        int64_t count = 0;
        for (int64_t j = 0; j < keys; j++) count += given[b * keys + j];
        for (int64_t j = 0; j < keys; j++) {
            const int64_t at = b * keys + j;
            other[at] = given[at];
            if (bits >> KEY_MASK_SHIFTED & 1 && at + 1 < batch * keys) other[at] = given[at + 1];
            if (bits >> KEY_MASK_SHIFTED_BACK & 1 && at) other[at] = given[at - 1];
            if (bits >> KEY_MASK_COUNTED & 1) other[at] = j < count;
            if (bits >> KEY_MASK_FORCED_FIRST & 1 && j == 0) other[at] = true;
        }
    }
    return ct_from_bool(ct_context_of(mask), CT_SHAPE(batch, keys), other);
}

/* bits == 0: the right attention */
static ct_tensor *variant(ct_tensor *const *in, int n, void *causal, course_set bits) {
    (void)n;
    ct_tensor *q = in[0], *k = in[1], *v = in[2], *mask = in[3];
    if (!bits) return reference_of((problem){{q, k, v, mask}, *(bool *)causal});
    if (bits >> ONE_MASK & 1 && *(bool *)causal) mask = NULL;
    if (bits >> KEY_MASK_IGNORED & 1) mask = NULL;
    ct_tensor *hides = NULL; /* after the softmax */
    bool causal_now = *(bool *)causal;
    if (mask && bits & OTHER_KEYS) mask = other_keys(mask, bits);
    if (mask && bits >> KEY_MASK_INVERTED & 1) mask = ref_logical_not(mask);
    if (mask && bits >> KEY_MASK_OF_FIRST & 1) mask = ct_narrow(mask, 0, 0, 1);
    if (mask && bits >> CAUSAL_LOST & 1) causal_now = false;
    if (bits & (COURSE_BIT(KEY_MASK_OF_QUERIES) | COURSE_BIT(KEY_MASK_HIDES_BOTH)) &&
        (!mask || ct_dim(q, 1) > ct_dim(k, 1)))
        return NULL;
    if (mask && bits >> KEY_MASK_HIDES_BOTH & 1)
        hides = ref_logical_not(ct_unsqueeze(ct_narrow(mask, 1, 0, ct_dim(q, 1)), 2));
    if (mask && bits >> KEY_MASK_OF_QUERIES & 1)
        mask = ct_unsqueeze(ct_narrow(mask, 1, 0, ct_dim(q, 1)), 2);
    else if (mask) mask = ct_unsqueeze(mask, 1);
    if (mask && bits >> KEY_MASK_ZEROES & 1) {
        ct_tensor *real = ct_transpose(ref_where(mask, ct_ones(ct_context_of(q), CT_F64, CT_SCALAR),
                                                 ct_zeros(ct_context_of(q), CT_F64, CT_SCALAR)),
                                       1, 2);
        k = ref_mul(k, real), mask = NULL;
    }
    if (mask && bits >> KEY_MASK_AFTER & 1) {
        ct_tensor *gone = ref_logical_not(ct_transpose(mask, 1, 2));
        v = ref_masked_fill(v, gone, 0), mask = NULL;
    }
    if (mask && bits >> HIDDEN_IF_BOTH & 1) {
        if (!causal_now) mask = NULL;
        else
            mask =
                ref_logical_or(mask, ref_causal_mask(ct_context_of(q), ct_dim(q, 1), ct_dim(k, 1)));
        causal_now = false;
    }
    ct_tensor *out = course_attention(q, k, v, mask, causal_now, bits);
    return out && hides ? ref_masked_fill(out, hides, 0) : out;
}

static ct_tensor *right_one(ct_tensor *const *in, int n, void *causal) {
    return variant(in, n, causal, 0);
}
static void explain(ct_tensor *const *in, int n, void *causal, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    (void)got, (void)right;
    course_explain_weights(by_you, right_one, causal, in, n, said, size);
}

/* The numbers of queries, of keys, and of columns of q and of v all differ, so that no two can be
 * exchanged unseen. A call with a key mask gets one of its own. */
static void probe(ct_context *context, ct_tensor **in, void **causal) {
    (void)causal;
    in[0] = course_randn(context, CT_SHAPE(2, 4, 3));
    in[1] = course_randn(context, CT_SHAPE(2, 6, 3));
    in[2] = course_randn(context, CT_SHAPE(2, 6, 2));
    const bool real[] = {true, true,  false, true, false, true,
                         true, false, true,  true, true,  false};
    if (in[3]) in[3] = ct_from_bool(context, CT_SHAPE(2, 6), real);
}
static const char *const inputs[] = {"q: sequence, query, column", "k: sequence, key, column",
                                     "v: sequence, key, column", "the key mask: sequence, key",
                                     "the result: sequence, query, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *causal) {
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

/* Two sequences of four keys. In the first the last key is padding, in the second all keys are. */
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

/* The same with very large scores of the last key, and of key 1, where these are hidden. */
static void compare_beside(ct_context *context, const char *what, problem p) {
    ct_tensor *q = ref_abs(p.in[0]), *k = ref_scale(p.in[1], 1);
    const int64_t keys = ct_dim(k, 1), d = ct_dim(k, 2);
    const bool *real = p.in[3] ? ct_data_bool(p.in[3]) : NULL;
    double *at = ct_data_f64(k);
    for (int64_t row = 0; row < ct_dim(k, 0) * keys; row++)
        for (int64_t i = 0; i < d; i++)
            if (real ? !real[row] : row % keys == keys - 1) at[row * d + i] = 3000;
    p.in[0] = q, p.in[1] = k;
    course_hint("here hidden keys have very large scores: they must take no part, not even in the "
                "maximum");
    compare(what, p);
    (void)context;
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

/* Scores up to a million; only the first query has small scores. */
static void large(ct_context *context) {
    problem p = random_problem(context, 1, 4, 5, 2, 3);
    p.in[0] =
        ref_mul(p.in[0], course_f64(context, CT_SHAPE(1, 4, 1), (double[]){1, 1e2, 1e4, 1e6}));
    compare("attention with scores up to a million", p);
    p.in[0] = ct_full(context, CT_F64, CT_SHAPE(1, 4, 2), -1e6);
    p.in[1] = ct_full(context, CT_F64, CT_SHAPE(1, 5, 2), 1);
    compare("attention where every score is minus a million", p);
    p = random_problem(context, 2, 4, 4, 3, 2);
    p.causal = true;
    compare_beside(context, "causal attention, with large scores of the last key", p);
    p = random_problem(context, 2, 3, 4, 3, 2);
    p.in[3] = ct_from_bool(context, CT_SHAPE(2, 4),
                           (bool[]){true, true, true, false, false, true, false, true});
    compare_beside(context, "attention with a key mask, with large scores of hidden keys", p);
}

static void large_gradient(ct_context *context, const char *what, bool causal, bool masked) {
    problem p = random_problem(context, 1, 128, 128, 16, 16);
    if (masked)
        p.in[3] = ref_lt(ct_rand(context, CT_F64, CT_SHAPE(1, 128)),
                         ct_full(context, CT_F64, CT_SCALAR, 0.75));
    course_gradient_as(what, by_you, by_reference, &causal, p.in, 4, 1e-9);
}

/* The gradient of q if ds is wrong in this way. */
enum { D_WITHOUT_P, SCORES_FOR_P, NO_P, NO_D, D_OF_P, D_OF_LAST };
static ct_tensor *dq_with(ct_tensor *const *in, ct_tensor *g, const void *attrs, int kind) {
    const bool causal = ((const masked_attention_attrs *)attrs)->causal;
    ct_tensor *s = course_scores(in[0], in[1], in[2], 0), *seen = course_causal(s, causal, 0),
              *real = in[3] ? ct_unsqueeze(in[3], 1) : NULL;
    seen = seen && real ? ref_logical_and(seen, real) : real ? real : seen;
    ct_tensor *p = ref_masked_softmax(s, seen, -1),
              *dp = ref_matmul(g, ct_transpose(in[2], -1, -2));
    ct_tensor *summed = kind == D_WITHOUT_P ? dp : kind == D_OF_P ? p : ref_mul(p, dp);
    if (kind == D_OF_LAST) summed = ct_narrow(summed, -1, ct_dim(summed, -1) - 1, 1);
    ct_tensor *off = kind == NO_D ? dp : ref_sub(dp, ref_sum(summed, CT_DIMS(-1), true));
    ct_tensor *ds = kind == NO_P ? off : ref_mul(kind == SCORES_FOR_P ? s : p, off);
    return ref_scale(ref_matmul(ds, in[1]), 1 / sqrt((double)ct_dim(in[0], -1)));
}
#define DQ_WITH(name, kind)                                                                        \
    static ct_tensor *name(ct_tensor *const *in, ct_tensor *g, const void *attrs) {                \
        return dq_with(in, g, attrs, kind);                                                        \
    }
DQ_WITH(d_without_p, D_WITHOUT_P)
DQ_WITH(scores_for_p, SCORES_FOR_P)
DQ_WITH(no_p, NO_P)
DQ_WITH(no_d, NO_D)
DQ_WITH(d_of_p, D_OF_P)
DQ_WITH(d_of_last, D_OF_LAST)
static const course_wrong_gradient known[] = {
    {"in ds = p (dp - D), D is the sum of dp, and must be that of p dp", 0, d_without_p},
    {"in ds = p (dp - D) the scores stand for the weights p", 0, scores_for_p},
    {"in ds = p (dp - D) the factor p is missing", 0, no_p},
    {"in ds = p (dp - D), D is missing: a weight depends on every score of its row", 0, no_d},
    {"in ds = p (dp - D), D is the sum of p, and must be that of p dp", 0, d_of_p},
    {"in ds = p (dp - D), D is the last key's p dp alone: = or =+ in place of +=", 0, d_of_last},
};

/* A gradient is worth something only if the function is the right one. */
static void check_gradient(const char *what, problem p) {
    course_forward_first("the forward that is differentiated", &function, &p.causal, p.in, 4,
                         1e-12);
    course_name_gradient(&masked_attention, &(masked_attention_attrs){p.causal}, p.in, 4, known,
                         sizeof known / sizeof *known);
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
    course_no_other_gradients(p.in, 4, 1);
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
