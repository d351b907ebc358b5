/* blockwise_attention: its step by hand, its values and gradients against plain loops,
 * its memory, and a transformer of it. */
#include "../attention_variants.h"
#include "../course.h"
#include "../remote.h"
#include "exercise.h"
#include "mistakes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the step ---- */

static void attend(attention_state *state, int64_t n, const double *score, int64_t e,
                   const double *v) {
    attend_block(state, n, score, e, v);
    if (isinf(state->max))
        course_fail("attend_block %s: after %d keys max is still %g",
                    state->sum == 0 ? "leaves max and sum as they were (is it not written yet?)"
                                    : "does not store the new maximum",
                    (int)n, state->max);
}

/* scores (B, T, S) and v (B, S, e) -> (B, T, e), without a gradient */
static ct_tensor *in_blocks(ct_tensor *scores, ct_tensor *v, int64_t block, bool causal,
                            course_set bits) {
    const int64_t batch = ct_dim(scores, 0), queries = ct_dim(scores, 1), keys = ct_dim(scores, 2),
                  e = ct_dim(v, 2);
    ct_tensor *out = ct_zeros(ct_context_of(v), CT_F64, CT_SHAPE(batch, queries, e));
    double *states = calloc((size_t)e + 1, sizeof *states);
    simulated state = {-INFINITY, 0, states};
    simulate_begin(&state, e, bits);
    const double *s = ct_data_f64(ct_contiguous(scores)), *x = ct_data_f64(v);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < queries; i++) {
            int64_t seen = i + !has(bits, CAUSAL_STRICT) + has(bits, CAUSAL_ONE_MORE);
            if (has(bits, STRICT_IN_LOOP)) seen = i;
            if (has(bits, STRICT_BUT_FIRST)) seen = i ? i : 1;
            if (has(bits, CAUSAL_AT_END)) seen = i + 1 + keys - queries;
            if (has(bits, CAUSAL_IGNORED) || !causal || seen > keys) seen = keys;
            simulate(&state, s + (b * queries + i) * keys, x + b * keys * e, seen, keys, e, block,
                     bits);
            memcpy(ct_data_f64(out) + (b * queries + i) * e, states, (size_t)e * sizeof *states);
        }
    free(states);
    return out;
}

/* Scores (1, KEYS) and values (KEYS, e), a block at a time: out / sum. */
static ct_tensor *steps_by_you(ct_tensor *const *in, int n, void *block) {
    const int64_t keys = ct_dim(in[0], 1), e = ct_dim(in[1], 1);
    ct_tensor *out = ct_zeros(ct_context_of(in[0]), CT_F64, CT_SHAPE(1, e));
    attention_state state = {-INFINITY, 0, ct_data_f64(out)};
    (void)n;
    for (int64_t j = 0; j < keys; j += *(int64_t *)block)
        attend(&state, *(int64_t *)block, ct_data_f64(in[0]) + j, e, ct_data_f64(in[1]) + j * e);
    for (int64_t c = 0; c < e; c++) state.out[c] /= state.sum;
    return out;
}
static ct_tensor *steps_variant(ct_tensor *const *in, int n, void *block, course_set bits) {
    (void)n;
    if (!bits) return ref_matmul(ref_softmax(in[0], -1), in[1]);
    if (bits >> SUM_NOT_MOVED == 0 && !has(bits, MAXIMUM_FROM_ZERO) && !has(bits, NO_MAXIMUM))
        return NULL;
    return ct_select(
        in_blocks(ct_unsqueeze(in[0], 0), ct_unsqueeze(in[1], 0), *(int64_t *)block, false, bits),
        0, 0);
}
static const char *const steps_inputs[] = {"the scores: query, key", "v: key, column",
                                           "the result: query, column"};
static const course_function steps_function =
    COURSE_FUNCTION(steps_by_you, steps_variant, mistakes, .inputs = steps_inputs);

/* Scores (1, K) and values (K, 2), of which two come first: max, sum, and two numbers of out. */
static ct_tensor *state_by_you(ct_tensor *const *in, int n, void *arg) {
    double out[4] = {0};
    attention_state state = {-INFINITY, 0, out + 2};
    (void)n, (void)arg;
    attend(&state, 2, ct_data_f64(in[0]), 2, ct_data_f64(in[1]));
    attend(&state, ct_dim(in[0], 1) - 2, ct_data_f64(in[0]) + 2, 2, ct_data_f64(in[1]) + 4);
    out[0] = state.max, out[1] = state.sum;
    return course_f64(ct_context_of(in[0]), CT_SHAPE(4), out);
}
static ct_tensor *state_variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    double out[4] = {0};
    simulated state = {-INFINITY, 0, out + 2};
    (void)n, (void)arg;
    if (!(bits & STEP_MISTAKES) && bits) return NULL;
    simulate_begin(&state, 2, 0);
    simulate_block(&state, 2, ct_data_f64(in[0]), 2, ct_data_f64(in[1]), bits);
    simulate_block(&state, ct_dim(in[0], 1) - 2, ct_data_f64(in[0]) + 2, 2, ct_data_f64(in[1]) + 4,
                   bits);
    out[0] = state.max, out[1] = state.sum;
    return course_f64(ct_context_of(in[0]), CT_SHAPE(4), out);
}
static void state_probe(ct_context *context, ct_tensor **in, void **arg) {
    (void)arg;
    in[0] = course_randn(context, CT_SHAPE(1, 6)), in[1] = course_randn(context, CT_SHAPE(6, 2));
}

/* Names the one of max, sum and out that is wrong. */
static void explain_state(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                          char *said, size_t size) {
    const double *a = ct_data_f64(got), *b = ct_data_f64(right);
    const bool max = fabs(a[0] - b[0]) < 1e-9, sum = fabs(a[1] - b[1]) < 1e-9,
               out = fabs(a[2] - b[2]) < 1e-9 && fabs(a[3] - b[3]) < 1e-9;
    (void)in, (void)n, (void)arg;
    snprintf(said, size, "max is %s, sum is %s, out is %s", max ? "right" : "wrong",
             sum ? "right" : "wrong", out ? "right" : "wrong");
}
static const char *const state_inputs[] = {"the scores: query, key", "v: key, column",
                                           "max, sum and out: number"};
static const course_function state_function =
    COURSE_FUNCTION(state_by_you, state_variant, mistakes, .inputs = state_inputs,
                    .probe = state_probe, .explain = explain_state);

/* The example of README.md: scores 1, 3 and then 4. */
static void step_by_hand(ct_context *context) {
    const char *what = "max, sum and out (elements 0, 1, and 2 to 3) after scores 1 and 3, then 4";
    ct_tensor *in[] = {course_f64(context, CT_SHAPE(1, 3), (double[]){1, 3, 4}),
                       course_f64(context, CT_SHAPE(3, 2), (double[]){5, 0, 0, 7, 2, 2})};
    double out[2] = {0, 0};
    attention_state state = {-INFINITY, 0, out};
    attend(&state, 2, (double[]){1, 3}, 2, (double[]){5, 0, 0, 7});
    const double first[] = {state.max, state.sum, out[0], out[1]},
                 must[] = {3, exp(-2) + 1, 5 * exp(-2), 7};
    ct_tensor *got = course_f64(context, CT_SHAPE(4), first),
              *right = course_f64(context, CT_SHAPE(4), must);
    /* a mistake without a name after one block may have one after two */
    if (!course_same(got, right, 1e-14)) course_forward(what, &state_function, NULL, in, 2, 1e-14);
    course_value("max, sum and out (elements 0, 1, and 2 to 3) after scores 1 and 3", got, right,
                 1e-14);
    course_forward(what, &state_function, NULL, in, 2, 1e-14);
    course_value(what, state_by_you(in, 2, NULL),
                 course_f64(context, CT_SHAPE(4),
                            (double[]){4, exp(-3) + exp(-1) + 1, 5 * exp(-3) + 2, 7 * exp(-1) + 2}),
                 1e-14);
}

/* The weighted mean of 12 values in blocks of `block`, for scores around `center`. */
static void check_steps(ct_context *context, int64_t block, double center) {
    enum { KEYS = 12, E = 3 };
    ct_tensor *s = ref_add_scalar(ref_scale(course_randn(context, CT_SHAPE(1, KEYS)), 3), center),
              *v = course_randn(context, CT_SHAPE(KEYS, E));
    char what[96];
    snprintf(what, sizeof what, "out / sum after 12 keys in blocks of %d, scores around %g",
             (int)block, center);
    course_forward(what, &steps_function, &block, (ct_tensor *[]){s, v}, 2, 1e-12);
}

static void steps(ct_context *context) {
    check_steps(context, 4, 0);
    for (int64_t block = 1; block <= 12; block++)
        if (12 % block == 0)
            for (int i = -1; i <= 1; i++) check_steps(context, block, 2000 * i);
}

/* ---- the op ---- */

typedef struct {
    ct_tensor *in[3]; /* q, k, v */
    blockwise_attention_attrs attrs;
} problem;

static ct_tensor *yours(const problem *p) {
    return ct_apply(&blockwise_attention, p->in, 3, &p->attrs);
}

/* bits == 0: the right attention */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    const blockwise_attention_attrs *attrs = arg;
    ct_tensor *q = in[0], *k = in[1], *v = in[2];
    (void)n;
    if (!bits) return ref_attention(q, k, v, NULL, attrs->causal);
    if (bits >> SUM_NOT_MOVED == 0) return course_attention(q, k, v, NULL, attrs->causal, bits);
    if (has(bits, FIRST_OF_BATCH)) {
        k = ref_expand(ct_narrow(k, 0, 0, 1), ct_shape_of(k));
        v = ref_expand(ct_narrow(v, 0, 0, 1), ct_shape_of(v));
    }
    return in_blocks(course_scores(q, k, v, bits), ct_contiguous(v), attrs->block, attrs->causal,
                     bits);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return yours(&(problem){{in[0], in[1], in[2]}, *(blockwise_attention_attrs *)attrs});
}
static ct_tensor *right_one(ct_tensor *const *in, int n, void *attrs) {
    return variant(in, n, attrs, 0);
}
static void explain(ct_tensor *const *in, int n, void *attrs, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    (void)got, (void)right;
    course_explain_weights(by_you, right_one, attrs, in, n, said, size);
}

static void probe(ct_context *context, ct_tensor **in, void **arg) {
    static blockwise_attention_attrs attrs;
    attrs = (blockwise_attention_attrs){3, ((blockwise_attention_attrs *)*arg)->causal};
    in[0] = course_randn(context, CT_SHAPE(2, 6, 5));
    in[1] = course_randn(context, CT_SHAPE(2, 8, 5));
    in[2] = course_randn(context, CT_SHAPE(2, 8, 2));
    *arg = &attrs;
}
static const char *const inputs[] = {"q: sequence, query, column", "k: sequence, key, column",
                                     "v: sequence, key, column",
                                     "the result: sequence, query, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *attrs) {
    return course_as_yours(&function, in, n, attrs);
}

static problem random_problem(ct_context *context, int64_t b, int64_t t, int64_t s, int64_t d,
                              int64_t e, int64_t block, bool causal) {
    return (problem){{course_randn(context, CT_SHAPE(b, t, d)),
                      course_randn(context, CT_SHAPE(b, s, d)),
                      course_randn(context, CT_SHAPE(b, s, e))},
                     {block, causal}};
}

static void compare(const char *what, problem p) {
    char whole[128];
    snprintf(whole, sizeof whole, "%s, in blocks of %d", what, (int)p.attrs.block);
    course_forward(whole, &function, &p.attrs, p.in, 3, 1e-12);
}

static void one_block(ct_context *context) {
    /* B, T, S, d, e */
    const int64_t sizes[][5] = {{1, 1, 1, 1, 1}, {2, 3, 5, 4, 2}, {3, 5, 8, 1, 3}};
    for (int i = 0; i < 3; i++)
        compare("all keys at once", random_problem(context, sizes[i][0], sizes[i][1], sizes[i][2],
                                                   sizes[i][3], sizes[i][4], sizes[i][2], false));
}

static void blocks(ct_context *context) {
    /* the first problem is one in which most mistakes give different results */
    compare("12 keys", random_problem(context, 2, 5, 12, 3, 2, 5, false));
    for (int64_t block = 1; block <= 13; block++)
        compare("12 keys", random_problem(context, 2, 5, 12, 3, 2, block, false));
}

static void causal(ct_context *context) {
    compare("7 causal queries, 7 keys", random_problem(context, 2, 7, 7, 3, 2, 3, true));
    for (int64_t block = 1; block <= 8; block++)
        compare("7 causal queries, 7 keys", random_problem(context, 2, 7, 7, 3, 2, block, true));
    compare("7 causal queries, 4 keys", random_problem(context, 2, 7, 4, 3, 2, 3, true));
    compare("4 causal queries, 7 keys", random_problem(context, 2, 4, 7, 3, 2, 3, true));
}

static void large(ct_context *context) {
    problem p = random_problem(context, 1, 4, 9, 2, 3, 4, false);
    p.in[0] =
        ref_mul(p.in[0], course_f64(context, CT_SHAPE(1, 4, 1), (double[]){1, 1e2, 1e4, 1e6}));
    compare("scores up to a million", p);
    p.in[0] = ct_full(context, CT_F64, CT_SHAPE(1, 4, 2), -1e6);
    p.in[1] = ct_full(context, CT_F64, CT_SHAPE(1, 9, 2), 1);
    compare("every score minus a million", p);
    /* the last key is hidden from all queries but the last, and has the largest scores by far */
    p = random_problem(context, 1, 5, 5, 2, 3, 2, true);
    p.in[0] = ref_abs(p.in[0]);
    for (int i = 0; i < 2; i++) ct_data_f64(p.in[1])[4 * 2 + i] = 3000;
    compare("causal, with large scores of the last key", p);
}

static void large_gradient(ct_context *context, const char *what, bool causal) {
    problem p = random_problem(context, 1, 128, 128, 16, 16, 16, causal);
    course_gradient_as(what, by_you, by_reference, &p.attrs, p.in, 3, 1e-9);
}

/* A gradient is worth something only if the function is the right one. */
static void check_gradient(const char *what, problem p) {
    course_forward_first("the forward that is differentiated", &function, &p.attrs, p.in, 3, 1e-12);
    course_gradient(what, &blockwise_attention, &p.attrs, p.in, 3, (ct_gradcheck_opts){0});
}

static void gradient(ct_context *context) {
    check_gradient("inputs 0, 1, 2 are q, k, v", random_problem(context, 2, 3, 8, 5, 4, 3, false));
    large_gradient(context, "128 queries and keys", false);
}

static void gradient_causal(ct_context *context) {
    check_gradient("causal; inputs 0, 1, 2 are q, k, v",
                   random_problem(context, 1, 5, 5, 3, 2, 2, true));
    large_gradient(context, "128 queries and keys, causal", true);
}

/* ---- memory ---- */

/* ThreadSanitizer takes some three bytes for each byte that is used. */
#if defined __SANITIZE_THREAD__
enum { RESIDENT = 4 };
#else
enum { RESIDENT = 1 };
#endif

enum { LONG = 1024 };
/* bytes; all that is needed is less than half a megabyte */
static const double limit = 2 << 20, matrix = 8.0 * LONG * LONG;

/* Checks the memory that the submission has taken, from the library or in any other way, beyond
 * what it had before. */
static void check_memory(const char *what, const remote_memory_stats *before) {
    const remote_memory_stats now = remote_memory(false);
    const double taken = (double)(now.peak - before->live),
                 grown = (now.process_peak - before->process_peak) / RESIDENT;
    if (fmax(taken, grown) > limit)
        course_fail("%s took %.1f MB for %d queries and keys, where %.1f MB are allowed: a (T, T) "
                    "matrix has %.1f MB",
                    what, fmax(taken, grown) / 1e6, LONG, limit / 1e6, matrix / 1e6);
}

static void memory(ct_context *context) {
    problem p = random_problem(context, 1, LONG, LONG, 4, 4, 64, false);
    ct_tensor *weights = course_randn(context, CT_SHAPE(1, LONG, 4)), *grad[3];
    for (int i = 0; i < 3; i++) ct_set_requires_grad(p.in[i], true);
    const remote_memory_stats before = remote_memory(true);
    ct_tensor *out = yours(&p);
    check_memory("forward", &before);
    course_value("1,024 keys in blocks of 64", out, right_one(p.in, 3, &p.attrs), 1e-10);
    ct_backward_with(&out, &weights, 1, (ct_backward_opts){false});
    check_memory("forward and backward", &before);
    if (ct_error(context)) course_fail("%s", ct_error_message(context));
    for (int i = 0; i < 3; i++) grad[i] = ct_grad(p.in[i]);
    course_gradient_along("1,024 keys in blocks of 64; inputs 0, 1, 2 are q, k, v", right_one,
                          &p.attrs, p.in, 3, weights, grad, 1e-9);
}

/* ---- a transformer ---- */

/* A sequence is four random tokens and then the same four again. From the fourth on, the next token
 * is the token three places back. */
enum { TOKENS = 8, HALF = 4, LENGTH = 2 * HALF - 1, BATCH = 16, STEPS = 150 };
static const double rate = 1;

/* One head, of which queries, keys and values are learnt for each place and each token: the
 * embeddings, with what a layer multiplies them by already in them. The values of a key add to the
 * logits of its query.
 *     q[b][i] = table[PLACE + i] + table[TOKEN + x[b][i]], and so k and v */
enum { PLACE = 0, TOKEN = LENGTH, ROWS = LENGTH + TOKENS };
typedef struct {
    double q[ROWS][TOKENS], k[ROWS][TOKENS], v[ROWS][TOKENS];
} tables;

typedef struct {
    tables weight, step; /* the learnt numbers, and how far they moved in the last step */
    int64_t token[BATCH][LENGTH], next[BATCH][LENGTH];
} model;

static double *part_of(tables *t, int part) {
    return part == 0 ? t->q[0] : part == 1 ? t->k[0] : t->v[0];
}

static void draw_batch(ct_context *context, model *m) {
    for (int b = 0; b < BATCH; b++) {
        int64_t word[HALF];
        for (int i = 0; i < HALF; i++) word[i] = ct_random_below(context, TOKENS);
        for (int i = 0; i < LENGTH; i++) {
            m->token[b][i] = word[i % HALF];
            /* the first half cannot be known */
            m->next[b][i] = i + 1 < HALF ? -1 : word[(i + 1) % HALF];
        }
    }
}

/* Queries, keys or values of the batch, by what has been learnt. */
static ct_tensor *looked_up(ct_context *context, model *m, int part) {
    const double *table = part_of(&m->weight, part);
    ct_tensor *x = ct_zeros(context, CT_F64, CT_SHAPE(BATCH, LENGTH, TOKENS));
    double *to = ct_data_f64(x);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < LENGTH; i++)
            for (int c = 0; c < TOKENS; c++)
                *to++ =
                    table[(PLACE + i) * TOKENS + c] + table[(TOKEN + m->token[b][i]) * TOKENS + c];
    return ct_set_requires_grad(x, true);
}

/* Moves what was looked up against its gradient, with momentum. */
static void learn(model *m, int part, const double *gradient) {
    double *weight = part_of(&m->weight, part), *step = part_of(&m->step, part);
    for (int r = 0; r < ROWS * TOKENS; r++) step[r] *= 0.9;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < LENGTH; i++)
            for (int c = 0; c < TOKENS; c++, gradient++) {
                step[(PLACE + i) * TOKENS + c] -= rate * *gradient;
                step[(TOKEN + m->token[b][i]) * TOKENS + c] -= rate * *gradient;
            }
    for (int r = 0; r < ROWS * TOKENS; r++) weight[r] += step[r];
}

/* The mean square of what the logits are off: of 1 for the next token, and 0 for the others. `off`
 * becomes its gradient. */
static double mean_square(const model *m, const double *logits, double *off) {
    double sum = 0;
    int count = 0;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < LENGTH; i++) count += m->next[b][i] >= 0;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < LENGTH; i++)
            for (int c = 0; c < TOKENS; c++, logits++, off++) {
                *off = m->next[b][i] < 0 ? 0 : 2 * (*logits - (c == m->next[b][i])) / count;
                sum += *off * *off * count / 4;
            }
    return sum;
}

static double train_step(ct_context *context, model *m) {
    ct_scope scope = ct_scope_open(context);
    draw_batch(context, m);
    ct_tensor *in[3];
    for (int i = 0; i < 3; i++) in[i] = looked_up(context, m, i);
    ct_tensor *out = ct_apply(&blockwise_attention, in, 3, &(blockwise_attention_attrs){3, true}),
              *off = ct_zeros(context, CT_F64, CT_SHAPE(BATCH, LENGTH, TOKENS));
    if (!out || !off) course_fail("the transformer does not train: %s", ct_error_message(context));
    const double loss = mean_square(m, ct_data_f64(out), ct_data_f64(off));
    if (!ct_backward_with(&out, &off, 1, (ct_backward_opts){false}))
        course_fail("the transformer does not train: %s", ct_error_message(context));
    for (int i = 0; i < 3; i++)
        if (ct_grad(in[i])) learn(m, i, ct_data_f64(ct_grad(in[i])));
    ct_scope_close(scope);
    return loss;
}

static void transformer(ct_context *context) {
    compare("causal", random_problem(context, 2, LENGTH, LENGTH, 3, 2, 3, true));
    static model m;
    double mean = 0; /* loss of the last 20 steps */
    for (int part = 0; part < 3; part++) {
        ct_tensor *first = ref_scale(course_randn(context, CT_SHAPE(ROWS, TOKENS)), 0.3);
        memcpy(part_of(&m.weight, part), ct_data_f64(first), sizeof m.weight.q);
    }
    for (int step = 0; step < STEPS; step++) {
        const double loss = train_step(context, &m);
        if (step >= STEPS - 20) mean += loss / 20;
    }
    if (!(mean < 0.01))
        course_fail("the transformer has not learnt: its loss is %.3f after %d steps, and must be "
                    "below 0.01 (a guess has %.3f)",
                    mean, STEPS, 1 - 1.0 / TOKENS);
}

const course_test course_tests[] = {
    {"step_by_hand", 1, step_by_hand},
    {"steps", 1, steps},
    {"one_block", 1, one_block},
    {"blocks", 1, blocks},
    {"causal", 1, causal},
    {"large", 1, large},
    {"gradient", 1, gradient},
    {"gradient_causal", 1, gradient_causal},
    {"memory", 1, memory},
    {"transformer", 1, transformer},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
