/* Reinforcement learning by GRPO (Shao et al. 2024, arXiv:2402.03300): a language model of a
 * million parameters, which begins with random weights, learns to add two numbers below 5. It is
 * never shown an answer. It writes some answers to each sum, a function gives each of them a
 * reward, and those that are better than the others of their group become more likely. Usage: grpo
 * [steps] */
#include "../programs/common.h"

#include <math.h>

enum { PLUS = 10, EQUALS, SYMBOLS };                 /* ids 0 to 9 are digits */
enum { SUMS = 16, GROUP = 16, ROWS = SUMS * GROUP }; /* the answers to a sum are a group */
enum { ASKED = 4, ANSWER = 1, LENGTH = ASKED + ANSWER, PASSES = 2 };

static const char config[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 12, \"hidden_size\": 128, "
    "\"intermediate_size\": 448, \"num_hidden_layers\": 4, \"num_attention_heads\": 4}";

/* Rows of ids "a + b = x", and of their answers the log-probabilities when they were drawn. */
typedef struct {
    int64_t id[ROWS][LENGTH];
    double logprob[ROWS][ANSWER], reward[ROWS], mean; /* the mean is over all rewards */
} answers;

/* 1 for a + b, and less the further the answer is away; a sign is no answer. The first steps could
 * not learn from a reward that hardly any answer gets. */
static double reward_of(const int64_t *row) {
    const double apart = fabs((double)(row[0] + row[2] - row[ASKED]));
    return row[ASKED] >= PLUS ? 0 : apart > 0 ? 0.5 - apart / 18 : 1;
}

static void answer(ct_context *c, ct_module *lm, answers *a, uint64_t seed) {
    int64_t asked[ROWS][ASKED], ids[ROWS];
    double logprobs[ROWS];
    for (int row = 0; row < ROWS; row++) {
        int64_t *of = row % GROUP ? asked[row - 1] : NULL; /* a group has one sum */
        asked[row][0] = of ? of[0] : ct_random_below(c, 5), asked[row][1] = PLUS;
        asked[row][2] = of ? of[2] : ct_random_below(c, 5), asked[row][3] = EQUALS;
    }
    ct_scope scope = ct_scope_open(c);
    const ct_batch prompts = {.ids = ct_from_i64(c, CT_SHAPE(ROWS, ASKED), asked[0])};
    const ct_generate_opts opts = {
        .max_new = ANSWER, .no_eos = true, .seed = seed, .sample = {.temperature = 1}};
    ct_generator *g = ct_generate_new(lm, prompts, opts);
    for (int t = 0; t < ANSWER && ct_generate_next(g, ids); t++) {
        ct_generate_logprobs(g, logprobs);
        for (int row = 0; row < ROWS; row++) {
            a->id[row][ASKED + t] = ids[row];
            a->logprob[row][t] = logprobs[row];
        }
    }
    ct_generate_free(g);
    ct_scope_close(scope);
    check(c, EXIT_FAILED);
    a->mean = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int t = 0; t < ASKED; t++) a->id[row][t] = asked[row][t];
        a->reward[row] = reward_of(a->id[row]);
        a->mean += a->reward[row] / ROWS;
    }
}

/* How much better an answer is than its group: (reward - mean) / deviation. */
static double advantage(const answers *a, int row) {
    const double *reward = a->reward + row / GROUP * GROUP;
    double mean = 0, squares = 0;
    for (int i = 0; i < GROUP; i++) mean += reward[i] / GROUP;
    for (int i = 0; i < GROUP; i++) squares += (reward[i] - mean) * (reward[i] - mean);
    return (a->reward[row] - mean) / (sqrt(squares / (GROUP - 1)) + 1e-4);
}

/* - mean min(ratio A, clamp(ratio, 0.8, 1.2) A) over the tokens of the answers, where ratio is the
 * token's probability now, divided by the probability with which it was drawn. */
static ct_tensor *grpo_loss(ct_context *c, ct_module *lm, const answers *a) {
    enum { T = LENGTH - 1 };
    int64_t id[ROWS][T], target[ROWS][T];
    float before[ROWS][T] = {{0}}, better[ROWS][T] = {{0}};
    for (int row = 0; row < ROWS; row++)
        for (int t = 0; t < T; t++) {
            const int of_answer = t + 1 - ASKED;
            id[row][t] = a->id[row][t];
            target[row][t] = of_answer < 0 ? -100 : a->id[row][t + 1];
            if (of_answer < 0) continue;
            before[row][t] = (float)a->logprob[row][of_answer];
            better[row][t] = (float)advantage(a, row);
        }
    const ct_shape shape = CT_SHAPE(ROWS, T);
    const ct_cross_entropy_opts each = {.reduction = CT_NONE};
    ct_tensor *losses = ct_lm_loss(lm, ct_from_i64(c, shape, id[0]),
                                   ct_from_i64(c, shape, target[0]), (ct_lm_call){0}, each);
    ct_tensor *logprob = ct_neg(ct_reshape(losses, shape)), *A = ct_from_f32(c, shape, better[0]);
    ct_tensor *ratio = ct_exp(ct_sub(logprob, ct_from_f32(c, shape, before[0])));
    ct_tensor *gain = ct_minimum(ct_mul(ratio, A), ct_mul(ct_clamp(ratio, 0.8, 1.2), A));
    return ct_scale(ct_sum(gain, CT_ALL, false), -1.0 / (ROWS * ANSWER));
}

int main(int argc, char **argv) {
    const int64_t steps = read_number(argc, argv, 150, 1, 1e6,
                                      "[STEPS]\n\n"
                                      "Learns to add from rewards alone.");
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1});
    ct_module *lm = ct_lm_new(c, config, (ct_lm_opts){0});
    ct_optim *optim = ct_adamw_new(lm, (ct_adamw_opts){.lr = 3e-4, .clip_norm = 1});
    check(c, EXIT_FAILED);
    printf("%.2f million parameters\n", (double)ct_module_count(lm) * 1e-6);
    static answers a;
    double mean = 0;
    for (int64_t step = 1; step <= steps; step++) {
        answer(c, lm, &a, (uint64_t)step);
        for (int pass = 0; pass < PASSES; pass++) {
            ct_scope scope = ct_scope_open(c);
            ct_backward(grpo_loss(c, lm, &a));
            ct_optim_step(optim);
            ct_optim_zero_grad(optim);
            ct_scope_close(scope);
            check(c, EXIT_FAILED);
        }
        mean += a.mean;
        if (step % 10) continue;
        printf("step %4lld  mean reward of 10 steps %.3f\n", (long long)step, mean / 10);
        fflush(stdout);
        mean = 0;
    }
    ct_context_free(c);
    return 0;
}
