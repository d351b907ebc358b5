/* CT_ZERO: the number 0 in options in which 0 means a default, and in others 0 or an error. */
#include "tests/support/nn_check.h"

/* It is a constant expression, and no value of its own. */
static const ct_adamw_opts still = {.lr = CT_ZERO, .beta1 = CT_ZERO};

static ct_module *one(ct_context *c, double value) {
    ct_module *m = ct_module_new(c, "One");
    ct_module_add_param(m, "w", ct_full(c, CT_F64, CT_SHAPE(2), value));
    return m;
}

/* The parameter after a step whose gradient is (2, 0.5). */
static double stepped(ct_module *m, ct_optim *optim) {
    ct_tensor *w = ct_module_get(m, "w");
    ck_assert(ct_zero_grad(w));
    ck_assert(ct_backward(
        ct_sum(ct_mul(w, ct_from_f64(context, CT_SHAPE(2), (double[]){2, 0.5})), CT_ALL, false)));
    ck_assert_msg(ct_optim_step(optim), "%s", ct_error_message(context));
    return ct_data_f64(w)[0];
}

START_TEST(optimisers) {
    ct_module *m = one(context, 3);
    ck_assert(stepped(m, ct_adamw_new(m, still)) == 3);
    ck_assert(stepped(m, ct_adam_new(m, (ct_adam_opts){.lr = CT_ZERO})) == 3);
    ck_assert(stepped(m, ct_sgd_new(m, (ct_sgd_opts){.lr = CT_ZERO})) == 3);
    ct_optim *sgd = ct_sgd_new(m, (ct_sgd_opts){.lr = 0});
    ck_assert_double_eq_tol(stepped(m, sgd), 3 - 1e-3 * 2, 1e-15);
    ct_optim_set_lr(sgd, CT_ZERO);
    no_error();
    ck_assert_double_eq_tol(stepped(m, sgd), 3 - 1e-3 * 2, 1e-15);

    /* beta1 0: no momentum; eps 0: exactly lr at the first step */
    m = one(context, 3);
    ct_optim *adam =
        ct_adam_new(m, (ct_adam_opts){.lr = 0.5, .beta1 = CT_ZERO, .beta2 = 0.5, .eps = CT_ZERO});
    ck_assert_double_eq_tol(stepped(m, adam), 2.5, 1e-15);
    ct_tensor *w = ct_module_get(m, "w");
    ct_zero_grad(w);
    ck_assert(ct_backward(ct_sum(w, CT_ALL, false)) && ct_optim_step(adam));
    /* v = 0.5 2 + 0.5 1 over 1 - 0.25 */
    ck_assert_double_eq_tol(ct_data_f64(w)[0], 2.5 - 0.5 / sqrt(1.5 / 0.75), 1e-14);
    /* beta2 0: the sign of the gradient */
    m = one(context, 3);
    adam = ct_adam_new(m, (ct_adam_opts){.lr = 0.5, .beta1 = CT_ZERO, .beta2 = CT_ZERO});
    for (int t = 1; t < 4; t++) ck_assert_double_eq_tol(stepped(m, adam), 3 - 0.5 * t, 1e-7);

    /* where 0 is 0 anyway */
    m = one(context, 3);
    const ct_sgd_opts zeros = {.lr = 1,
                               .momentum = CT_ZERO,
                               .dampening = CT_ZERO,
                               .weight_decay = CT_ZERO,
                               .clip_norm = CT_ZERO};
    ck_assert(stepped(m, ct_sgd_new(m, zeros)) == 1);
    ct_lr_cosine_opts schedule = {.peak = CT_ZERO, .floor = CT_ZERO, .warmup = 2, .total = 9};
    for (int64_t step = 0; step < 12; step++) ck_assert(ct_lr_cosine(schedule, step) == 0);
    no_error();
}
END_TEST

START_TEST(modules) {
    static const float tiny[] = {1e-10f, -1e-10f};
    ct_tensor *x = ct_from_f32(context, CT_SHAPE(1, 2), tiny);
    ct_layer_norm_opts norm = {.dim = 2};
    ct_rms_norm_opts rms = {.dim = 2};
    for (int zero = 0; zero < 2; zero++) { /* without eps, ones; with it, almost 0 */
        norm.eps = rms.eps = zero ? CT_ZERO : 0;
        ck_assert(fabs(largest(ct_forward(ct_layer_norm_new(context, norm), x)) - zero) < 1e-4);
        ck_assert(fabs(largest(ct_forward(ct_rms_norm_new(context, rms), x)) - zero) < 1e-4);
    }
    /* in a layer's norms, and in the norms of queries and keys: NaN of a query that is 0 */
    ct_layer_opts layer = {.embed_dim = 2, .num_heads = 1, .eps = CT_ZERO, .norm_first = true};
    ct_tensor *zeros = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, 2));
    ck_assert(isinf(largest(ct_forward(ct_encoder_layer_new(context, layer), zeros))));
    ct_mha_opts mha = {.embed_dim = 2, .num_heads = 1, .qk_norm = true};
    ck_assert(largest(ct_forward(ct_mha_new(context, mha), zeros)) == 0);
    mha.qk_norm_eps = CT_ZERO;
    ct_tensor *two = ct_zeros(context, CT_F32, CT_SHAPE(1, 2, 2));
    ck_assert(isinf(largest(ct_forward(ct_mha_new(context, mha), two))));
    no_error();
}
END_TEST

/* A scale of 0: all keys are equal but for the mask, on each way of computing. */
START_TEST(attention) {
    for (int64_t t = 1; t < 200; t = 5 * t + 1)
        for (int weights = 0; weights < 2; weights++) {
            ct_tensor *q = randn(CT_SHAPE(1, 2, t, 4)), *k = randn(CT_SHAPE(1, 2, 40, 4)),
                      *mask = randn(CT_SHAPE(t, 40));
            ct_attention_opts opts = {.scale = CT_ZERO, .need_weights = weights};
            ct_tensor *mean = ct_expand(ct_mean(k, CT_DIMS(2), true), CT_SHAPE(1, 2, t, 4));
            ck_assert(distance(ct_attention(q, k, k, opts).out, mean) < 1e-14);
            opts.mask = mask;
            ct_tensor *want = ct_matmul(ct_softmax(mask, 1), k);
            ck_assert(distance(ct_attention(q, k, k, opts).out, want) < 1e-14);
        }
    no_error();
}
END_TEST

static ct_tensor *exponential(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_exp(in[0]);
}

START_TEST(gradcheck) {
    ct_tensor *x = ct_full(context, CT_F64, CT_SHAPE(2), 0.7);
    /* the difference's own error, 1e-9, passes by either tolerance and fails without */
    for (int zero = 0; zero < 4; zero++) {
        const ct_gradcheck_opts opts = {
            .eps = 5e-5, .atol = zero & 1 ? CT_ZERO : 0, .rtol = zero & 2 ? CT_ZERO : 0};
        ck_assert(ct_gradcheck(exponential, NULL, &x, 1, opts).ok == (zero != 3));
    }
    no_error();
    ck_refused(ct_gradcheck(exponential, NULL, &x, 1, (ct_gradcheck_opts){.eps = CT_ZERO}).ok,
               CT_ERR_ARGUMENT, "gradcheck: eps is 0", "must be greater than 0");
    ck_refused(ct_gradcheck(exponential, NULL, &x, 1, (ct_gradcheck_opts){.eps = NAN}).ok,
               CT_ERR_ARGUMENT, "gradcheck: eps is nan", "");
}
END_TEST

START_TEST(refused) {
    ct_tensor *q = ct_ones(context, CT_F32, CT_SHAPE(1, 2, 2)),
              *heads = ct_ones(context, CT_F32, CT_SHAPE(1, 1, 2, 2)),
              *ids = ct_zeros(context, CT_I64, CT_SHAPE(2)),
              *logits = ct_ones(context, CT_F32, CT_SHAPE(2, 2));
    int64_t out[2];
#define REFUSED(call, says)                                                                        \
    do {                                                                                           \
        ck_assert(!(call));                                                                        \
        expect(CT_ERR_ARGUMENT, says, "");                                                         \
    } while (0)
    ct_mha_opts mha = {.embed_dim = 2, .num_heads = 1, .rope = true, .rotary = {.base = CT_ZERO}};
    ct_layer_opts layer = {.embed_dim = 2, .num_heads = 1, .attn.rotary = {.base = CT_ZERO}};
    REFUSED(ct_mha_new(context, mha), "rotary.base is 0, must be finite and greater than 0");
    REFUSED(ct_encoder_layer_new(context, layer), "rotary.base is 0");
    REFUSED(ct_rope(q, NULL, (ct_rope_opts){.base = CT_ZERO}), "rope: base is 0");
    REFUSED(ct_rope(q, NULL, (ct_rope_opts){.attention_factor = CT_ZERO}),
            "rope: attention_factor is 0");
    mha = (ct_mha_opts){.embed_dim = 2, .num_heads = 1, .dropout = CT_ZERO};
    REFUSED(ct_mha_new(context, mha), "dropout");
    REFUSED(ct_mlp_new(context, (ct_mlp_opts){.dim = 2, .dropout = CT_ZERO}), "dropout");
    REFUSED(ct_attention(heads, heads, heads, (ct_attention_opts){.dropout = CT_ZERO}).out,
            "dropout");
    REFUSED(ct_cross_entropy(logits, ids, (ct_cross_entropy_opts){.label_smoothing = CT_ZERO}),
            "smoothing");
    REFUSED(ct_sample(logits, (ct_sample_opts){.temperature = CT_ZERO}, out, 2), "temperature");
    REFUSED(ct_sample(logits, (ct_sample_opts){.temperature = 1, .top_p = CT_ZERO}, out, 2),
            "top_p");
    ck_assert(isnan(ct_clip_grad_norm(one(context, 1), CT_ZERO)));
    expect(CT_ERR_ARGUMENT, "max_norm", "");
#undef REFUSED
}
END_TEST

int main(void) {
    return run_tests(
        "options", setup, teardown,
        TESTS(TEST(optimisers), TEST(modules), TEST(attention), TEST(gradcheck), TEST(refused)));
}
