/* Checkpoints of optimisers with groups, frozen parameters and skip_nonfinite: training resumes
 * with the same bits, what the file has wins, and files whose groups, steps and states do not agree
 * are refused and change nothing. */
#include <math.h>

#include "tests/support/files.h"
#include "tests/support/suite.h"

/* An MLP with AdamW, another with SGD with momentum, and one more AdamW over the second's fc. */
typedef struct {
    ct_context *context;
    ct_module *module, *a, *b;
    ct_optim *optim[3];
} run;

static run begin(ct_context *c) {
    run r = {.context = c, .module = ct_module_new(c, "Two")};
    r.a = ct_module_add_child(r.module, "a",
                              ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 5, .dropout = 0.25}));
    r.b = ct_module_add_child(r.module, "b", ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 2}));
    r.optim[0] =
        ct_adamw_new(r.a, (ct_adamw_opts){.lr = 0.01, .weight_decay = 0.1, .skip_nonfinite = true});
    r.optim[1] = ct_sgd_new(r.b, (ct_sgd_opts){.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    r.optim[2] = ct_adamw_new(ct_module_child(r.b, "fc"), (ct_adamw_opts){.lr = 0.02});
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    return r;
}

static void group(run *r) {
    ck_assert(ct_optim_group(r->optim[0], "*.bias", (ct_group_opts){.lr_scale = 0.3}));
    ck_assert(ct_optim_group(r->optim[0], "fc.weight", (ct_group_opts){.frozen = true}));
    ck_assert(ct_optim_group(r->optim[1], "proj.*",
                             (ct_group_opts){.lr_scale = 1.0 / 3, .weight_decay = 0.7}));
    ck_assert(ct_optim_group(r->optim[2], "weight", (ct_group_opts){.weight_decay = 0.2}));
}

static ct_checkpoint all(run *r, int64_t step) {
    return (ct_checkpoint){.module = r->module, .step = step, .optims = r->optim, .n_optims = 3};
}

/* The third step's gradients of a are not finite. */
static void train(run *r, int from, int to) {
    ct_context *c = r->context;
    for (int step = from; step < to; step++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(4, 3));
        ct_tensor *y = ct_add(ct_forward(r->a, x), ct_forward(r->b, x));
        ck_assert(ct_backward(ct_mse_loss(y, x)));
        if (step == 2) ct_data_f32(ct_grad(ct_module_get(r->a, "proj.bias")))[0] = INFINITY;
        for (int k = 0; k < 3; k++) ck_assert(ct_optim_step(r->optim[k]));
        ct_optim_zero_grad(r->optim[0]);
        ct_optim_zero_grad(r->optim[1]);
        ct_scope_close(scope);
    }
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
}

static bool same_files(const char *a, const char *b) {
    static char x[1 << 16], y[1 << 16];
    const size_t n = read_all(a, x, sizeof x);
    return n == read_all(b, y, sizeof y) && !memcmp(x, y, n);
}

/* The file is loaded into runs with the same groups, without groups, with other groups, and with
 * everything frozen. The groups of the file replace the run's groups. */
START_TEST(resume_is_bit_identical) {
    const char *path = in_folder("checkpoint"), *again = in_folder("again");
    run whole = begin(context);
    group(&whole);
    train(&whole, 0, 4);
    ct_checkpoint saved = all(&whole, 4);
    ck_assert_msg(ct_checkpoint_save(path, &saved), "%s", ct_error_message(context));

    ct_context *other = ct_context_new((ct_context_opts){.seed = 99, .threads = 1});
    run resumed = begin(other);
    train(&resumed, 0, _i);
    if (_i == 1) group(&resumed);
    for (int k = 0; k < 3 && _i > 1; k++)
        ck_assert(ct_optim_group(resumed.optim[k], "*",
                                 (ct_group_opts){.lr_scale = 5, .frozen = _i == 3}));
    ct_checkpoint checkpoint = all(&resumed, -1);
    ck_assert_msg(ct_checkpoint_load(path, &checkpoint), "%s", ct_error_message(other));
    ck_assert_int_eq(ct_optim_skipped(resumed.optim[0]), 1);
    ck_assert_int_eq(ct_optim_skipped(resumed.optim[1]), 0);
    ck_assert(ct_checkpoint_save(again, &checkpoint) && same_files(path, again));
    train(&whole, 4, 9);
    train(&resumed, 4, 9);
    ck_assert(same(whole.module, resumed.module));

    /* groups that are set after a load hold */
    ck_assert(ct_optim_group(whole.optim[0], "fc.*", (ct_group_opts){.weight_decay = 0.1}));
    ck_assert(ct_optim_group(resumed.optim[0], "fc.*", (ct_group_opts){.weight_decay = 0.1}));
    train(&whole, 9, 12);
    train(&resumed, 9, 12);
    ck_assert(same(whole.module, resumed.module));
    ct_context_free(other);
}
END_TEST

/* A frozen parameter has no state in a file, and no memory after the load of one. */
START_TEST(states_of_frozen_parameters) {
    const char *path = in_folder("checkpoint"), *frozen = in_folder("frozen");
    run r = begin(context);
    train(&r, 0, 1);
    ct_checkpoint c = all(&r, 1);
    ck_assert(ct_checkpoint_save(path, &c));
    const int64_t full = ct_memory(context).live;
    for (int k = 0; k < 3; k++)
        ck_assert(ct_optim_group(r.optim[k], "*", (ct_group_opts){.frozen = true}));
    const int64_t none = ct_memory(context).live;
    ck_assert_int_lt(none, full);
    ck_assert(ct_checkpoint_save(frozen, &c));
    ck_assert(ct_checkpoint_load(path, &c) && ct_memory(context).live == full);
    ck_assert(ct_checkpoint_load(frozen, &c) && ct_memory(context).live == none);
    ck_assert(ct_checkpoint_load(path, &c) && ct_memory(context).live == full);
    static char bytes[1 << 16];
    const size_t n = read_all(frozen, bytes, sizeof bytes);
    for (size_t i = 0; i + 11 < n; i++) ck_assert(memcmp(bytes + i, "optims.0.m.", 11) != 0);
}
END_TEST

/* The same optimiser in two fields of a checkpoint is loaded twice, and ends once. */
START_TEST(one_optimiser_twice) {
    const char *path = in_folder("checkpoint");
    run r = begin(context);
    train(&r, 0, 2);
    const int64_t live = ct_memory(context).live;
    ct_optim *twice[] = {r.optim[0], r.optim[0]};
    ct_checkpoint c = {.module = r.module, .optims = twice, .n_optims = 2};
    ck_assert(ct_checkpoint_save(path, &c) && ct_checkpoint_load(path, &c));
    ck_assert_int_eq(ct_memory(context).live, live);
    train(&r, 3, 4);
}
END_TEST

/* ---- files that are refused ---- */

/* A load of the file is refused and changes nothing. */
static void refuses(run *r, const char *path, const char *says) {
    char before[128], after[128]; /* in_folder has room for few */
    snprintf(before, sizeof before, "%s/before", folder);
    snprintf(after, sizeof after, "%s/after", folder);
    ct_checkpoint c = all(r, 7);
    ck_assert_msg(ct_checkpoint_save(before, &c), "%s", ct_error_message(context));
    const int64_t live = ct_memory(context).live;
    ck_refused(ct_checkpoint_load(path, &c), CT_ERR_FORMAT, path, says);
    ck_assert_int_eq(ct_memory(context).live, live);
    ck_assert_int_eq(c.step, 7);
    ck_assert(ct_checkpoint_save(after, &c) && same_files(before, after));
}

START_TEST(numbers_that_no_group_takes) {
    static const struct {
        const char *name;
        double value;
        const char *says;
    } wrong[] = {
        {"optims.0.lr_scale.fc.bias", NAN,
         "optims.0.lr_scale.fc.bias is nan, must be a number of at least 0"},
        {"optims.0.lr_scale.proj.bias", -1, "optims.0.lr_scale.proj.bias is -1, "},
        {"optims.1.lr_scale.proj.weight", INFINITY, "optims.1.lr_scale.proj.weight is inf, "},
        {"optims.1.weight_decay.proj.bias", -0.5, "optims.1.weight_decay.proj.bias is -0.5, "},
        {"optims.0.weight_decay.fc.weight", NAN, "optims.0.weight_decay.fc.weight is nan, "},
        {"optims.2.weight_decay.weight", -INFINITY, "optims.2.weight_decay.weight is -inf, "},
    };
    static char good[1 << 16], bytes[1 << 16];
    const char *path = in_folder("checkpoint");
    run r = begin(context);
    group(&r);
    train(&r, 0, 2);
    ct_checkpoint c = all(&r, 3);
    ck_assert(ct_checkpoint_save(path, &c));
    const size_t n = read_all(path, good, sizeof good);
    train(&r, 0, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bytes, good, n);
        put_little(bytes + place_of(good, wrong[i].name), &wrong[i].value, 8);
        seal(bytes, n);
        write_all(path, bytes, n);
        refuses(&r, path, wrong[i].says);
    }
    static const struct {
        const char *name;
        int64_t value;
        size_t size;
        const char *says;
    } counts[] = {
        {"optims.0.skipped", -1, 8, "optims.0.skipped is -1, must be at least 0 and at most"},
        {"optims.0.skipped", INT64_MAX, 8, "optims.0.skipped is 9223372036854775807, must be"},
        {"optims.1.step.fc.bias", INT64_MIN, 8, "optims.1.step.fc.bias is -9223372036854775808"},
        {"optims.0.step.fc.weight", 2, 8,
         "optims.0.step.fc.weight is not 0, but the parameter is frozen"},
        {"optims.1.frozen.proj.bias", 1, 1,
         "optims.1.momentum.proj.bias is there, but the parameter is frozen"},
        {"optims.0.frozen.fc.weight", 2, 1, "the byte of a bool is 2"},
        {"optims.0.skip_nonfinite", 5, 1, "the byte of a bool is 5"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        memcpy(bytes, good, n);
        if (counts[i].size == 8)
            put_little(bytes + place_of(good, counts[i].name), &counts[i].value, 8);
        else bytes[place_of(good, counts[i].name)] = (char)counts[i].value;
        seal(bytes, n);
        write_all(path, bytes, n);
        refuses(&r, path, counts[i].says);
    }
    write_all(path, good, n); /* the file itself is good */
    ck_assert(ct_checkpoint_load(path, &c) && c.step == 3);
}
END_TEST

enum { TENSORS = 128 };

/* Copies a file. Leaves out the tensors whose names end in `without`, gives the tensor named
 * `instead` the content of `tensor`, and adds `more`. NULL: not this change. */
static void rewrite(const char *from, const char *to, const char *without, const char *instead,
                    ct_tensor *tensor, const char *more) {
    ct_named named[TENSORS];
    char names[TENSORS][64];
    int64_t n = 0;
    ct_safetensors *file = ct_safetensors_open(context, from);
    for (ct_safetensors_entry entry = {0}; ct_safetensors_next(file, &entry); n++) {
        const size_t length = strlen(entry.name), end = without ? strlen(without) : 0;
        if (without && length >= end && !strcmp(entry.name + length - end, without)) {
            n--;
            continue;
        }
        snprintf(names[n], sizeof names[n], "%s", entry.name);
        named[n].name = names[n];
        named[n].tensor = instead && !strcmp(entry.name, instead)
                              ? tensor
                              : ct_safetensors_read(file, entry.name);
        ck_assert(named[n].tensor && n < TENSORS - 2);
    }
    if (more) named[n++] = (ct_named){more, tensor};
    static const char *const keys[] = {"checksum", "format", "optim", "optims.0", "optims.1",
                                       "optims.2", "step",   "seed",  "stream"};
    const char *metadata[2 * sizeof keys / sizeof *keys + 1] = {0};
    for (size_t i = 0, at = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = ct_safetensors_metadata(file, keys[i]);
        if (!value) ct_error_clear(context);
        else metadata[at++] = keys[i], metadata[at++] = value;
    }
    ck_assert_msg(ct_tensors_save(context, to, named, n, (ct_save_opts){.metadata = metadata}),
                  "%s", ct_error_message(context));
    seal_file(to);
    ct_safetensors_close(file);
}

START_TEST(what_does_not_fit) {
    const char *good = in_folder("good"), *path = in_folder("wrong");
    run r = begin(context);
    group(&r);
    train(&r, 0, 2);
    ct_checkpoint c = all(&r, 3);
    ck_assert(ct_checkpoint_save(good, &c));
    static const struct {
        const char *without, *says;
    } gone[] = {
        {"0.lr_scale.fc.bias", "missing: optims.0.lr_scale.fc.bias"},
        {"1.frozen.proj.bias", "missing: optims.1.frozen.proj.bias"},
        {"2.weight_decay.weight", "missing: optims.2.weight_decay.weight"},
        {"0.v.proj.bias", "missing: optims.0.v.proj.bias"},
        {"0.step.fc.weight", "missing: optims.0.step.fc.weight"},
        {"1.momentum.fc.bias",
         "optims.1.momentum.fc.bias is missing, but the parameter was updated"},
        {"0.lr", "missing: optims.0.lr"},
    };
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        rewrite(good, path, gone[i].without, NULL, NULL, NULL);
        refuses(&r, path, gone[i].says);
    }
    ct_tensor *two = ct_ones(context, CT_F64, CT_SHAPE(2)),
              *i64 = ct_ones(context, CT_I64, CT_SCALAR),
              *one = ct_ones(context, CT_F64, CT_SCALAR),
              *state = ct_ones(context, CT_F32, CT_SHAPE(5, 3));
    rewrite(good, path, NULL, "optims.0.lr_scale.fc.bias", i64, NULL);
    refuses(&r, path, "optims.0.lr_scale.fc.bias is f64, file has I64");
    rewrite(good, path, NULL, "optims.0.weight_decay.fc.bias", two, NULL);
    refuses(&r, path, "optims.0.weight_decay.fc.bias has shape (), file has (2)");
    rewrite(good, path, NULL, "optims.0.frozen.fc.bias", one, NULL);
    refuses(&r, path, "optims.0.frozen.fc.bias is bool, file has F64");
    rewrite(good, path, NULL, "optims.1.momentum.fc.bias", i64, NULL);
    refuses(&r, path, "optims.1.momentum.fc.bias has shape (2), file has ()");
    rewrite(good, path, NULL, NULL, state, "optims.0.m.fc.weight");
    refuses(&r, path, "missing: optims.0.v.fc.weight");
    rewrite(good, path, NULL, NULL, one, "optims.0.lr_scale.proj.weight");
    refuses(&r, path, "missing: optims.0.weight_decay.proj.weight, optims.0.frozen.proj.weight");
    rewrite(good, path, NULL, NULL, one, "optims.0.lr_scale.nobody");
    refuses(&r, path, "unexpected: optims.0.lr_scale.nobody");
    rewrite(good, path, NULL, NULL, NULL, NULL);
    ck_assert_msg(ct_checkpoint_load(path, &c), "%s", ct_error_message(context));
}
END_TEST

/* A file without groups, with zeros for the states of a parameter before its first step. */
START_TEST(a_file_without_groups) {
    const char *path = in_folder("checkpoint"), *zeros = in_folder("zeros");
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    ct_module_add_param(m, "unused", ct_ones(context, CT_F32, CT_SHAPE(2)));
    run r = {.context = context, .module = m, .a = m};
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.momentum = 0.9});
    ck_assert(ct_backward(
        ct_sum(ct_forward(m, ct_ones(context, CT_F32, CT_SHAPE(2, 3))), CT_ALL, false)));
    ck_assert(ct_optim_step(optim));
    ct_checkpoint c = {.module = r.module, .optim = optim, .step = 5};
    ck_assert(ct_checkpoint_save(path, &c));
    rewrite(path, zeros, NULL, NULL, ct_zeros(context, CT_F32, CT_SHAPE(2)),
            "optim.momentum.unused");
    ct_optim *other = ct_sgd_new(m, (ct_sgd_opts){.momentum = 0.5, .skip_nonfinite = true});
    ck_assert(ct_optim_group(other, "*", (ct_group_opts){.frozen = true}));
    ct_data_f32(ct_grad(ct_module_get(m, "fc.bias")))[0] = NAN;
    ck_assert(ct_optim_step(other)); /* frozen: no gradient is left, and the norm is 0 */
    ck_assert(ct_optim_group(other, "*", (ct_group_opts){0}));
    ck_assert(ct_optim_step(other) && ct_optim_skipped(other) == 1);
    c = (ct_checkpoint){.module = m, .optim = other};
    ck_assert_msg(ct_checkpoint_load(zeros, &c), "%s", ct_error_message(context));
    ck_assert(c.step == 5 && ct_optim_skipped(other) == 0);
    const char *again = in_folder("again");
    ck_assert(ct_checkpoint_save(again, &c) && same_files(path, again));
}
END_TEST

int main(void) {
    return run_tests("checkpoint groups", setup, teardown,
                     TESTS(LOOP(resume_is_bit_identical, 4), TEST(states_of_frozen_parameters),
                           TEST(one_optimiser_twice), TEST(numbers_that_no_group_takes),
                           TEST(what_does_not_fit), TEST(a_file_without_groups)));
}
