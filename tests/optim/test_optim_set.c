/* ct_optim_set: options of an optimiser that is made or loaded, by the names in checkpoints. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

#include <math.h>

enum { PLAIN, MOMENTUM, ADAM, ADAMW, KINDS };

typedef struct {
    ct_module *module;
    ct_optim *optim;
} training;

static training begin(ct_context *c, int kind) {
    training t = {.module = ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 5})};
    switch (kind) {
    case PLAIN: t.optim = ct_sgd_new(t.module, (ct_sgd_opts){.lr = 0.1}); break;
    case MOMENTUM: t.optim = ct_sgd_new(t.module, (ct_sgd_opts){.momentum = 0.5}); break;
    case ADAM: t.optim = ct_adam_new(t.module, (ct_adam_opts){.lr = 0.01}); break;
    default: t.optim = ct_adamw_new(t.module, (ct_adamw_opts){.weight_decay = 0.1});
    }
    ck_assert_ptr_nonnull(t.optim);
    return t;
}

static void train(ct_context *c, training t, int steps) {
    for (int step = 0; step < steps; step++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(4, 3));
        ct_optim_zero_grad(t.optim);
        ck_assert(ct_backward(ct_mse_loss(ct_forward(t.module, x), ct_scale(x, 3))));
        ck_assert_msg(ct_optim_step(t.optim), "%s", ct_error_message(c));
        ct_scope_close(scope);
    }
}

/* Each option, and a value that is not the constructor's. */
static const struct {
    const char *name;
    double value;
    int first, last; /* the optimisers that have it */
} options[] = {
    {"lr", 0.03, PLAIN, ADAMW},
    {"clip_norm", 0.01, PLAIN, ADAMW},
    {"weight_decay", 0.7, PLAIN, ADAMW},
    {"momentum", 0.9, MOMENTUM, MOMENTUM},
    {"dampening", 0.25, MOMENTUM, MOMENTUM},
    {"nesterov", 1, MOMENTUM, MOMENTUM},
    {"beta1", 0.5, ADAM, ADAMW},
    {"beta2", CT_ZERO, ADAM, ADAMW},
    {"eps", 0.1, ADAM, ADAMW},
    {"decay_matrices_only", 1, ADAMW, ADAMW}, /* the others have no decay here */
};
enum { OPTIONS = sizeof options / sizeof *options };

/* A run whose option is changed; the same after a load into an optimiser of other options; and one
 * loaded from a later checkpoint, which has the new value. */
START_TEST(goes_on_with_another) {
    const char *before = in_folder("before"), *after = in_folder("after");
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < OPTIONS; i++) {
            if (kind < options[i].first || kind > options[i].last) continue;
            training whole = begin(context, kind), unchanged = begin(context, kind),
                     loaded = begin(context, kind), later = begin(context, kind);
            train(context, whole, 3);
            ct_checkpoint run = {.module = whole.module, .optim = whole.optim};
            ck_assert(ct_checkpoint_save(before, &run));
            const ct_rng rng = ct_rng_get(context);
            ck_assert_msg(ct_optim_set(whole.optim, options[i].name, options[i].value), "%s",
                          ct_error_message(context));
            ck_assert(ct_checkpoint_save(after, &run));
            train(context, whole, 3);

            ct_optim_set_lr(loaded.optim, 0.5); /* the file's wins */
            run = (ct_checkpoint){.module = loaded.module, .optim = loaded.optim};
            ck_assert(ct_checkpoint_load(before, &run));
            ck_assert(ct_optim_set(loaded.optim, options[i].name, options[i].value));
            train(context, loaded, 3);
            run = (ct_checkpoint){.module = later.module, .optim = later.optim};
            ck_assert(ct_checkpoint_load(after, &run));
            train(context, later, 3);
            run = (ct_checkpoint){.module = unchanged.module, .optim = unchanged.optim};
            ck_assert(ct_checkpoint_load(before, &run));
            ct_rng_set(context, rng);
            train(context, unchanged, 3);
            ck_assert_msg(same(whole.module, loaded.module), "%s", options[i].name);
            ck_assert_msg(same(whole.module, later.module), "%s", options[i].name);
            ck_assert_msg(!same(whole.module, unchanged.module), "%s", options[i].name);
        }
}
END_TEST

/* skip_nonfinite, and back; a clip_norm of 0 is none. */
START_TEST(flags_and_zeros) {
    training t = begin(context, PLAIN);
    train(context, t, 1);
    ck_assert(isnan(ct_optim_grad_norm(t.optim)));
    ck_assert(ct_optim_set(t.optim, "skip_nonfinite", 1));
    ct_tensor *bias = ct_module_get(t.module, "fc.bias"), *g = ct_grad(bias);
    ck_assert_ptr_nonnull(g);
    ct_data_f32(g)[0] = NAN;
    ck_assert(ct_optim_step(t.optim) && ct_optim_skipped(t.optim) == 1);
    ck_assert(ct_optim_set(t.optim, "skip_nonfinite", 0));
    ck_assert(ct_optim_step(t.optim) && ct_optim_skipped(t.optim) == 1);
    ck_assert(isnan(ct_data_f32(bias)[0]));
    const double zeros[] = {0, CT_ZERO};
    for (int i = 0; i < 2; i++) {
        ck_assert(ct_optim_set(t.optim, "clip_norm", 1) && ct_optim_step(t.optim));
        ck_assert(ct_optim_set(t.optim, "clip_norm", zeros[i]) && ct_optim_step(t.optim));
        ck_assert(isnan(ct_optim_grad_norm(t.optim)));
    }
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

/* A value that the constructor would refuse changes nothing. */
START_TEST(refused) {
    static const struct {
        int kind;
        const char *name;
        double value;
        const char *says;
    } rows[] = {
        {ADAMW, "beta1", 1, "AdamW: beta1 is 1, must be at least 0 and less than 1"},
        {ADAM, "beta2", -0.5, "Adam: beta2 is -0.5, must be at least 0 and less than 1"},
        {ADAMW, "eps", -1, "AdamW: eps is -1, must be a number of at least 0"},
        {ADAMW, "lr", NAN, "AdamW: lr is nan, must be a number of at least 0"},
        {PLAIN, "clip_norm", INFINITY, "SGD: clip_norm is inf, must be a number of at least 0"},
        {PLAIN, "momentum", 0.9, "SGD: momentum must be 0, as this optimiser was made without it"},
        {MOMENTUM, "momentum", 0, "SGD: momentum is 0, must be a number greater than 0"},
        {PLAIN, "nesterov", 1, "SGD: nesterov is 1, must be 0 without a momentum"},
        {ADAM, "skip_nonfinite", 0.5, "Adam: skip_nonfinite is 0.5, must be 0 or 1"},
        {ADAM, "decay_matrices_only", NAN, "Adam: decay_matrices_only is nan, must be 0 or 1"},
        {PLAIN, "beta1", 0.5,
         "SGD: no option \"beta1\": there are lr, weight_decay, decay_matrices_only, clip_norm, "
         "skip_nonfinite, momentum, dampening, nesterov"},
        {ADAMW, "skipped", 0, "AdamW: no option \"skipped\": there are lr, weight_decay, "},
        {ADAMW, "", 0, "AdamW: no option \"\""},
        {ADAMW, NULL, 0, "AdamW: no option \"NULL\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ct_rng_set(context, (ct_rng){.seed = 4});
        training t = begin(context, rows[i].kind);
        ct_rng_set(context, (ct_rng){.seed = 4});
        training like = begin(context, rows[i].kind);
        ck_refused(ct_optim_set(t.optim, rows[i].name, rows[i].value), CT_ERR_ARGUMENT,
                   rows[i].says, "");
        const ct_rng rng = ct_rng_get(context);
        train(context, t, 2);
        ct_rng_set(context, rng);
        train(context, like, 2);
        ck_assert_msg(same(t.module, like.module), "row %zu", i);
    }
    training t = begin(context, ADAM);
    ck_assert(!ct_optim_set(NULL, "lr", 1));
    ct_fail(context, CT_ERR_IO, "pending");
    ck_refused(ct_optim_set(t.optim, "lr", 1), CT_ERR_IO, "pending", "");
    ct_optim_free(t.optim);
    ck_refused(ct_optim_set(t.optim, "lr", 1), CT_ERR_ARGUMENT,
               "ct_optim_set: the optimiser has ended", "");
}
END_TEST

int main(void) {
    return run_tests("optim_set", setup, teardown,
                     TESTS(TEST(goes_on_with_another), TEST(flags_and_zeros), TEST(refused)));
}
