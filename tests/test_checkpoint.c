/* Checkpoints: training goes on from one to the same bits, and one that does not fit changes nothing. */
#include "files.h"
#include "suite.h"

typedef struct {
    ct_module *module;
    ct_optim *optim;
} training;

static training begin(ct_context *c, int kind) {
    training t = {.module = ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 5, .dropout = 0.25})};
    ct_module_add_param(t.module, "unused", ct_zeros(c, CT_F64, CT_SHAPE(2))); /* no gradient ever reaches it */
    if (kind == 0) t.optim = ct_sgd_new(t.module, (ct_sgd_opts){.lr = 0.1});
    if (kind == 1) t.optim = ct_sgd_new(t.module, (ct_sgd_opts){.lr = 0.1, .momentum = 0.9, .nesterov = true});
    if (kind == 2) t.optim = ct_adam_new(t.module, (ct_adam_opts){.weight_decay = 0.01});
    if (kind == 3) t.optim = ct_adamw_new(t.module, (ct_adamw_opts){.weight_decay = 0.1, .beta1 = 0.8, .decay_matrices_only = true});
    return t;
}

static void train(ct_context *c, training t, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; step++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(4, 3));
        ct_optim_zero_grad(t.optim);
        ck_assert_msg(ct_backward(ct_mse_loss(ct_forward(t.module, x), x)), "%s", ct_error_message(c));
        ck_assert(ct_optim_step(t.optim));
        ct_scope_close(scope);
    }
}

/* Ten steps in one go, and five, then five more in a fresh context after the checkpoint: the same bits. */
START_TEST(resume_is_bit_identical) {
    const char *path = in_folder("checkpoint"), *again = in_folder("again");
    training whole = begin(context, _i);
    train(context, whole, 0, 5);
    ct_optim_set_lr(whole.optim, 0.1 / 3);
    ck_assert_msg(ct_checkpoint_save(path, &(ct_checkpoint){whole.module, whole.optim, 5}), "%s", ct_error_message(context));
    train(context, whole, 5, 10);

    ct_context *other = ct_context_new((ct_context_opts){.seed = 99, .threads = 1});
    training resumed = begin(other, _i);
    train(other, resumed, 0, 2);
    ct_checkpoint checkpoint = {resumed.module, resumed.optim, -1};
    ck_assert_msg(ct_checkpoint_load(path, &checkpoint), "%s", ct_error_message(other));
    ck_assert_int_eq(checkpoint.step, 5);
    ck_assert(ct_checkpoint_save(again, &checkpoint));
    ck_assert_int_eq(files_in_folder(), 2);
    train(other, resumed, 5, 10);
    ck_assert(same(whole.module, resumed.module));
    ct_rng a = ct_rng_get(context), b = ct_rng_get(other);
    ck_assert(a.seed == b.seed && a.stream == b.stream);
    ct_context_free(other);

    /* what was loaded is saved as the same bytes */
    FILE *x = fopen(path, "rb"), *y = fopen(again, "rb");
    for (int c; (c = getc(x)) != EOF;) ck_assert_int_eq(c, getc(y));
    ck_assert_int_eq(getc(y), EOF);
    fclose(x);
    fclose(y);
}
END_TEST

START_TEST(checkpoint_refuses) {
    const char *path = in_folder("checkpoint"), *before = in_folder("before"), *after = in_folder("after");
    training adam = begin(context, 3), momentum = begin(context, 1), plain = begin(context, 0);
    train(context, adam, 0, 2);
    train(context, momentum, 0, 2);
    ck_assert(ct_checkpoint_save(path, &(ct_checkpoint){adam.module, adam.optim, 7}));
    ct_checkpoint to = {momentum.module, momentum.optim, 3};
    ck_assert(ct_checkpoint_save(before, &to));

    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "the optimiser is SGD, the file's is AdamW");
    ct_checkpoint without = {plain.module, plain.optim, 3};
    ck_refused(ct_checkpoint_load(before, &without), CT_ERR_FORMAT, before,
               "unexpected: optim.momentum.unused, optim.momentum.fc.weight, ");
    training small = begin(context, 1);
    small.module = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 4});
    small.optim = ct_sgd_new(small.module, (ct_sgd_opts){.momentum = 0.9});
    ck_refused(ct_checkpoint_load(before, &(ct_checkpoint){small.module, small.optim, 0}), CT_ERR_FORMAT, before,
               "model.fc.weight has shape (4, 3), file has (5, 3)");
    ck_assert(ct_save(momentum.module, path, NULL));
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "\"format\"");
    static const char *numbers[] = {"step", "seed", "stream"};
    for (int i = 0; i < 3; i++)
        for (int wrong = 0; wrong < 6; wrong++) { /* missing, or no number */
            const char *value[] = {"7", "7", "7"}, *texts[] = {NULL, "", "-1", "7x", "18446744073709551616", "/"};
            value[i] = texts[wrong];
            const char *metadata[11] = {"format", "cotangent checkpoint 1", "optim", "SGD"};
            for (int k = 0, at = 4; k < 3; k++)
                if (value[k]) metadata[at++] = numbers[k], metadata[at++] = value[k];
            ck_assert(ct_save(momentum.module, path, metadata));
            char says[64];
            snprintf(says, sizeof says, "metadata \"%s\" is no whole number", numbers[i]);
            ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, says);
        }
    static const char *unnamed[] = {"format", "cotangent checkpoint 1", NULL};
    ck_assert(ct_save(momentum.module, path, unnamed));
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "the optimiser is SGD, the file's is missing");
    ck_refused(ct_checkpoint_load(in_folder("none"), &to), CT_ERR_IO, "none", "No such file");
    ck_refused(ct_checkpoint_load(NULL, &to), CT_ERR_ARGUMENT, "checkpoint_load", "NULL");
    ck_refused(ct_checkpoint_save(path, &(ct_checkpoint){momentum.module, NULL, 3}), CT_ERR_ARGUMENT, "checkpoint_save", "NULL");
    ck_refused(ct_checkpoint_save(path, &(ct_checkpoint){momentum.module, momentum.optim, -3}), CT_ERR_ARGUMENT, "checkpoint_save",
               "step is -3");
    ck_assert(!ct_checkpoint_save(path, NULL) && !ct_checkpoint_load(path, &(ct_checkpoint){0}));

    /* cut short anywhere: refused, and nothing is changed */
    ck_assert(ct_checkpoint_save(before, &to));
    FILE *file = fopen(before, "rb");
    static char bytes[1 << 16];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t n = 0; n < size; n += n < 64 ? 1 : 37) {
        file = fopen(path, "wb");
        fwrite(bytes, 1, n, file);
        fclose(file);
        ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "");
    }
    ck_assert_int_eq(to.step, 3);
    ck_assert(ct_checkpoint_save(after, &to));
    static char now[1 << 16];
    file = fopen(after, "rb");
    ck_assert_uint_eq(fread(now, 1, sizeof now, file), size);
    fclose(file);
    ck_assert_int_eq(memcmp(now, bytes, size), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("checkpoint");
    TCase *checkpoint = tcase_create("checkpoints");
    tcase_add_checked_fixture(checkpoint, setup, teardown);
    tcase_set_timeout(checkpoint, 60);
    tcase_add_loop_test(checkpoint, resume_is_bit_identical, 0, 4);
    tcase_add_test(checkpoint, checkpoint_refuses);
    suite_add_tcase(suite, checkpoint);
    return run_suite(suite);
}
