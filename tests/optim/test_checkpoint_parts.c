/* Checkpoints of several optimisers and of the caller's tensors, and their load without an
 * optimiser. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

typedef struct {
    ct_context *context;
    ct_module *module, *other; /* other: a module that only the second optimiser steps */
    ct_optim *optim[2];
    ct_tensor *tensor[3];
    ct_named named[3];
} run;

static run begin(ct_context *c) {
    run r = {.context = c,
             .module = ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 5, .dropout = 0.25}),
             .other = ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 2})};
    r.optim[0] = ct_adamw_new(r.module, (ct_adamw_opts){.lr = 0.01});
    r.optim[1] = ct_sgd_new(r.other, (ct_sgd_opts){.lr = 0.1, .momentum = 0.9});
    r.tensor[0] = ct_full(c, CT_F64, CT_SCALAR, 0);
    r.tensor[1] = ct_zeros(c, CT_I64, CT_SHAPE(3));
    r.tensor[2] = ct_transpose(ct_zeros(c, CT_BOOL, CT_SHAPE(2, 5)), 0, 1);
    static const char *const names[] = {"best loss", "counts", "mask"};
    for (int i = 0; i < 3; i++) r.named[i] = (ct_named){names[i], r.tensor[i]};
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    return r;
}

static ct_checkpoint all(run *r, int64_t step) {
    return (ct_checkpoint){.module = r->module,
                           .step = step,
                           .optims = r->optim,
                           .n_optims = 2,
                           .tensors = r->named,
                           .n_tensors = 3};
}

static void train(run *r, int steps) {
    ct_context *c = r->context;
    for (int i = 0; i < steps; i++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(4, 3));
        ct_tensor *y = ct_add(ct_forward(r->module, x), ct_forward(r->other, x));
        ct_tensor *loss = ct_mse_loss(y, x);
        ck_assert(ct_backward(loss));
        for (int k = 0; k < 2; k++) {
            ck_assert(ct_optim_step(r->optim[k]));
            ct_optim_zero_grad(r->optim[k]);
        }
        *ct_data_f64(r->tensor[0]) = ct_item(loss);
        ct_data_i64(r->tensor[1])[i % 3] += INT64_C(1) << 60 | i;
        bool *mask = ct_data_bool(ct_transpose(r->tensor[2], 0, 1));
        mask[ct_random_below(c, 10)] ^= true;
        ct_scope_close(scope);
    }
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
}

static bool same_runs(const run *a, const run *b) {
    ct_rng x = ct_rng_get(a->context), y = ct_rng_get(b->context);
    return same(a->module, b->module) && same(a->other, b->other) && x.seed == y.seed &&
           x.stream == y.stream &&
           !memcmp(ct_data_f64(a->tensor[0]), ct_data_f64(b->tensor[0]), 8) &&
           !memcmp(ct_data_i64(a->tensor[1]), ct_data_i64(b->tensor[1]), 24) &&
           !memcmp(ct_data_bool(ct_transpose(a->tensor[2], 0, 1)),
                   ct_data_bool(ct_transpose(b->tensor[2], 0, 1)), 10);
}

static void copy_params(const ct_module *from, ct_module *to) {
    for (ct_param p = {0}; ct_module_next(from, &p);)
        memcpy(ct_data_f32(ct_module_get(to, p.name)), ct_data_f32(p.tensor),
               (size_t)ct_numel(p.tensor) * 4);
}

START_TEST(resume_is_bit_identical) {
    const char *path = in_folder("checkpoint"), *again = in_folder("again");
    run whole = begin(context);
    train(&whole, 4);
    ct_checkpoint saved = all(&whole, 4);
    ck_assert_msg(ct_checkpoint_save(path, &saved), "%s", ct_error_message(context));
    ct_context *other = ct_context_new((ct_context_opts){.seed = 99, .threads = 1});
    run resumed = begin(other);
    train(&resumed, 1);
    copy_params(whole.other, resumed.other); /* a tensor that the checkpoint does not hold */
    ct_checkpoint checkpoint = all(&resumed, -1);
    ck_assert_msg(ct_checkpoint_load(path, &checkpoint), "%s", ct_error_message(other));
    ck_assert_int_eq(checkpoint.step, 4);
    ck_assert(same_runs(&whole, &resumed));
    ck_assert(ct_checkpoint_save(again, &checkpoint));
    train(&whole, 5);
    train(&resumed, 5);
    ck_assert(same_runs(&whole, &resumed));
    FILE *x = fopen(path, "rb"), *y = fopen(again, "rb");
    for (int c; (c = getc(x)) != EOF;) ck_assert_int_eq(c, getc(y));
    ck_assert_int_eq(getc(y), EOF);
    fclose(x);
    fclose(y);
    ct_context_free(other);
}
END_TEST

/* .optim and .optims together, and one optimiser in a field of its own as before. */
START_TEST(both_fields) {
    const char *path = in_folder("checkpoint");
    run a = begin(context), b = begin(context);
    train(&a, 3);
    ct_checkpoint from = {
        .module = a.module, .optim = a.optim[0], .optims = a.optim + 1, .n_optims = 1, .step = 3};
    ct_checkpoint to = {
        .module = b.module, .optim = b.optim[0], .optims = b.optim + 1, .n_optims = 1};
    ck_assert(ct_checkpoint_save(path, &from) && ct_checkpoint_load(path, &to));
    ck_assert(same(a.module, b.module) && to.step == 3);
    to.n_optims = 0;
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "unexpected: optims.0.");
    to = (ct_checkpoint){.module = b.module, .optims = b.optim, .n_optims = 2};
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path,
               "the optimiser optims.0 is AdamW, the file's is SGD");
}
END_TEST

START_TEST(inference) {
    const char *path = in_folder("checkpoint");
    run a = begin(context), b = begin(context);
    train(&a, 3);
    ct_checkpoint from = all(&a, 3), module = {.module = b.module};
    ck_assert(ct_checkpoint_save(path, &from));
    ct_rng before = ct_rng_get(context);
    ct_random_below(context, 5);
    ct_rng moved = ct_rng_get(context);
    ck_assert_msg(ct_checkpoint_load(path, &module), "%s", ct_error_message(context));
    ck_assert(same(a.module, b.module) && module.step == 3);
    ck_assert(ct_rng_get(context).stream == moved.stream && moved.stream != before.stream);
    /* with some of the tensors */
    ct_checkpoint some = {.module = b.module, .tensors = b.named + 1, .n_tensors = 1};
    ck_assert(ct_checkpoint_load(path, &some));
    ck_assert(!memcmp(ct_data_i64(a.tensor[1]), ct_data_i64(b.tensor[1]), 24));
    ck_assert(*ct_data_f64(b.tensor[0]) == 0);
    /* tensors that are asked for must be in the file */
    ct_named none = {"none", b.tensor[0]};
    some.tensors = &none;
    ck_refused(ct_checkpoint_load(path, &some), CT_ERR_FORMAT, path, "missing: tensor.none");
    ct_module *larger = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 6});
    ck_refused(ct_checkpoint_load(path, &(ct_checkpoint){.module = larger}), CT_ERR_FORMAT, path,
               "model.fc.weight has shape (6, 3), file has (5, 3)");

    /* one without an optimiser is all of a state: the generator too */
    from.n_optims = 0;
    ck_assert(ct_checkpoint_save(path, &from));
    moved = ct_rng_get(context);
    ct_randn(context, CT_F32, CT_SHAPE(1));
    ct_checkpoint to = all(&b, 0);
    to.n_optims = 0;
    ck_assert(ct_checkpoint_load(path, &to) && ct_rng_get(context).stream == moved.stream);
    to.n_tensors = 2;
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "unexpected: tensor.mask");
}
END_TEST

/* ---- only the trained parameters ---- */

/* A module with two trained parameters, one of which has a second name, a frozen parameter with a
 * second name too, and a buffer. */
static ct_module *partly_frozen(ct_context *c, double value) {
    ct_module *m = ct_module_new(c, "M");
    ct_module_add_param(m, "tied", ct_full(c, CT_F32, CT_SHAPE(2, 3), value));
    ct_module_add_param(m, "frozen", ct_full(c, CT_F32, CT_SHAPE(400), value));
    ct_module_add_param(m, "last", ct_full(c, CT_F32, CT_SHAPE(3), value));
    ct_module_add_buffer(m, "seen", ct_full(c, CT_F32, CT_SHAPE(4), value), true);
    ct_module *child = ct_module_new(c, "Child");
    ct_module_add_param(child, "again", ct_module_get(m, "tied"));
    ct_module_add_param(child, "still", ct_module_get(m, "frozen"));
    ct_module_add_child(m, "child", child);
    ct_set_requires_grad(ct_module_get(m, "frozen"), false);
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    return m;
}

/* The values of tied, frozen, last and seen. */
static void has_values(ct_module *m, double tied, double frozen, double last, double seen) {
    ck_assert(ct_data_f32(ct_module_get(m, "tied"))[5] == (float)tied);
    ck_assert(ct_data_f32(ct_module_get(m, "child.again"))[0] == (float)tied);
    ck_assert(ct_data_f32(ct_module_get(m, "frozen"))[399] == (float)frozen);
    ck_assert(ct_data_f32(ct_module_get(m, "last"))[0] == (float)last);
    ck_assert(ct_data_f32(ct_module_get(m, "seen"))[3] == (float)seen);
}

START_TEST(trained) {
    const char *path = in_folder("checkpoint");
    ct_module *a = partly_frozen(context, 1), *b = partly_frozen(context, 2);
    ct_checkpoint from = {.module = a, .optim = ct_adamw_new(a, (ct_adamw_opts){0}), .step = 3},
                  to = {.module = b, .optim = ct_adamw_new(b, (ct_adamw_opts){0})};
    from.trained = to.trained = true;
    ck_assert_msg(ct_checkpoint_save(path, &from), "%s", ct_error_message(context));
    ct_safetensors *file = ct_safetensors_open(context, path);
    char names[200] = "";
    for (ct_safetensors_entry e = {0}; ct_safetensors_next(file, &e);)
        if (!strncmp(e.name, "model.", 6)) strcat(strcat(names, e.name), " ");
    ck_assert_str_eq(names, "model.tied model.last model.seen ");
    ct_safetensors_close(file);
    ck_assert_msg(ct_checkpoint_load(path, &to), "%s", ct_error_message(context));
    has_values(b, 1, 2, 1, 1);
    ck_assert_int_eq(to.step, 3);

    to.trained = false; /* the frozen parameter is not in the file */
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "missing: model.frozen");

    /* the file of a whole module: the frozen parameter stays, under all of its names */
    from.trained = false, to.trained = true;
    for (ct_param p = {0}; ct_module_next(a, &p);) ct_init_constant(p.tensor, 7);
    ck_assert(ct_checkpoint_save(path, &from));
    ck_assert_msg(ct_checkpoint_load(path, &to), "%s", ct_error_message(context));
    has_values(b, 7, 2, 7, 1);

    /* a parameter that is trained here, and was frozen at the save */
    from.trained = true;
    ck_assert(ct_checkpoint_save(path, &from));
    ct_set_requires_grad(ct_module_get(b, "frozen"), true);
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "missing: model.frozen");
    has_values(b, 7, 2, 7, 1);

    ct_set_requires_grad(ct_module_get(b, "frozen"), false);

    /* a parameter that is frozen here, and was trained at the save; without an optimiser, because
     * its states are of one more parameter */
    ct_set_requires_grad(ct_module_get(b, "last"), false);
    ct_init_constant(ct_module_get(b, "last"), 5);
    ck_assert(ct_checkpoint_load(path, &(ct_checkpoint){.module = b, .trained = true}));
    has_values(b, 7, 2, 5, 1);
    ct_set_requires_grad(ct_module_get(b, "last"), true);

    /* a name that the module does not have */
    ct_module_add_param(a, "more", ct_ones(context, CT_F32, CT_SHAPE(1)));
    from.optim = ct_adamw_new(a, (ct_adamw_opts){0});
    ck_assert(ct_checkpoint_save(path, &from));
    ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, "model.more");
}
END_TEST

/* ---- the caller's tensors ---- */

START_TEST(tensors_match) {
    const char *path = in_folder("checkpoint");
    run a = begin(context);
    train(&a, 2);
    ct_checkpoint from = all(&a, 2);
    ck_assert(ct_checkpoint_save(path, &from));
    const struct {
        int which;
        ct_tensor *tensor;
        const char *says;
    } wrong[] = {
        {0, ct_zeros(context, CT_F32, CT_SCALAR), "tensor.best loss is f32, file has F64"},
        {0, ct_zeros(context, CT_F64, CT_SHAPE(1)), "tensor.best loss has shape (1), file has ()"},
        {1, ct_zeros(context, CT_I64, CT_SHAPE(4)), "tensor.counts has shape (4), file has (3)"},
        {1, ct_zeros(context, CT_BOOL, CT_SHAPE(3)), "tensor.counts is bool, file has I64"},
        {2, ct_zeros(context, CT_BOOL, CT_SHAPE(2, 5)), "tensor.mask has shape (2, 5), file has"},
    };
    run b = begin(context), untouched = begin(context);
    copy_params(b.module, untouched.module);
    copy_params(b.other, untouched.other);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ct_checkpoint to = all(&b, 9);
        ct_named *named = &b.named[wrong[i].which], was = *named;
        named->tensor = wrong[i].tensor;
        ck_refused(ct_checkpoint_load(path, &to), CT_ERR_FORMAT, path, wrong[i].says);
        *named = was;
        ck_assert(to.step == 9 && same_runs(&b, &untouched));
    }
    ct_checkpoint to = all(&b, 9);
    ck_assert(ct_checkpoint_load(path, &to));
}
END_TEST

START_TEST(refused) {
    const char *path = in_folder("checkpoint");
    run r = begin(context);
    ct_checkpoint c = all(&r, 1);
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    run theirs = begin(other);
    const ct_named unnamed = {NULL, r.tensor[0]}, none = {"a", NULL},
                   twice[] = {{"a", r.tensor[0]}, {"a", r.tensor[1]}},
                   foreign = {"a", theirs.tensor[0]};
    ct_optim *null[] = {r.optim[0], NULL}, *foreign_optim[] = {theirs.optim[0]};
#define REFUSED(says, ...)                                                                         \
    do {                                                                                           \
        c = all(&r, 1);                                                                            \
        __VA_ARGS__;                                                                               \
        ck_refused(ct_checkpoint_save(path, &c), CT_ERR_ARGUMENT, "checkpoint_save", says);        \
    } while (0)
    REFUSED("path or module is NULL", c.module = NULL; c.optim = r.optim[0]);
    REFUSED("optims is NULL, or n_optims", c.optims = NULL);
    REFUSED("optims is NULL, or n_optims", c.n_optims = -1);
    REFUSED("optims[1] is NULL", c.optims = null);
    REFUSED("two contexts", c.optims = foreign_optim; c.n_optims = 1);
    REFUSED("tensors is NULL, or n_tensors", c.tensors = NULL);
    REFUSED("tensors is NULL, or n_tensors", c.n_tensors = -1);
    REFUSED("tensors[0]: the name is NULL", c.tensors = &unnamed; c.n_tensors = 1);
    REFUSED("tensors[0]: the tensor is NULL", c.tensors = &none; c.n_tensors = 1);
    REFUSED("tensor \"tensor.a\" is there twice", c.tensors = twice; c.n_tensors = 2);
    REFUSED("checkpoint_save", c.tensors = &foreign; c.n_tensors = 1);
    REFUSED("optim and optims are NULL", c.n_optims = 0; c.n_tensors = 0);
    ct_optim_free(r.optim[1]);
    REFUSED("has ended", );
    ck_assert(!ct_checkpoint_load(path, &c));
    ct_error_clear(context);
    ck_assert_int_eq(files_in_folder(), 0);
    ct_context_free(other);
}
END_TEST

int main(void) {
    return run_tests("checkpoint parts", setup, teardown,
                     TESTS(TEST(resume_is_bit_identical), TEST(both_fields), TEST(inference),
                           TEST(trained), TEST(tensors_match), TEST(refused)));
}
