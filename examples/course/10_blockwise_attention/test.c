/* blockwise_attention: its step by hand, its values and gradients against the library's attention,
 * its memory, and a transformer of it. */
#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the step ---- */

static void attend(attention_state *state, int64_t n, const double *score, int64_t e,
                   const double *v) {
    attend_block(state, n, score, e, v);
    if (isinf(state->max))
        course_fail("attend_block is not written yet: after %d keys max is still %g", (int)n,
                    state->max);
}

/* The example of README.md: scores 1, 3 and then 4. */
static void step_by_hand(ct_context *context) {
    double out[2] = {0, 0};
    attention_state state = {-INFINITY, 0, out};
    attend(&state, 2, (double[]){1, 3}, 2, (double[]){5, 0, 0, 7});
    course_value("max, sum and out after scores 1 and 3",
                 course_f64(context, CT_SHAPE(4), (double[]){state.max, state.sum, out[0], out[1]}),
                 course_f64(context, CT_SHAPE(4), (double[]){3, exp(-2) + 1, 5 * exp(-2), 7}),
                 1e-14);
    attend(&state, 1, (double[]){4}, 2, (double[]){2, 2});
    course_value("max, sum and out after score 4, too",
                 course_f64(context, CT_SHAPE(4), (double[]){state.max, state.sum, out[0], out[1]}),
                 course_f64(context, CT_SHAPE(4),
                            (double[]){4, exp(-3) + exp(-1) + 1, 5 * exp(-3) + 2, 7 * exp(-1) + 2}),
                 1e-14);
}

/* The weighted mean of 12 values in blocks of `block`, for scores around `center`. */
static void check_steps(ct_context *context, int64_t block, double center) {
    enum { KEYS = 12, E = 3 };
    ct_tensor *s = ct_add_scalar(ct_scale(course_randn(context, CT_SHAPE(1, KEYS)), 3), center),
              *v = course_randn(context, CT_SHAPE(KEYS, E));
    double score[KEYS], value[KEYS * E], out[E] = {0};
    ct_tensor *expected = ct_matmul(ct_softmax(s, -1), v);
    if (!ct_to_f64(s, score, KEYS) || !ct_to_f64(v, value, KEYS * E))
        course_fail("%s", ct_error_message(context));
    attention_state state = {-INFINITY, 0, out};
    for (int64_t j = 0; j < KEYS; j += block) attend(&state, block, score + j, E, value + j * E);
    for (int c = 0; c < E; c++) out[c] /= state.sum;
    char what[96];
    snprintf(what, sizeof what, "out / sum after 12 keys in blocks of %d, scores around %g",
             (int)block, center);
    course_value(what, course_f64(context, CT_SHAPE(1, E), out), expected, 1e-12);
}

static void steps(ct_context *context) {
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

static ct_tensor *librarys(const problem *p) {
    /* one head */
    ct_tensor *q = ct_unsqueeze(p->in[0], 1), *k = ct_unsqueeze(p->in[1], 1),
              *v = ct_unsqueeze(p->in[2], 1);
    return ct_squeeze(ct_attention(q, k, v, (ct_attention_opts){.causal = p->attrs.causal}).out, 1);
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
    course_value(whole, yours(&p), librarys(&p), 1e-12);
}

static void one_block(ct_context *context) {
    /* B, T, S, d, e */
    const int64_t sizes[][5] = {{1, 1, 1, 1, 1}, {2, 3, 5, 4, 2}, {3, 5, 8, 1, 3}};
    for (int i = 0; i < 3; i++)
        compare("all keys at once", random_problem(context, sizes[i][0], sizes[i][1], sizes[i][2],
                                                   sizes[i][3], sizes[i][4], sizes[i][2], false));
}

static void blocks(ct_context *context) {
    for (int64_t block = 1; block <= 13; block++)
        compare("12 keys", random_problem(context, 2, 5, 12, 3, 2, block, false));
}

static void causal(ct_context *context) {
    for (int64_t block = 1; block <= 8; block++)
        compare("7 causal queries, 7 keys", random_problem(context, 2, 7, 7, 3, 2, block, true));
    compare("7 causal queries, 4 keys", random_problem(context, 2, 7, 4, 3, 2, 3, true));
    compare("4 causal queries, 7 keys", random_problem(context, 2, 4, 7, 3, 2, 3, true));
}

static void large(ct_context *context) {
    problem p = random_problem(context, 1, 4, 9, 2, 3, 4, false);
    p.in[0] = ct_mul(p.in[0], course_f64(context, CT_SHAPE(1, 4, 1), (double[]){1, 1e2, 1e4, 1e6}));
    compare("scores up to a million", p);
    p.in[0] = ct_full(context, CT_F64, CT_SHAPE(1, 4, 2), -1e6);
    p.in[1] = ct_full(context, CT_F64, CT_SHAPE(1, 9, 2), 1);
    compare("every score minus a million", p);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return yours(&(problem){{in[0], in[1], in[2]}, *(blockwise_attention_attrs *)attrs});
}
static ct_tensor *by_library(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return librarys(&(problem){{in[0], in[1], in[2]}, *(blockwise_attention_attrs *)attrs});
}
static void large_gradient(ct_context *context, const char *what, bool causal) {
    problem p = random_problem(context, 1, 128, 128, 16, 16, 16, causal);
    course_gradient_as(what, by_you, by_library, &p.attrs, p.in, 3, 1e-9);
}

/* A gradient is only worth something of the right function. */
static void check_gradient(const char *what, problem p) {
    compare("the forward that is differentiated", p);
    course_gradient(what, &blockwise_attention, &p.attrs, p.in, 3, (ct_gradcheck_opts){0});
}

static void gradient(ct_context *context) {
    check_gradient("inputs 0, 1, 2 are q, k, v", random_problem(context, 2, 3, 4, 5, 3, 3, false));
    large_gradient(context, "128 queries and keys", false);
}

static void gradient_causal(ct_context *context) {
    check_gradient("causal; inputs 0, 1, 2 are q, k, v",
                   random_problem(context, 1, 4, 4, 3, 2, 2, true));
    large_gradient(context, "128 queries and keys, causal", true);
}

/* ---- memory ---- */

/* ThreadSanitizer keeps some three bytes for each that is used. */
#if defined __SANITIZE_THREAD__
enum { RESIDENT = 4 };
#else
enum { RESIDENT = 1 };
#endif

/* The most memory this process has had, in bytes, or 0 where the system does not say (Linux
 * does). */
static double process_peak(void) {
    char line[128];
    double kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtod(line + 6, NULL);
    if (status) fclose(status);
    return kib * 1024 / RESIDENT;
}

enum { LONG = 1024 };
/* bytes; all that is needed is less than half a megabyte */
static const double limit = 2 << 20, matrix = 8.0 * LONG * LONG;

/* What was taken beyond `live`, from the library or by any other way, since the process had at most
 * `peak`. */
static void check_memory(ct_context *context, const char *what, int64_t live, double peak) {
    const double taken = (double)(ct_memory(context).peak - live), grown = process_peak() - peak;
    if (fmax(taken, grown) > limit)
        course_fail("%s took %.1f MB for %d queries and keys, where %.1f MB are allowed: a (T, T) "
                    "matrix has %.1f MB",
                    what, fmax(taken, grown) / 1e6, LONG, limit / 1e6, matrix / 1e6);
}

static void memory(ct_context *context) {
    problem p = random_problem(context, 1, LONG, LONG, 4, 4, 64, false);
    ct_tensor *weights = course_randn(context, CT_SHAPE(1, LONG, 4)), *expected[4];
    for (int i = 0; i < 3; i++) ct_set_requires_grad(p.in[i], true);
    expected[3] = librarys(&p);
    ct_backward(ct_sum(ct_mul(expected[3], weights), CT_ALL, false));
    for (int i = 0; i < 3; i++) {
        expected[i] = ct_scale(ct_grad(p.in[i]), 1);
        ct_zero_grad(p.in[i]);
    }
    ct_memory_reset_peak(context);
    const int64_t live = ct_memory(context).live;
    const double peak = process_peak();
    ct_tensor *out = yours(&p);
    check_memory(context, "forward", live, peak);
    course_value("1,024 keys in blocks of 64", out, expected[3], 1e-10);
    ct_backward(ct_sum(ct_mul(out, weights), CT_ALL, false));
    check_memory(context, "forward and backward", live, peak);
    const char *names[] = {"the gradient of q", "the gradient of k", "the gradient of v"};
    for (int i = 0; i < 3; i++) course_value(names[i], ct_grad(p.in[i]), expected[i], 1e-10);
}

/* ---- a transformer ---- */

/* Four random tokens and the same four again: from the fourth on each next one is known to who
 * looks three back. */
enum {
    TOKENS = 8,
    HALF = 4,
    LENGTH = 2 * HALF - 1,
    BATCH = 16,
    WIDTH = 16,
    HEADS = 2,
    STEPS = 300
};

static ct_module *transformer_new(ct_context *context) {
    ct_module *model = ct_module_new(context, "Transformer");
    const ct_layer_norm_opts norm = {.dim = WIDTH, .dtype = CT_F64};
    ct_module_add_child(model, "tokens",
                        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = TOKENS,
                                                                      .embedding_dim = WIDTH,
                                                                      .dtype = CT_F64}));
    ct_module_add_child(model, "places",
                        ct_positions_new(context, (ct_positions_opts){.max_length = LENGTH,
                                                                      .embed_dim = WIDTH,
                                                                      .dtype = CT_F64}));
    ct_module_add_child(model, "norm1", ct_layer_norm_new(context, norm));
    ct_module_add_child(model, "qkv",
                        ct_linear_new(context, (ct_linear_opts){.in_features = WIDTH,
                                                                .out_features = 3 * WIDTH,
                                                                .dtype = CT_F64}));
    ct_module_add_child(model, "join",
                        ct_linear_new(context, (ct_linear_opts){.in_features = WIDTH,
                                                                .out_features = WIDTH,
                                                                .dtype = CT_F64}));
    ct_module_add_child(model, "norm2", ct_layer_norm_new(context, norm));
    ct_module_add_child(model, "mlp",
                        ct_mlp_new(context, (ct_mlp_opts){.dim = WIDTH,
                                                          .hidden = 2 * WIDTH,
                                                          .activation = CT_GELU,
                                                          .dtype = CT_F64}));
    ct_module_add_child(model, "norm3", ct_layer_norm_new(context, norm));
    ct_module_add_child(model, "head",
                        ct_linear_new(context, (ct_linear_opts){.in_features = WIDTH,
                                                                .out_features = TOKENS,
                                                                .dtype = CT_F64}));
    return model;
}

static ct_tensor *run(ct_module *model, const char *child, ct_tensor *x) {
    return ct_forward(ct_module_child(model, child), x);
}

/* x (B, T, E) through your attention, each head a sequence of its own. */
static ct_tensor *heads(ct_module *model, ct_tensor *x) {
    ct_tensor *qkv = run(model, "qkv", x), *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = ct_reshape(ct_split_heads(ct_narrow(qkv, -1, i * WIDTH, WIDTH), HEADS),
                             CT_SHAPE(BATCH * HEADS, LENGTH, WIDTH / HEADS));
    ct_tensor *out = ct_apply(&blockwise_attention, part, 3, &(blockwise_attention_attrs){3, true});
    return run(model, "join",
               ct_combine_heads(ct_reshape(out, CT_SHAPE(BATCH, HEADS, LENGTH, WIDTH / HEADS))));
}

static ct_tensor *logits(ct_module *model, ct_tensor *tokens) {
    ct_tensor *x =
        ct_positions_forward(ct_module_child(model, "places"), run(model, "tokens", tokens), 0);
    x = ct_add(x, heads(model, run(model, "norm1", x)));
    x = ct_add(x, run(model, "mlp", run(model, "norm2", x)));
    return ct_reshape(run(model, "head", run(model, "norm3", x)), CT_SHAPE(BATCH * LENGTH, TOKENS));
}

static void make_batch(ct_context *context, ct_tensor **tokens, ct_tensor **targets) {
    int64_t x[BATCH][LENGTH], y[BATCH][LENGTH], word[HALF];
    for (int b = 0; b < BATCH; b++) {
        for (int i = 0; i < HALF; i++) word[i] = ct_random_below(context, TOKENS);
        for (int i = 0; i < LENGTH; i++) {
            x[b][i] = word[i % HALF];
            /* the first half cannot be known */
            y[b][i] = i + 1 < HALF ? -100 : word[(i + 1) % HALF];
        }
    }
    *tokens = ct_from_i64(context, CT_SHAPE(BATCH, LENGTH), &x[0][0]);
    *targets = ct_from_i64(context, CT_SHAPE(BATCH * LENGTH), &y[0][0]);
}

static void transformer(ct_context *context) {
    compare("causal", random_problem(context, 2, LENGTH, LENGTH, 3, 2, 3, true));
    ct_seed(context, 7);
    ct_module *model = transformer_new(context);
    ct_optim *optim = ct_adam_new(model, (ct_adam_opts){.lr = 0.01});
    double mean = 0; /* loss of the last 20 steps */
    for (int step = 0; step < STEPS; step++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *tokens, *targets;
        make_batch(context, &tokens, &targets);
        ct_tensor *error =
            ct_cross_entropy(logits(model, tokens), targets, (ct_cross_entropy_opts){0});
        if (step >= STEPS - 20) mean += ct_item(error) / 20;
        ct_backward(error);
        ct_optim_step(optim);
        ct_optim_zero_grad(optim);
        ct_scope_close(scope);
        if (ct_error(context))
            course_fail("the transformer does not train: %s", ct_error_message(context));
    }
    if (!(mean < 0.1))
        course_fail("the transformer has not learnt: its loss is %.3f after %d steps, and must be "
                    "below 0.1 (a guess has %.3f)",
                    mean, STEPS, log(TOKENS));
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
