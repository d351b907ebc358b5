/* Checkpoints: training resumes with the same bits, and a checkpoint that does not match
 * changes nothing. */
#include <math.h>

#include "nn/optim/optim.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"

typedef struct {
    ct_module *module;
    ct_optim *optim;
} training;

static training begin(ct_context *c, int kind) {
    training t = {.module = ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 5, .dropout = 0.25})};
    /* a parameter without a gradient */
    ct_module_add_param(t.module, "unused", ct_zeros(c, CT_F64, CT_SHAPE(2)));
    if (kind == 0) t.optim = ct_sgd_new(t.module, (ct_sgd_opts){.lr = 0.1});
    if (kind == 1)
        t.optim = ct_sgd_new(t.module, (ct_sgd_opts){.lr = 0.1, .momentum = 0.9, .nesterov = true});
    if (kind == 2) t.optim = ct_adam_new(t.module, (ct_adam_opts){.weight_decay = 0.01});
    if (kind == 3)
        t.optim = ct_adamw_new(
            t.module,
            (ct_adamw_opts){.weight_decay = 0.1, .beta1 = 0.8, .decay_matrices_only = true});
    if (kind == 4) t.optim = ct_adamw_new(t.module, (ct_adamw_opts){.state_dtype = CT_BF16});
    return t;
}

static void train(ct_context *c, training t, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; step++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(4, 3));
        ct_optim_zero_grad(t.optim);
        ck_assert_msg(ct_backward(ct_mse_loss(ct_forward(t.module, x), x)), "%s",
                      ct_error_message(c));
        ck_assert(ct_optim_step(t.optim));
        ct_scope_close(scope);
    }
}

/* Ten steps in one go, and five, then five more in a fresh context after the checkpoint: the same
 * bits. */
START_TEST(resume_is_bit_identical) {
    const char *path = in_folder("checkpoint"), *again = in_folder("again");
    training whole = begin(context, _i);
    train(context, whole, 0, 5);
    ct_optim_set_lr(whole.optim, 0.1 / 3);
    ck_assert_msg(
        ct_checkpoint_save(
            path, &(ct_checkpoint){.module = whole.module, .optim = whole.optim, .step = 5}),
        "%s", ct_error_message(context));
    train(context, whole, 5, 10);

    ct_context *other = ct_context_new((ct_context_opts){.seed = 99, .threads = 1});
    training resumed = begin(other, _i);
    train(other, resumed, 0, 2);
    ct_checkpoint checkpoint = {.module = resumed.module, .optim = resumed.optim, .step = -1};
    ck_assert_msg(ct_checkpoint_load(path, &checkpoint), "%s", ct_error_message(other));
    ck_assert_int_eq(checkpoint.step, 5);
    ck_assert(ct_checkpoint_save(again, &checkpoint));
    ck_assert_int_eq(files_in_folder(), 2);
    train(other, resumed, 5, 10);
    ck_assert(same(whole.module, resumed.module));
    ct_rng a = ct_rng_get(context), b = ct_rng_get(other);
    ck_assert(a.seed == b.seed && a.stream == b.stream);
    ct_context_free(other);

    /* saving what was loaded gives the same bytes */
    FILE *x = fopen(path, "rb"), *y = fopen(again, "rb");
    for (int c; (c = getc(x)) != EOF;) ck_assert_int_eq(c, getc(y));
    ck_assert_int_eq(getc(y), EOF);
    fclose(x);
    fclose(y);
}
END_TEST

/* States are converted as parameters are: to bf16 they are rounded to nearest, from it they are
 * kept. */
START_TEST(states_of_another_dtype_are_converted) {
    for (int from = 3; from <= 4; from++) {
        training saved = begin(context, from), loaded = begin(context, 7 - from);
        train(context, saved, 0, 2);
        ct_checkpoint save = {.module = saved.module, .optim = saved.optim},
                      load = {.module = loaded.module, .optim = loaded.optim};
        ck_assert(ct_checkpoint_save(in_folder("checkpoint"), &save));
        ck_assert_msg(ct_checkpoint_load(in_folder("checkpoint"), &load), "%s",
                      ct_error_message(context));
        for (int64_t i = 0; i < saved.optim->count; i++)
            for (int k = 0; k < 2 && saved.optim->items[i].state[k]; k++) {
                ct_scope scope = ct_scope_open(context);
                ct_tensor *a = saved.optim->items[i].state[k], *b = loaded.optim->items[i].state[k];
                ck_assert_int_eq(ct_dtype_of(b), from == 3 ? CT_BF16 : CT_F32);
                const int64_t n = ct_numel(a);
                const uint16_t *x = ct_data_bf16(from == 3 ? ct_cast(a, CT_BF16) : a),
                               *y = ct_data_bf16(from == 3 ? b : ct_cast(b, CT_BF16));
                ck_assert(!memcmp(x, y, (size_t)n * sizeof *x));
                ct_scope_close(scope);
            }
        train(context, loaded, 2, 3);
    }
}
END_TEST

/* ---- what a checkpoint is refused for ---- */

static ct_checkpoint target; /* the target of loads: a module with SGD, and the step 3 */

static void begin_target(void) {
    const training t = begin(context, 1);
    train(context, t, 0, 2);
    target = (ct_checkpoint){.module = t.module, .optim = t.optim, .step = 3};
}

START_TEST(checkpoints_of_another_optimiser) {
    const char *path = in_folder("checkpoint"), *before = in_folder("before");
    const training adam = begin(context, 3), plain = begin(context, 0);
    training small = begin(context, 1);
    begin_target();
    train(context, adam, 0, 2);
    ck_assert(ct_checkpoint_save(
        path, &(ct_checkpoint){.module = adam.module, .optim = adam.optim, .step = 7}));
    ck_assert(ct_checkpoint_save(before, &target));
    ck_refused(ct_checkpoint_load(path, &target), CT_ERR_FORMAT, path,
               "the optimiser is SGD, the file's is AdamW");
    ct_checkpoint without = {.module = plain.module, .optim = plain.optim, .step = 3};
    ck_refused(ct_checkpoint_load(before, &without), CT_ERR_FORMAT, before,
               "unexpected: optim.momentum.fc.weight, optim.momentum.fc.bias, ");
    small.module = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 4});
    small.optim = ct_sgd_new(small.module, (ct_sgd_opts){.momentum = 0.9});
    ck_refused(
        ct_checkpoint_load(before, &(ct_checkpoint){.module = small.module, .optim = small.optim}),
        CT_ERR_FORMAT, before, "model.fc.weight has shape (4, 3), file has (5, 3)");
    ck_assert(ct_save(target.module, path, (ct_save_opts){0}));
    ck_refused(ct_checkpoint_load(path, &target), CT_ERR_FORMAT, path, "\"format\"");
}
END_TEST

/* A file of the target's module with this metadata is refused. */
static void metadata_refused(const char *const *metadata, const char *says) {
    const char *path = in_folder("checkpoint");
    ck_assert(ct_save(target.module, path, (ct_save_opts){.metadata = metadata}));
    seal_file(path);
    ck_refused(ct_checkpoint_load(path, &target), CT_ERR_FORMAT, path, says);
}

#define OF_A_CHECKPOINT CHECKSUM, "format", "cotangent checkpoint 1"

START_TEST(metadata_of_a_checkpoint) {
    static const char *const numbers[] = {"step", "seed", "stream"},
                             *const texts[] = {NULL, "", "-1", "7x", "18446744073709551616", "/"};
    begin_target();
    for (int i = 0; i < 3; i++)
        for (int wrong = 0; wrong < 6; wrong++) { /* missing, or no number */
            const char *metadata[13] = {OF_A_CHECKPOINT, "optim", "SGD"};
            for (int k = 0, at = 6; k < 3; k++) {
                const char *value = k == i ? texts[wrong] : "7";
                if (value) metadata[at++] = numbers[k], metadata[at++] = value;
            }
            char says[64];
            snprintf(says, sizeof says, "metadata \"%s\" is no whole number", numbers[i]);
            metadata_refused(metadata, says);
        }
    metadata_refused(
        (const char *[]){OF_A_CHECKPOINT, "optim", "SGD", "step", "9223372036854775807", "seed",
                         "7", "stream", "7", NULL},
        "metadata \"step\" is no whole number of at most 9223372036854775806: 9223372036854775807");
    metadata_refused((const char *[]){OF_A_CHECKPOINT, NULL},
                     "the optimiser is SGD, the file's is missing");
}
END_TEST

START_TEST(arguments_of_checkpoints) {
    const char *path = in_folder("checkpoint");
    begin_target();
    ct_checkpoint wrong = target;
    ck_refused(ct_checkpoint_load(in_folder("none"), &target), CT_ERR_IO, "none", "No such file");
    ck_refused(ct_checkpoint_load(NULL, &target), CT_ERR_ARGUMENT, "checkpoint_load", "NULL");
    wrong.optim = NULL;
    ck_refused(ct_checkpoint_save(path, &wrong), CT_ERR_ARGUMENT, "checkpoint_save", "NULL");
    wrong = target, wrong.step = -3;
    ck_refused(ct_checkpoint_save(path, &wrong), CT_ERR_ARGUMENT, "checkpoint_save", "step is -3");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    wrong = target, wrong.optim = begin(other, 1).optim;
    ck_refused(ct_checkpoint_save(path, &wrong), CT_ERR_ARGUMENT, "checkpoint_save",
               "two contexts");
    ct_context_free(other);
    ck_assert(!ct_checkpoint_save(path, NULL) && !ct_checkpoint_load(path, &(ct_checkpoint){0}));
}
END_TEST

/* A checkpoint that is cut short anywhere is refused, and nothing is changed. */
START_TEST(a_checkpoint_that_is_cut) {
    static char bytes[1 << 16], now[1 << 16];
    const char *path = in_folder("checkpoint"), *before = in_folder("before"),
               *after = in_folder("after");
    begin_target();
    ck_assert(ct_checkpoint_save(before, &target));
    FILE *file = fopen(before, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t n = 0; n < size; n += n < 64 ? 1 : 37) {
        file = fopen(path, "wb");
        fwrite(bytes, 1, n, file);
        fclose(file);
        ck_refused(ct_checkpoint_load(path, &target), CT_ERR_FORMAT, path, "");
    }
    ck_assert_int_eq(target.step, 3);
    ck_assert(ct_checkpoint_save(after, &target));
    file = fopen(after, "rb");
    ck_assert_uint_eq(fread(now, 1, sizeof now, file), size);
    fclose(file);
    ck_assert_int_eq(memcmp(now, bytes, size), 0);
}
END_TEST

START_TEST(what_a_checkpoint_holds) {
    static const char *const names[][9] = {
        {"optim.lr", "optim.weight_decay", "optim.momentum", "optim.dampening", "optim.nesterov",
         "optim.clip_norm"},
        {"optim.lr", "optim.weight_decay", "optim.momentum", "optim.dampening", "optim.nesterov",
         "optim.clip_norm", "optim.momentum.fc.weight"},
        {"optim.lr", "optim.beta1", "optim.beta2", "optim.eps", "optim.weight_decay",
         "optim.decay_matrices_only", "optim.clip_norm", "optim.m.fc.weight", "optim.v.fc.weight"}};
    static char bytes[1 << 16];
    const char *path = in_folder("checkpoint");
    for (int kind = 0; kind < 3; kind++) {
        training t = begin(context, kind);
        train(context, t, 0, 1);
        /* before the first step */
        ck_assert(ct_checkpoint_save(path, &(ct_checkpoint){.module = t.module, .optim = t.optim}));
        ct_checkpoint read = {.module = t.module, .optim = t.optim, .step = 9};
        ck_assert_msg(ct_checkpoint_load(path, &read), "%s", ct_error_message(context));
        ck_assert_int_eq(read.step, 0);
        const size_t size = read_all(path, bytes, sizeof bytes);
        uint64_t header = 0;
        for (int i = 0; i < 8; i++) header |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
        ck_assert(header + 8 < size);
        const char kept = bytes[8 + header];
        bytes[8 + header] = 0;
        for (int i = 0; i < 9 && names[kind][i]; i++) {
            char quoted[64];
            snprintf(quoted, sizeof quoted, "\"%s\":", names[kind][i]);
            ck_assert_msg(strstr(bytes + 8, quoted) != NULL, "no %s in %s", quoted, bytes + 8);
        }
        /* each count of steps, made negative, is refused */
        int counts = 0;
        const char *at = bytes + 8;
        while ((at = strstr(at, "\"I64\""))) {
            long long begins, ends;
            const char *offsets = strstr(at, "\"data_offsets\":[");
            ck_assert(sscanf(offsets, "\"data_offsets\":[%lld,%lld]", &begins, &ends) == 2 &&
                      ends == begins + 8);
            static char wrong[sizeof bytes];
            memcpy(wrong, bytes, size);
            wrong[8 + header] = kept;
            memset(wrong + 8 + header + begins, 0xff, 8);
            FILE *file = fopen(path, "wb");
            seal(wrong, size);
            fwrite(wrong, 1, size, file);
            fclose(file);
            ck_refused(ct_checkpoint_load(path, &read), CT_ERR_FORMAT, path,
                       "is -1, must be at least 0");
            counts++, at++;
        }
        /* one each of the mlp's four parameters and of one without a gradient */
        ck_assert_int_ge(counts, 5);
    }
}
END_TEST

/* Every message begins with the function and then has the file. */
static void says_first(ct_status status, const char *op, const char *path) {
    char want[600];
    snprintf(want, sizeof want, "%s: %s: ", op, path);
    ck_assert_int_eq(ct_error(context), status);
    ck_assert_msg(!strncmp(ct_error_message(context), want, strlen(want)), "%s",
                  ct_error_message(context));
    ct_error_clear(context);
}

START_TEST(refusals_name_the_file) {
    const char *path = in_folder("checkpoint");
    training plain = begin(context, 0), adam = begin(context, 2);
    ct_checkpoint to = {.module = plain.module, .optim = plain.optim};
    ck_assert(ct_save(plain.module, path, (ct_save_opts){0}) && !ct_checkpoint_load(path, &to));
    says_first(CT_ERR_FORMAT, "checkpoint_load", path);
    ck_assert(ct_checkpoint_save(
                  path, &(ct_checkpoint){.module = adam.module, .optim = adam.optim, .step = 3}) &&
              !ct_checkpoint_load(path, &to));
    says_first(CT_ERR_FORMAT, "checkpoint_load", path);
    to.step = -1;
    ck_assert(!ct_checkpoint_save(path, &to));
    ck_assert_msg(strstr(ct_error_message(context), "step is -1, must be at least 0") != NULL, "%s",
                  ct_error_message(context));
    says_first(CT_ERR_ARGUMENT, "checkpoint_save", path);
    char out[8];
    ck_assert(!ct_load_metadata(context, path, NULL, out, sizeof out) &&
              !ct_load_metadata(NULL, path, "step", out, sizeof out));
    ck_assert_str_eq(ct_error_message(context), "load_metadata: path, key or out is NULL");
    ct_error_clear(context);
}
END_TEST

/* ---- numbers that constructors refuse ---- */

static const struct {
    int kind; /* the optimiser's number in begin */
    const char *name;
    double value;
    const char *says;
} wrong_numbers[] = {
    {0, "optim.lr", NAN, "optim.lr is nan, must be a number of at least 0"},
    {0, "optim.lr", -1, "optim.lr is -1, "},
    {0, "optim.lr", INFINITY, "optim.lr is inf, "},
    {0, "optim.momentum", 0.5, "optim: momentum must be 0, as this optimiser was made without it"},
    {0, "optim.dampening", NAN, "optim.dampening is nan, "},
    {0, "optim.weight_decay", -3, "optim.weight_decay is -3, "},
    {0, "optim.clip_norm", NAN, "optim.clip_norm is nan, "},
    {1, "optim.lr", -1e-3, "optim.lr is -0.001, "},
    {1, "optim.momentum", 0, "optim.momentum is 0, must be a number greater than 0"},
    {1, "optim.momentum", -1, "optim.momentum is -1, "},
    {1, "optim.momentum", NAN, "optim.momentum is nan, "},
    {1, "optim.dampening", 0.5,
     "optim: nesterov is 1, must be 0 without a momentum, and with a dampening"},
    {2, "optim.lr", NAN, "optim.lr is nan, "},
    {2, "optim.beta1", 1, "optim.beta1 is 1, must be at least 0 and less than 1"},
    {2, "optim.beta1", -0.5, "optim.beta1 is -0.5, "},
    {2, "optim.beta2", 7, "optim.beta2 is 7, "},
    {2, "optim.beta2", NAN, "optim.beta2 is nan, "},
    {2, "optim.eps", -1, "optim.eps is -1, "},
    {3, "optim.eps", INFINITY, "optim.eps is inf, "},
    {3, "optim.weight_decay", NAN, "optim.weight_decay is nan, "},
    {3, "optim.clip_norm", -1, "optim.clip_norm is -1, "},
    {3, "optim.clip_norm", INFINITY, "optim.clip_norm is inf, "},
};

/* Refused with the file's name and the number, and nothing is changed. */
static void refuse_bytes(training t, const char *path, const char *name, const void *value,
                         size_t size, const char *says) {
    static char good[1 << 16], wrong[1 << 16], now[1 << 16];
    ct_checkpoint checkpoint = {.module = t.module, .optim = t.optim, .step = 4};
    ck_assert_msg(ct_checkpoint_save(path, &checkpoint), "%s", ct_error_message(context));
    const size_t n = read_all(path, good, sizeof good);
    memcpy(wrong, good, n);
    put_little(wrong + place_of(good, name), value, size);
    wrong[place_of(good, "model.fc.bias")] ^= 1; /* a value that a load would change */
    seal(wrong, n);
    write_all(path, wrong, n);
    ck_refused(ct_checkpoint_load(path, &checkpoint), CT_ERR_FORMAT, path, says);
    ck_assert_int_eq(checkpoint.step, 4);
    ck_assert(ct_checkpoint_save(path, &checkpoint));
    ck_assert_uint_eq(read_all(path, now, sizeof now), n);
    ck_assert_int_eq(memcmp(now, good, n), 0);
}

START_TEST(numbers_that_no_constructor_takes) {
    training t = begin(context, wrong_numbers[_i].kind);
    train(context, t, 0, 2);
    refuse_bytes(t, in_folder("checkpoint"), wrong_numbers[_i].name, &wrong_numbers[_i].value, 8,
                 wrong_numbers[_i].says);
}
END_TEST

START_TEST(bools_and_counts) {
    const char *path = in_folder("checkpoint");
    training sgd = begin(context, 0), momentum = begin(context, 1), adam = begin(context, 3);
    train(context, adam, 0, 2);
    for (int byte = 2; byte < 256; byte += 23) {
        char says[96];
        snprintf(says, sizeof says,
                 "tensor \"optim.nesterov\": the byte of a bool is %d, not 0 or 1, at byte ", byte);
        refuse_bytes(momentum, path, "optim.nesterov", &(unsigned char){(unsigned char)byte}, 1,
                     says);
    }
    refuse_bytes(sgd, path, "optim.nesterov", &(char){1}, 1,
                 "optim: nesterov is 1, must be 0 without a momentum");
    refuse_bytes(adam, path, "optim.decay_matrices_only", &(char){-1}, 1,
                 "the byte of a bool is 255");
    refuse_bytes(adam, path, "optim.step.fc.weight", &(int64_t){INT64_MAX}, 8,
                 "optim.step.fc.weight is 9223372036854775807, must be at least 0 and at most "
                 "9223372036854775806");
    refuse_bytes(adam, path, "optim.step.unused", &(int64_t){INT64_MIN}, 8,
                 "optim.step.unused is -9223372036854775808, ");
}
END_TEST

/* A parameter whose step count is at the maximum can still be updated, saved and loaded. */
START_TEST(the_last_count) {
    static char bytes[1 << 16];
    const char *path = in_folder("checkpoint");
    for (int kind = 0; kind < 4; kind++) {
        training t = begin(context, kind);
        train(context, t, 0, 1);
        ct_checkpoint checkpoint = {.module = t.module, .optim = t.optim, .step = 1};
        ck_assert(ct_checkpoint_save(path, &checkpoint));
        const size_t n = read_all(path, bytes, sizeof bytes);
        put_little(bytes + place_of(bytes, "optim.step.fc.weight"), &(int64_t){INT64_MAX - 1}, 8);
        seal(bytes, n);
        write_all(path, bytes, n);
        for (int again = 0; again < 3; again++) {
            ck_assert_msg(ct_checkpoint_load(path, &checkpoint), "%s", ct_error_message(context));
            train(context, t, 0, 1);
            ck_assert_msg(ct_checkpoint_save(path, &checkpoint), "%s", ct_error_message(context));
        }
        for (ct_param param = {0}; ct_module_next(t.module, &param);)
            if (ct_dtype_of(param.tensor) == CT_F32)
                for (int64_t i = 0; i < ct_numel(param.tensor); i++)
                    ck_assert(isfinite(ct_data_f32(param.tensor)[i]));
    }
}
END_TEST

/* Loading a checkpoint without clipping turns off clipping in the optimiser. */
START_TEST(clipping_ends) {
    const char *path = in_folder("checkpoint");
    training a = begin(context, 0), b = begin(context, 0);
    b.optim = ct_sgd_new(b.module, (ct_sgd_opts){.lr = 0.1, .clip_norm = 1e-3});
    train(context, b, 0, 1);
    ck_assert(ct_optim_grad_norm(b.optim) > 1e-3);
    ct_checkpoint from = {.module = a.module, .optim = a.optim},
                  to = {.module = b.module, .optim = b.optim};
    ck_assert(ct_checkpoint_save(path, &from) && ct_checkpoint_load(path, &to));
    const ct_rng rng = ct_rng_get(context);
    train(context, a, 0, 2);
    ct_rng_set(context, rng);
    train(context, b, 0, 2);
    ck_assert(same(a.module, b.module));
    ck_assert(isnan(ct_optim_grad_norm(b.optim)));
}
END_TEST

/* Numbers in a checkpoint may have the largest value of their type, except the step, which must not
 * overflow. */
START_TEST(largest_numbers) {
    const char *path = in_folder("checkpoint");
    training t = begin(context, 0);
    ct_checkpoint largest = {.module = t.module, .optim = t.optim, .step = INT64_MAX - 1};
    ct_rng_set(context, (ct_rng){UINT64_MAX, UINT64_MAX});
    ck_assert_msg(ct_checkpoint_save(path, &largest), "%s", ct_error_message(context));
    largest.step = 0;
    ct_rng_set(context, (ct_rng){1, 2});
    ck_assert_msg(ct_checkpoint_load(path, &largest), "%s", ct_error_message(context));
    const ct_rng rng = ct_rng_get(context);
    ck_assert(largest.step == INT64_MAX - 1 && rng.seed == UINT64_MAX && rng.stream == UINT64_MAX);
    /* the stream number wraps around */
    ct_tensor *drawn = ct_randn(context, CT_F32, CT_SHAPE(2));
    ck_assert(drawn && ct_rng_get(context).stream == 0);
    largest.step = INT64_MAX;
    ck_refused(ct_checkpoint_save(path, &largest), CT_ERR_ARGUMENT, path,
               "step is 9223372036854775807, must be at least 0 and at most 9223372036854775806");
}
END_TEST

/* Names of every length are freed with the right size: blocks are multiples of 64 bytes. */
START_TEST(names_go_back) {
    const char *path = in_folder("file");
    for (int n = 56; n < 66; n++) {
        char name[80] = "";
        memset(name, 'n', (size_t)n);
        ct_module *module = ct_module_new(context, "M");
        ct_module_add_param(module, name, ct_zeros(context, CT_F32, CT_SHAPE(1)));
        ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){.momentum = 0.9});
        const int64_t live = ct_memory(context).live;
        ck_assert(ct_save(module, path, (ct_save_opts){0}) &&
                  ct_load(module, path, (ct_load_opts){0}));
        ck_assert_int_eq(ct_memory(context).live, live);
        ct_checkpoint checkpoint = {.module = module, .optim = optim, .step = 1};
        ck_assert(ct_checkpoint_save(path, &checkpoint) && ct_checkpoint_load(path, &checkpoint));
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

/* More tensors than the initial capacity of the list. */
START_TEST(many_tensors) {
    const char *path = in_folder("many");
    ct_module *m = ct_module_new(context, "Many"), *n = ct_module_new(context, "Many");
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        ck_assert(ct_module_add_param(m, name, ct_full(context, CT_F32, CT_SHAPE(2), i)));
        ck_assert(ct_module_add_param(n, name, ct_zeros(context, CT_F32, CT_SHAPE(2))));
    }
    ck_assert_msg(ct_save(m, path, (ct_save_opts){0}) && ct_load(n, path, (ct_load_opts){0}), "%s",
                  ct_error_message(context));
    ck_assert(same(m, n));
}
END_TEST

int main(void) {
    return run_tests("checkpoint", setup, teardown,
                     TESTS(LOOP(resume_is_bit_identical, 5),
                           TEST(states_of_another_dtype_are_converted),
                           TEST(checkpoints_of_another_optimiser), TEST(metadata_of_a_checkpoint),
                           TEST(arguments_of_checkpoints), TEST(a_checkpoint_that_is_cut),
                           TEST(what_a_checkpoint_holds), TEST(refusals_name_the_file),
                           LOOP(numbers_that_no_constructor_takes,
                                (int)(sizeof wrong_numbers / sizeof *wrong_numbers)),
                           TEST(bools_and_counts), TEST(the_last_count), TEST(clipping_ends),
                           TEST(largest_numbers), TEST(names_go_back), TEST(many_tensors)));
}
