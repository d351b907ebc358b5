/* States of bf16: what a step rounds them to, that slow averages keep moving, rules of a program,
 * memory and refusals. test_dist has ranges, and test_checkpoint files.
 */
#include <float.h>

#include "nn/optim/optim.h"
#include "src/kernels/half.h"
#include "tests/support/nn_check.h"
#include "tests/support/optim_rules.h"

enum { N = 1300, STEPS = 5 }; /* more than a piece that a step widens at once */

static ct_module *one_of(ct_context *c, ct_dtype dtype) {
    ct_module *m = ct_module_new(c, "One");
    ct_scope scope = ct_scope_open(c);
    ck_assert_ptr_nonnull(
        ct_module_add_param(m, "w", ct_cast(ct_randn(c, CT_F32, CT_SHAPE(N)), dtype)));
    ct_scope_close(scope);
    return m;
}

static double gradient(int64_t i, int64_t t) {
    return (double)(float)(cos(3 * (double)i + (double)t) * (i % 5 == 0 ? 1e-4 : 1));
}

static void give_gradient(ct_tensor *w, int64_t t) {
    double c[N];
    for (int64_t i = 0; i < N; i++) c[i] = gradient(i, t);
    ct_scope scope = ct_scope_open(ct_context_of(w));
    ct_tensor *g = ct_cast(ct_from_f64(ct_context_of(w), CT_SHAPE(N), c), ct_dtype_of(w));
    ck_assert(ct_zero_grad(w) && ct_backward(ct_sum(ct_mul(w, g), CT_ALL, false)));
    ct_scope_close(scope);
}

static const uint16_t *state_of(const ct_optim *optim, int k) {
    ct_tensor *state = optim->items[0].state[k];
    ck_assert(state && ct_dtype_of(state) == CT_BF16);
    return ct_data_bf16(state);
}

static double widened(uint16_t half) {
    const uint32_t bits = cti_bf16_widen(half);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* Checks that `half` is x rounded up if the part of the distance that lies above the lower
 * neighbour and the dither of the element and the step are 1 or more together. Nearer than `slack`
 * both are right. */
static void rounds_to(uint16_t half, double x, int64_t element, int64_t step, double slack) {
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    const double low = widened((uint16_t)(bits >> 16)),
                 high = widened((uint16_t)((bits >> 16) + 1)), a1 = 3242174889 / 4294967296.0,
                 a2 = 2447445414 / 4294967296.0;
    double whole, part = (x - low) / (high - low),
                  dither = modf(modf((double)element * a1, &whole) + (double)step * a2, &whole);
    const double sum = part + floor(dither * 65536) / 65536;
    if (fabs(sum - 1) < slack)
        ck_assert(half == bits >> 16 || half == (uint16_t)((bits >> 16) + 1));
    else
        ck_assert_msg(half == (uint16_t)((bits >> 16) + (sum >= 1)),
                      "element %d, step %d: %.9g is rounded to %.9g", (int)element, (int)step, x,
                      widened(half));
}

/* The states before a step, as the step reads them, give those after it. */
START_TEST(states_are_rounded_by_element_and_step) {
    const ct_dtype dtype = _i % 2 ? CT_F64 : CT_F32;
    const bool adam = _i / 2;
    ct_module *m = one_of(context, dtype);
    ct_tensor *w = ct_module_get(m, "w");
    ct_optim *optim = adam ? ct_adamw_new(m, (ct_adamw_opts){.lr = 0.1, .state_dtype = CT_BF16})
                           : ct_sgd_new(m, (ct_sgd_opts){.lr = 0.1,
                                                         .momentum = 0.9,
                                                         .dampening = 0.25,
                                                         .state_dtype = CT_BF16});
    double p[N], mean[N] = {0}, square[N] = {0};
    ck_assert(optim && ct_to_f64(w, p, N));
    for (int64_t t = 1; t <= STEPS; t++) {
        give_gradient(w, t);
        ck_assert(ct_optim_step(optim));
        double *got = values(w);
        for (int64_t i = 0; i < N; i++) {
            const double g = gradient(i, t);
            if (adam) {
                mean[i] += 0.1 * (g - mean[i]);
                square[i] += 0.001 * (g * g - square[i]);
                p[i] -= 0.1 / (1 - pow(0.9, (double)t)) * mean[i] /
                        (sqrt(square[i] / (1 - pow(0.999, (double)t))) + 1e-8);
                rounds_to(state_of(optim, 1)[i], square[i], i, t, 1e-3);
                square[i] = widened(state_of(optim, 1)[i]);
            } else {
                mean[i] = t == 1 ? g : 0.9 * mean[i] + 0.75 * g;
                p[i] -= 0.1 * mean[i];
            }
            rounds_to(state_of(optim, 0)[i], mean[i], i, t, 1e-3);
            mean[i] = widened(state_of(optim, 0)[i]);
            ck_assert_msg(fabs(got[i] - p[i]) < 3e-6, "step %d, %d: %.9g, not %.9g", (int)t, (int)i,
                          got[i], p[i]);
        }
        free(got);
    }
}
END_TEST

/* By rounding to nearest v would stay at a third of g^2. */
START_TEST(a_slow_average_arrives) {
    ct_module *m = one_of(context, CT_F32);
    ct_tensor *w = ct_module_get(m, "w");
    ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.state_dtype = CT_BF16});
    give_gradient(w, 0);
    for (int t = 0; t < 3000; t++) ck_assert(ct_optim_step(optim));
    double mean = 0;
    for (int64_t i = 0; i < N; i++) {
        const double want = pow(gradient(i, 0), 2) * (1 - pow(0.999, 3000)),
                     ratio = widened(state_of(optim, 1)[i]) / want;
        ck_assert_msg(fabs(ratio - 1) < 0.05, "v[%d] is %.3f of what it must be", (int)i, ratio);
        mean += ratio / N;
    }
    ck_assert_msg(fabs(mean - 1) < 0.003, "v is %.5f of what it must be", mean);
}
END_TEST

/* Infinities and NaN stay what they are, and the largest number becomes no NaN. */
START_TEST(special_numbers) {
    ct_scope scope = ct_scope_open(context);
    const double odd[] = {INFINITY, -INFINITY, NAN, 0, -0.0, FLT_MAX, 1e-44};
    enum { ODD = sizeof odd / sizeof *odd };
    ct_tensor *wide = ct_cast(ct_from_f64(context, CT_SHAPE(ODD), odd), CT_F32),
              *state = ct_zeros(context, CT_BF16, CT_SHAPE(ODD));
    for (int64_t step = 1; step < 200; step++) {
        cti_op_round_state(state, wide, 0, step);
        const uint16_t *half = ct_data_bf16(state);
        ck_assert(half[0] == 0x7F80 && half[1] == 0xFF80 && isnan(widened(half[2])));
        ck_assert(half[3] == 0 && half[4] == 0x8000);
        ck_assert(half[5] == 0x7F7F || half[5] == 0x7F80);
        ck_assert(half[6] <= 1);
    }
    ct_scope_close(scope);
}
END_TEST

/* ---- rules of a program ---- */

static ct_dtype seen;

/* m += g, p -= lr m: sums of gradients that f32 has exactly. */
static bool adding_step(const ct_optim_item *p, void *user) {
    (void)user;
    seen = ct_dtype_of(p->state[0]);
    return ct_add_into(p->state[0], p->grad, 1) && ct_add_into(p->param, p->state[0], -p->lr);
}
static bool adding_step_all(ct_optim_item *items, int64_t n, void *user) {
    for (int64_t i = 0; i < n; i++) {
        if (!adding_step(&items[i], user)) return false;
        memset(items[i].state, 0, sizeof items[i].state); /* it may change the items */
    }
    return true;
}

START_TEST(a_rule_gets_wide_states) {
    static const char *const states[] = {"sum"};
    const ct_optim_rule rule = {.name = "Adding",
                                .states = states,
                                .n_states = 1,
                                .step = _i == 1 ? NULL : adding_step,
                                .step_all = _i == 1 ? adding_step_all : NULL,
                                .bf16_states = _i == 2};
    ct_module *m = one_of(context, CT_F32);
    ct_tensor *w = ct_module_get(m, "w");
    ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){.lr = 0.5, .state_dtype = CT_BF16});
    double sum[N] = {0};
    for (int64_t t = 1; t <= STEPS; t++) {
        give_gradient(w, t);
        double *before = values(w);
        ck_assert_msg(ct_optim_step(optim), "%s", ct_error_message(context));
        ck_assert_int_eq(seen, _i == 2 ? CT_BF16 : CT_F32);
        double *after = values(w);
        for (int64_t i = 0; i < N && _i < 2; i++) {
            sum[i] += gradient(i, t);
            ck_assert(fabs(after[i] - (before[i] - 0.5 * sum[i])) < 1e-6);
            rounds_to(state_of(optim, 0)[i], sum[i], i, t, 1e-3);
            sum[i] = widened(state_of(optim, 0)[i]);
        }
        free(before), free(after);
    }
}
END_TEST

static int64_t refuse_from; /* the step_all fails here */
static bool failing_step(const ct_optim_item *p, void *user) {
    return p->step < refuse_from && adding_step(p, user);
}

/* A rule that fails leaves the states as they were, and no memory. */
START_TEST(a_failed_rule_changes_no_state) {
    static const char *const states[] = {"sum"};
    const ct_optim_rule rule = {
        .name = "Failing", .states = states, .n_states = 1, .step = failing_step};
    ct_module *m = one_of(context, CT_F32);
    ct_tensor *w = ct_module_get(m, "w");
    ct_optim *optim = ct_optim_new(m, &rule, (ct_optim_opts){.state_dtype = CT_BF16});
    refuse_from = 3;
    uint16_t kept[N];
    for (int64_t t = 1; t <= 3; t++) {
        give_gradient(w, t);
        const int64_t before = live();
        ck_assert(ct_optim_step(optim) == (t < 3));
        if (t == 2) memcpy(kept, state_of(optim, 0), sizeof kept);
        if (t > 1) ck_assert_int_eq(live(), before);
    }
    expect(CT_ERR_ARGUMENT, "Failing: w", "its step returned false");
    ck_assert(!memcmp(kept, state_of(optim, 0), sizeof kept));
}
END_TEST

/* Muon's momentum, and the m and v of its AdamW. */
START_TEST(muon_is_near_its_f32_self) {
    static const char *const names[] = {"proj.*"};
    ct_module *m[2];
    ct_optim *optim[2];
    for (int i = 0; i < 2; i++) {
        ct_rng_set(context, (ct_rng){3, 0});
        m[i] = ct_mlp_new(context, (ct_mlp_opts){.dim = 8, .hidden = 20});
        optim[i] = ct_muon_new(m[i], (ct_muon_opts){.lr = 0.01,
                                                    .adamw_names = names,
                                                    .n_adamw_names = 1,
                                                    .state_dtype = i ? CT_BF16 : CT_F32});
        ck_assert_msg(optim[i] != NULL, "%s", ct_error_message(context));
        for (int t = 0; t < 10; t++) {
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 8));
            ct_optim_zero_grad(optim[i]);
            ck_assert(ct_backward(ct_mse_loss(ct_forward(m[i], x), x)) && ct_optim_step(optim[i]));
            ct_scope_close(scope);
        }
    }
    for (int64_t i = 0; i < optim[1]->count; i++)
        for (int k = 0; k < CTI_NN_STATES && optim[1]->items[i].state[k]; k++)
            ck_assert_int_eq(ct_dtype_of(optim[1]->items[i].state[k]), CT_BF16);
    for (ct_param p = {0}; ct_module_next(m[0], &p);) {
        ct_scope scope = ct_scope_open(context);
        const double apart = distance(p.tensor, ct_module_get(m[1], p.name));
        ck_assert_msg(apart > 0 && apart < 5e-3, "%s: %g", p.name, apart);
        ct_scope_close(scope);
    }
}
END_TEST

/* ---- memory, refusals ---- */

START_TEST(states_take_half) {
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        ct_module *m = one_of(context, CT_F32);
        ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.state_dtype = i ? CT_BF16 : CT_F32});
        give_gradient(ct_module_get(m, "w"), 1);
        const int64_t before = live();
        ck_assert(ct_optim_step(optim));
        bytes[i] = live() - before;
    }
    ck_assert_int_ge(bytes[0] - bytes[1], 2 * 2 * N - 256);
}
END_TEST

START_TEST(other_dtypes_are_refused) {
    ct_module *m = one_of(context, CT_F32);
    ck_assert(!ct_adamw_new(m, (ct_adamw_opts){.state_dtype = CT_F64}));
    expect(CT_ERR_DTYPE, "AdamW: state_dtype is f64", "bf16");
    ck_assert(!ct_sgd_new(m, (ct_sgd_opts){.state_dtype = CT_Q8_0}));
    expect(CT_ERR_DTYPE, "SGD: state_dtype is q8_0", "bf16");
    ck_assert(!ct_muon_new(m, (ct_muon_opts){.adamw = {.state_dtype = CT_BF16}}));
    expect(CT_ERR_ARGUMENT, "Muon: ", "state_dtype are for all parameters");
}
END_TEST

int main(void) {
    return run_tests("optim_states", setup, teardown,
                     TESTS(LOOP(states_are_rounded_by_element_and_step, 4),
                           TEST(a_slow_average_arrives), TEST(special_numbers),
                           LOOP(a_rule_gets_wide_states, 3), TEST(a_failed_rule_changes_no_state),
                           TEST(muon_is_near_its_f32_self), TEST(states_take_half),

                           TEST(other_dtypes_are_refused)));
}
