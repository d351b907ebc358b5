/* Losses of preferences (programs/preferences.h) beside their formulas with whole logits. */
#include "tests/support/suite.h"

#include <math.h>

#include "programs/preferences.h"

#define LLAMA                                                                                      \
    "{\"model_type\": \"llama\", \"vocab_size\": 13, \"hidden_size\": 16, "                        \
    "\"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}"

enum { PAIRS = 2, T = 6, NO_TARGET = -100 };

static ct_context *context;
static ct_module *lm;
static int64_t ids[2 * PAIRS * T], next[2 * PAIRS * T], targets[2 * PAIRS * T];

/* Rows of 3 to 6 tokens, of which the answer has the last 1 to 3. */
static void begin(void) {
    static const int64_t length[] = {6, 4, 5, 3}, answer[] = {3, 1, 2, 2};
    context = ct_context_new((ct_context_opts){.seed = 3, .threads = 1});
    lm = ct_lm_new(context, LLAMA, (ct_lm_opts){.dtype = CT_F64});
    ct_param param = {0};
    while (ct_module_next(lm, &param)) ck_assert(ct_init_normal(param.tensor, 0.1, 0.5));
    for (int i = 0; i < 2 * PAIRS * T; i++) ids[i] = ct_random_below(context, 13);
    for (int r = 0; r < 2 * PAIRS; r++)
        for (int t = 0; t < T; t++) {
            const int at = r * T + t;
            next[at] = t + 1 < length[r] ? ids[at + 1] : NO_TARGET;
            targets[at] = t + 1 >= length[r] - answer[r] ? next[at] : NO_TARGET;
        }
}

static void end(void) { ct_context_free(context); }

static ct_tensor *rows_of(const int64_t *values) {
    return ct_from_i64(context, CT_SHAPE(2 * PAIRS, T), values);
}

/* The sum of the log-probabilities of a row's targets, and their number. */
static double log_p_of(const int64_t *of, int row, double *n) {
    ct_tensor *y = ct_log_softmax(ct_lm_forward(lm, rows_of(ids), (ct_lm_call){0}), 2);
    ck_assert_ptr_nonnull(y);
    const double *value = ct_data_f64(ct_contiguous(ct_detach(y)));
    double sum = 0;
    *n = 0;
    for (int at = row * T; at < (row + 1) * T; at++)
        if (of[at] != NO_TARGET) sum += value[at * 13 + of[at]], ++*n;
    return sum;
}

static double log_sigmoid(double x) { return -log1p(exp(-x)); }

static const double log_q[] = {-3, -9, -4.5, -2};

START_TEST(dpo) {
    for (int smoothed = 0; smoothed < 2; smoothed++) {
        const preference_opts opts = {.beta = 0.3, .label_smoothing = smoothed ? 0.1 : 0};
        ct_tensor *log_p = preference_log_p(lm, rows_of(ids), rows_of(targets));
        const preference_loss loss =
            preference_dpo(log_p, ct_from_f64(context, CT_SHAPE(2 * PAIRS), log_q), opts);
        double want = 0, reward[2 * PAIRS], n;
        for (int r = 0; r < 2 * PAIRS; r++)
            reward[r] = opts.beta * (log_p_of(targets, r, &n) - log_q[r]);
        for (int i = 0; i < PAIRS; i++) {
            const double s = reward[i] - reward[PAIRS + i], e = opts.label_smoothing;
            want -= ((1 - e) * log_sigmoid(s) + e * log_sigmoid(-s)) / PAIRS;
            ck_assert_double_lt(fabs(ct_data_f64(ct_contiguous(loss.chosen))[i] - reward[i]), 1e-9);
            ck_assert_double_lt(
                fabs(ct_data_f64(ct_contiguous(loss.rejected))[i] - reward[PAIRS + i]), 1e-9);
        }
        ck_assert_double_lt(fabs(ct_item(loss.loss) - want), 1e-9);
        ck_assert(!ct_requires_grad(loss.chosen) && ct_requires_grad(loss.loss));
    }
}
END_TEST

/* At the first step policy and reference are equal: the loss is log 2, and its gradient is not 0.
 */
START_TEST(first_step_of_dpo) {
    ct_tensor *log_p = preference_log_p(lm, rows_of(ids), rows_of(targets));
    const preference_loss loss =
        preference_dpo(log_p, ct_detach(log_p), (preference_opts){.beta = 0.5});
    ck_assert_double_eq_tol(ct_item(loss.loss), log(2), 1e-15);
    ck_assert(ct_backward(loss.loss));
    ct_tensor *grad = ct_grad(ct_module_get(lm, "lm_head.weight"));
    ck_assert_double_gt(ct_item(ct_max(ct_abs(grad), CT_ALL, false)), 1e-3);
}
END_TEST

START_TEST(orpo) {
    const preference_opts opts = {.beta = 0.7};
    const preference_loss loss =
        preference_orpo(lm, rows_of(ids), rows_of(targets), rows_of(next), opts);
    double m[2 * PAIRS], nll = 0, all = 0, want = 0, n;
    for (int r = 0; r < 2 * PAIRS; r++) {
        const double sum = log_p_of(targets, r, &n);
        m[r] = sum / n;
        if (r >= PAIRS) continue;
        nll -= log_p_of(next, r, &n), all += n;
    }
    for (int i = 0; i < PAIRS; i++) {
        const double odds[] = {m[i] - log1p(-exp(m[i])), m[PAIRS + i] - log1p(-exp(m[PAIRS + i]))};
        want -= opts.beta * log_sigmoid(odds[0] - odds[1]) / PAIRS;
        ck_assert_double_lt(fabs(ct_data_f64(ct_contiguous(loss.chosen))[i] - opts.beta * m[i]),
                            1e-9);
    }
    ck_assert_double_lt(fabs(ct_item(loss.loss) - want - nll / all), 1e-9);
    ck_assert(ct_backward(loss.loss));
}
END_TEST

/* An error of the model is the loss's. */
START_TEST(errors) {
    const int64_t wrong[2 * PAIRS * T] = {99};
    ck_assert_ptr_null(preference_log_p(lm, rows_of(ids), rows_of(wrong)));
    ck_assert_int_ne(ct_error(context), CT_OK);
    ck_assert_ptr_null(preference_dpo(NULL, NULL, (preference_opts){.beta = 1}).loss);
    ct_error_clear(context);
    ck_assert_ptr_null(
        preference_orpo(lm, rows_of(ids), rows_of(targets), rows_of(wrong), (preference_opts){0})
            .loss);
    ct_error_clear(context);
}
END_TEST

int main(void) {
    return run_tests("preferences", begin, end,
                     TESTS(TEST(dpo), TEST(first_step_of_dpo), TEST(orpo), TEST(errors)));
}
