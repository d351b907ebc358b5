/* The n-th request for memory fails, once or from then on, for every n: no crash, no leak, no
 * partial result, and the context works after ct_error_clear. The pool rarely calls the allocator,
 * so cti_take itself is made to fail too (memory_faults.h). */
#include <cotangent/cotangent.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/cases.h"
#include "tests/support/fault_sweep.h"
#include "tests/support/memory_faults.h"

static ct_context *new_context(int threads) {
    return new_with(
        (ct_context_opts){.seed = 5, .threads = threads, .allocator = {allocate, release, NULL}});
}

/* ---- sweeping ---- */

/* A program is run with the n-th request failing, then again without, in the same context. */

typedef struct {
    float value[4096];
    int64_t count;
} result;

/* resets the generator and computes everything; true: all succeeded */
typedef bool program(ct_context *context, result *out);

typedef struct {
    program *run;
    int threads;
    result want, got;
} subject;

static ct_context *context; /* the run's context */

/* A context of the run's own: requests of its first use are refused, too. */
static bool run_anew(void *arg) {
    subject *s = arg;
    context = new_context(s->threads);
    return context && s->run(context, &s->got);
}

static void check_result(const fault_end *end, void *arg) {
    const subject *s = arg;
    FAULT_CK(end, !end->done || !memcmp(s->got.value, s->want.value, sizeof s->want.value));
    if (!context) ck_assert_int_eq(allocated.bytes, 0);
}

static bool run_again(void *arg) {
    subject *s = arg;
    if (!context) return true;
    const bool done = s->run(context, &s->got);
    ck_assert_msg(done, "afterwards: %s", ct_error_message(context));
    ck_assert_msg(!memcmp(s->got.value, s->want.value, sizeof s->want.value),
                  "afterwards the result is another");
    ct_context_free(context);
    context = NULL;
    ck_assert_int_eq(allocated.bytes, 0);
    return true;
}

static void sweep(program *run, int threads) {
    static const fault_case modes[] = {
        {.name = "the allocator, once", .kind = FAULT_ALLOCATOR, .may_succeed = true},
        {.name = "the allocator, for ever", .kind = FAULT_ALLOCATOR, .forever = true},
        {.name = "cti_take, once", .kind = FAULT_TAKE},
        {.name = "cti_take, for ever", .kind = FAULT_TAKE, .forever = true, .sparse = 40}};
    static subject s;
    s = (subject){.run = run, .threads = threads};
    ck_assert_msg(run_anew(&s), "without a fault: %s", ct_error_message(context));
    s.want = s.got;
    ck_assert(run_again(&s));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        fault_case f = modes[i];
        f.context = &context, f.arg = &s;
        f.run = run_anew, f.end = check_result, f.again = run_again;
        fault_sweep(&f);
    }
}

/* ---- a training step ---- */

static bool recompute; /* the layers */

static ct_module *model_new(ct_context *c) {
    ct_module *model = ct_module_new(c, "model");
    ct_module_add_child(
        model, "embed",
        ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = 7, .embedding_dim = 8}));
    ct_module_add_child(
        model, "positions",
        ct_positions_new(c, (ct_positions_opts){.max_length = 5, .embed_dim = 8, .learned = true}));
    ct_module_append(model, "layers",
                     ct_encoder_layer_new(c, (ct_layer_opts){.embed_dim = 8,
                                                             .num_heads = 2,
                                                             .hidden = 12,
                                                             .dropout = 0.1,
                                                             .norm_first = true,
                                                             .recompute = recompute}));
    ct_module_append(model, "layers",
                     ct_decoder_layer_new(c, (ct_layer_opts){.embed_dim = 8,
                                                             .num_heads = 2,
                                                             .hidden = 12,
                                                             .activation = CT_GELU,
                                                             .recompute = recompute}));
    ct_module_add_child(model, "head",
                        ct_linear_new(c, (ct_linear_opts){.in_features = 8, .out_features = 7}));
    if (!ct_error(c)) return model;
    ct_module_free(model);
    return NULL;
}

static ct_tensor *model_loss(ct_module *model, ct_tensor *ids, ct_tensor *targets) {
    ct_tensor *x = ct_forward(ct_module_child(model, "positions"),
                              ct_forward(ct_module_child(model, "embed"), ids));
    ct_tensor *memory = ct_encoder_layer_forward(ct_module_child(model, "layers.0"), x,
                                                 (ct_mha_call){.causal = true})
                            .out;
    x = ct_decoder_layer_forward(ct_module_child(model, "layers.1"), x, memory,
                                 (ct_mha_call){.causal = true},
                                 (ct_mha_call){.need_weights = !recompute})
            .out;
    ct_tensor *logits = ct_forward(ct_module_child(model, "head"), x);
    return ct_cross_entropy(ct_view(logits, CT_SHAPE(-1, 7)), targets,
                            (ct_cross_entropy_opts){.label_smoothing = 0.1});
}

static void parameters(ct_module *model, result *out) {
    memset(out, 0, sizeof *out);
    for (ct_param p = {0}; ct_module_next(model, &p); out->count += ct_numel(p.tensor))
        ct_to_f32(p.tensor, out->value + out->count, ct_numel(p.tensor));
}

static bool train(ct_context *c, result *out) {
    static const int64_t ids[] = {1, 2, 3, 4, 5, 6, 0, 1, 2, 3},
                         targets[] = {2, 3, 4, 5, 6, 0, 1, 2, 3, -100};
    result before;
    ct_scope scope = ct_scope_open(c);
    ct_seed(c, 5);
    ct_module *model = model_new(c);
    const ct_adamw_opts opts = {.lr = 0.01, .weight_decay = 0.1, .skip_nonfinite = true};
    ct_optim *optim = ct_adamw_new(model, opts);
    bool done = optim != NULL;
    for (int step = 0; step < 2 && done; step++) {
        ct_scope inner = ct_scope_open(c);
        ct_optim_zero_grad(optim);
        ct_optim_group(optim, "layers.*", (ct_group_opts){.frozen = step == 0});
        bool back = ct_backward(model_loss(model, ct_from_i64(c, CT_SHAPE(2, 5), ids),
                                           ct_from_i64(c, CT_SHAPE(10), targets)));
        ct_clip_grad_norm(model, 1);
        parameters(model, &before);
        const int64_t live = ct_memory(c).live;
        done = ct_optim_step(optim);
        parameters(model, out);
        ck_assert_msg(done || !memcmp(&before, out, sizeof before),
                      "a failed step changed parameters");
        ck_assert_msg(done || ct_memory(c).live == live, "a failed step has kept states");
        ck_assert(!done || (back && !ct_error(c)));
        ct_scope_close(inner);
    }
    done = done && !ct_error(c);
    ct_optim_free(optim);
    ct_module_free(model);
    ct_scope_close(scope);
    return done;
}

START_TEST(a_training_step) { sweep(train, 1); }
END_TEST

START_TEST(a_training_step_with_recompute) {
    recompute = true;
    sweep(train, 1);
}
END_TEST

/* More inputs than a call has on the stack, one inside the other, and a result from outside. */
static ct_tensor *sum_of_ten(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *y = ct_tanh(in[0]);
    for (int i = 1; i < n; i++) y = ct_mul(y, ct_exp(in[i]));
    return ct_linear(y, *(ct_tensor **)arg, NULL);
}
static ct_tensor *twice(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *y = ct_recompute(sum_of_ten, arg, in, n);
    return ct_add(in[0], ct_recompute(sum_of_ten, arg, &y, 1));
}
static bool recompute_twice(ct_context *c, result *out) {
    memset(out, 0, sizeof *out);
    ct_scope scope = ct_scope_open(c);
    ct_seed(c, 5);
    ct_tensor *w = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(3, 3)), true),
              *x = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(2, 3)), true),
              *outside = ct_scale(ct_transpose(w, 0, 1), 2), *in[10];
    for (int i = 0; i < 10; i++) in[i] = ct_scale(x, 0.1 * i);
    ct_tensor *y = ct_recompute(twice, &outside, in, 10);
    const bool done = ct_backward(ct_sum(y, CT_ALL, false)) &&
                      ct_to_f32(ct_grad(x), out->value, 6) &&
                      ct_to_f32(ct_grad(w), out->value + 6, 9);
    ct_scope_close(scope);
    return done;
}

START_TEST(recompute_inside_of_recompute) { sweep(recompute_twice, 1); }
END_TEST

static bool multiply(ct_context *c, result *out) {
    memset(out, 0, sizeof *out);
    ct_scope scope = ct_scope_open(c);
    ct_seed(c, 5);
    ct_tensor *x = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(150, 150)), true),
              *y = ct_tanh(ct_matmul(x, ct_transpose(x, 0, 1)));
    bool done = ct_backward(ct_sum(y, CT_ALL, false)) &&
                ct_to_f32(ct_narrow(ct_grad(x), 0, 0, 20), out->value, 3000);
    ct_scope_close(scope);
    return done;
}

START_TEST(work_on_three_threads) { sweep(multiply, 3); }
END_TEST

/* Weights of more than a few keys, their mean and of each head, with a gradient of their own. */
static bool weigh(ct_context *c, result *out) {
    memset(out, 0, sizeof *out);
    ct_scope scope = ct_scope_open(c);
    ct_seed(c, 5);
    ct_tensor *q = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(1, 2, 130, 3)), true);
    ct_tensor *k = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(1, 1, 140, 3)), true);
    ct_tensor *x = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(1, 140, 6)), true);
    ct_tensor *mask = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(140)), true),
              *leaf[] = {q, k, x, mask};
    ct_tensor *keys =
        ct_gt(ct_view(ct_detach(mask), CT_SHAPE(1, 140)), ct_full(c, CT_F32, CT_SCALAR, -1));
    ct_attention_out y = ct_attention(
        q, k, k,
        (ct_attention_opts){
            .mask = mask, .key_mask = keys, .need_weights = true, .mean_weights = true});
    ct_tensor *ids = ct_zeros(c, CT_I64, CT_SHAPE(1, 140)),
              *few = ct_full(c, CT_I64, CT_SHAPE(1), 130);
    for (int i = 0; ids && i < 140; i++) ct_data_i64(ids)[i] = i / 30 % 2;
    ct_attention_out z = ct_packed_attention(x, 2,
                                             (ct_attention_opts){.causal = true,
                                                                 .mask = mask,
                                                                 .segments = ids,
                                                                 .lengths = few,
                                                                 .window = {90, 0},
                                                                 .softcap = 3,
                                                                 .need_weights = true});
    ct_tensor *root[] = {y.out, y.weights, z.out, z.weights};
    ct_tensor *g[] = {
        ct_randn(c, CT_F32, CT_SHAPE(1, 2, 130, 3)), ct_randn(c, CT_F32, CT_SHAPE(1, 130, 140)),
        ct_randn(c, CT_F32, CT_SHAPE(1, 140, 2)), ct_randn(c, CT_F32, CT_SHAPE(1, 2, 140, 140))};
    bool done = ct_backward_with(root, g, 4, (ct_backward_opts){0});
    for (int i = 0; i < 4 && done; i++) {
        const int64_t n = ct_numel(leaf[i]);
        ct_to_f32(ct_grad(leaf[i]), out->value + out->count, n);
        out->count += n;
    }
    ct_scope_close(scope);
    return done && !ct_error(c);
}

START_TEST(weights_of_attention) { sweep(weigh, 2); }
END_TEST

/* ---- constructors: one that fails leaves no memory behind ---- */

static ct_module *make(ct_context *c, int kind) {
    switch (kind) {
    case 0: return ct_linear_new(c, (ct_linear_opts){.in_features = 3, .out_features = 4});
    case 1:
        return ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = 3, .embedding_dim = 4});
    case 2: return ct_layer_norm_new(c, (ct_layer_norm_opts){.dim = 3});
    case 3: return ct_rms_norm_new(c, (ct_rms_norm_opts){.dim = 3});
    case 4: return ct_dropout_new(c, 0.5);
    case 5: return ct_mlp_new(c, (ct_mlp_opts){.dim = 4});
    case 6: return ct_positions_new(c, (ct_positions_opts){.max_length = 5, .embed_dim = 4});
    case 7:
        return ct_mha_new(
            c, (ct_mha_opts){.embed_dim = 4, .num_heads = 2, .kdim = 3, .add_bias_kv = true});
    case 8: return ct_encoder_layer_new(c, (ct_layer_opts){.embed_dim = 4, .num_heads = 2});
    case 9: return ct_decoder_layer_new(c, (ct_layer_opts){.embed_dim = 4, .num_heads = 2});
    default: return ct_module_new(c, "mine");
    }
}

static ct_module *made;

static void begin_constructor(void *kind) {
    context = new_context(1);
    ct_module_free(make(context, *(int *)kind)); /* a context sets up some things once */
}
static bool construct(void *kind) {
    made = make(context, *(int *)kind);
    return made;
}
static void check_constructor(const fault_end *end, void *kind) {
    (void)kind;
    FAULT_CK(end, end->done == !end->struck);
    ct_error_clear(context);
    ct_module_free(made);
    ck_assert_msg(ct_memory(context).live == end->live,
                  "%d bytes are left behind by a module that was freed",
                  (int)(ct_memory(context).live - end->live));
    ct_context_free(context);
    context = NULL;
    ck_assert_int_eq(allocated.bytes, 0);
}

START_TEST(a_constructor) {
    fault_sweep(&(fault_case){.name = "a constructor",
                              .kind = FAULT_TAKE,
                              .context = &context,
                              .arg = &_i,
                              .begin = begin_constructor,
                              .run = construct,
                              .end = check_constructor});
}
END_TEST

/* ---- files ---- */

static char folder[] = "/tmp/cotangent-faults-XXXXXX", path[64];

static void with_folder(void) {
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model", folder);
}

static int files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(dir);
    return n;
}

static void without_folder(void) {
    unlink(path);
    rmdir(folder);
}

static ct_module *two_layers(ct_context *c, double value) {
    ct_module *model = ct_mlp_new(c, (ct_mlp_opts){.dim = 3});
    for (ct_param p = {0}; model && ct_module_next(model, &p);) ct_init_constant(p.tensor, value);
    return ct_error(c) ? NULL : model;
}

/* A module of ones is saved over one of twos. */
static bool save(ct_context *c, result *out) {
    static const char *metadata[] = {"author", "a test", NULL};
    int64_t at = fault.at;
    fault.at = 0;
    ct_context *plain = ct_context_new((ct_context_opts){.threads = 1});
    ct_save(two_layers(plain, 2), path, (ct_save_opts){0});
    fault.at = at;

    bool done = ct_save(two_layers(c, 1), path, (ct_save_opts){.metadata = metadata});
    fault.at = 0;
    ct_module *check = two_layers(plain, 0);
    ck_assert_msg(ct_load(check, path, (ct_load_opts){0}), "the file is broken: %s",
                  ct_error_message(plain));
    parameters(check, out);
    for (int64_t i = 0; i < out->count; i++)
        ck_assert_msg(out->value[i] == (done ? 1 : 2),
                      "the file is neither the old nor the new one");
    ct_context_free(plain);
    ck_assert_int_eq(files(), 1);
    fault.at = at;
    return done;
}

START_TEST(a_save) { sweep(save, 1); }
END_TEST

static bool load(ct_context *c, result *out) {
    int64_t at = fault.at;
    ct_module *model = two_layers(c, 1);
    bool done = model && ct_load(model, path, (ct_load_opts){0});
    fault.at = 0;
    if (model) {
        parameters(model, out);
        for (int64_t i = 0; i < out->count; i++)
            ck_assert_msg(out->value[i] == (done ? 2 : 1), "a failed load changed a parameter");
    }
    fault.at = at;
    return done;
}

START_TEST(a_load) {
    ct_context *plain = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert(ct_save(two_layers(plain, 2), path, (ct_save_opts){0}));
    ct_context_free(plain);
    sweep(load, 1);
}
END_TEST

static bool save_and_load(ct_context *c, result *out, bool trained) {
    memset(out, 0, sizeof *out);
    ct_module *model = two_layers(c, 1);
    ct_optim *optim = ct_adam_new(model, (ct_adam_opts){0});
    ct_scope scope = ct_scope_open(c);
    ct_backward(ct_sum(ct_forward(model, ct_ones(c, CT_F32, CT_SHAPE(2, 3))), CT_ALL, false));
    ct_optim_step(optim);
    ct_optim_group(optim, "fc.*", (ct_group_opts){.lr_scale = 2});
    bool done =
        ct_checkpoint_save(path, &(ct_checkpoint){.module = model, .optim = optim, .step = 17});
    for (ct_param p = {0}; model && ct_module_next(model, &p);) ct_init_constant(p.tensor, 9);
    ct_optim_group(optim, "*", (ct_group_opts){.frozen = true}); /* no states, until it loads */
    if (trained && model) ct_set_requires_grad(ct_module_get(model, "fc.bias"), false);
    const int64_t live = ct_memory(c).live;
    ct_checkpoint read = {.module = model, .optim = optim, .trained = trained};
    bool loaded = done && ct_checkpoint_load(path, &read);
    if (model) parameters(model, out);
    ck_assert(!loaded || (read.step == 17 && out->value[0] != 9));
    if (done && !loaded) {
        ck_assert_int_eq(read.step, 0);
        ck_assert_int_eq(ct_memory(c).live, live);
        for (int64_t i = 0; i < out->count && !ct_error(c); i++) ck_assert(out->value[i] == 9);
    }
    ct_scope_close(scope);
    return loaded && !ct_error(c);
}

static bool checkpoint(ct_context *c, result *out) { return save_and_load(c, out, false); }
static bool of_trained(ct_context *c, result *out) { return save_and_load(c, out, true); }

START_TEST(a_checkpoint) { sweep(checkpoint, 1); }
END_TEST
START_TEST(a_checkpoint_of_trained) { sweep(of_trained, 1); }
END_TEST

/* ---- changes in place ---- */

/* A call that fails changes nothing; results are copied out. */
static bool write_in_place(ct_context *c, result *out, int which) {
    ct_tensor *x = ct_arange(c, CT_F32, 0, 60, 1), *base = ct_view(x, CT_SHAPE(6, 10));
    ct_tensor *columns = ct_transpose(base, 0, 1), *all = ct_narrow(columns, 0, 1, 6),
              *from = ct_narrow(base, 1, 2, 6);
    if (!x || !from || !all) return false;
    const bool done = which == 0   ? ct_copy_into(all, from)
                      : which == 1 ? ct_lerp_into(all, from, 0.25)
                      : which == 2 ? ct_copy_into(all, ct_causal_mask(c, 6, 6))
                      : which == 3 ? ct_lerp_into(all, ct_clone(ct_select(from, 0, 2)), 0.75)
                      : which == 4 ? ct_add_into(all, from, 0.25)
                      : which == 5 ? ct_add_into(all, ct_causal_mask(c, 6, 6), 2)
                                   : ct_scale_into(ct_narrow(all, 1, 1, 3), 2);
    for (int i = 0; !done && i < 60; i++) ck_assert(ct_data_f32(x)[i] == (float)i);
    out->count += 60;
    memcpy(out->value + out->count - 60, ct_data_f32(x), 60 * sizeof(float));
    return done;
}

static bool in_place(ct_context *c, result *out) {
    memset(out, 0, sizeof *out);
    for (int which = 0; which < 7; which++)
        if (!write_in_place(c, out, which)) return false;
    return true;
}

START_TEST(changes_in_place) { sweep(in_place, 1); }
END_TEST

/* Two appends, the second of views of the first. */
static bool append(ct_context *c, result *out) {
    memset(out, 0, sizeof *out);
    ct_kv_cache *cache = ct_kv_cache_new_of(c, CT_F32, 1, 2, 8, 3);
    ct_tensor *k = ct_view(ct_arange(c, CT_F32, 0, 24, 1), CT_SHAPE(1, 2, 4, 3)), *v = ct_neg(k);
    for (int i = 0; i < 2 && cache && v && !ct_error(c); i++) {
        ct_tensor *const given[2] = {k, v};
        if (ct_kv_cache_append(cache, &k, &v)) continue;
        ck_assert(k == given[0] && v == given[1]);
        ck_assert_int_eq(ct_kv_cache_length(cache), 4 * i);
    }
    const bool done = !ct_error(c) && ct_to_f32(k, out->value, 48) &&
                      ct_to_f32(v, out->value + 48, 48) && ct_kv_cache_length(cache) == 8;
    ct_kv_cache_free(cache);
    return done;
}

START_TEST(appends_to_a_cache) { sweep(append, 1); }
END_TEST

int main(void) {
    return run_cases(
        "faults", CASES({.name = "memory of a step",
                         .tags = "one-thread",
                         .tests = TESTS(TEST(a_training_step), TEST(a_training_step_with_recompute),
                                        TEST(recompute_inside_of_recompute))},
                        {.name = "memory",
                         .tests = TESTS(TEST(work_on_three_threads), TEST(weights_of_attention),
                                        TEST(changes_in_place), TEST(appends_to_a_cache),
                                        LOOP(a_constructor, 11))},
                        {.name = "files",
                         .tags = "one-thread",
                         .before = with_folder,
                         .after = without_folder,
                         .tests = TESTS(TEST(a_save), TEST(a_load), TEST(a_checkpoint),
                                        TEST(a_checkpoint_of_trained))}));
}
