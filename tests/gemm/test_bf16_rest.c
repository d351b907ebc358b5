/* Weights at rest in bf16: products, lookups and modules give the bits of the same module in f32
 * whose matrices were rounded; memory, files, gradients, and refusals. */
#include "tests/support/files.h"

#include "tests/support/cases.h"
#include "tests/support/fault_sweep.h"
#include "src/core/isa.h"

#include <math.h>

/* ---- the two modules ---- */

enum { V = 37, E = 64, HEADS = 4, LAYERS = 2, POSITIONS = 48, MOST = 40000 };

/* A GPT: embedding, positions, blocks, a norm; its head is the embedding. */
static ct_module *gpt(ct_context *c) {
    ct_module *m = ct_module_new(c, "GPT");
    ct_module_add_child(
        m, "wte",
        ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = V, .embedding_dim = E}));
    ct_module_add_child(
        m, "wpe",
        ct_positions_new(
            c, (ct_positions_opts){.max_length = POSITIONS, .embed_dim = E, .learned = true}));
    for (int i = 0; i < LAYERS; i++)
        ct_module_append(m, "h",
                         ct_encoder_layer_new(c, (ct_layer_opts){.embed_dim = E,
                                                                 .num_heads = HEADS,
                                                                 .activation = CT_GELU,
                                                                 .norm_first = true,
                                                                 .gated = i == 1,
                                                                 .attn.separate = i == 1}));
    ct_module_add_child(m, "ln_f", ct_layer_norm_new(c, (ct_layer_norm_opts){.dim = E}));
    ct_module *head = ct_module_new(c, "Head");
    ct_module_add_param(head, "weight", ct_module_get(m, "wte.weight"));
    ct_module_add_child(m, "head", head);
    ct_module_train(m, false);
    return m;
}

/* A table of positions stays f32. */
static bool is_rounded(const char *name, int dims) { return dims == 2 && !strstr(name, "wpe"); }

/* Rounds every matrix of an f32 module that ct_module_to rounds, in place. */
static void round_matrices(ct_module *m) {
    ct_scope scope = ct_scope_open_no_grad(ct_context_of(ct_module_get(m, "wte.weight")));
    for (ct_param p = {0}; ct_module_next(m, &p);)
        if (is_rounded(p.name, ct_ndim(p.tensor)))
            ck_assert(ct_copy_into(p.tensor, ct_cast(ct_cast(p.tensor, CT_BF16), CT_F32)));
    ct_scope_close(scope);
}

/* Logits (B, T, V), and the loss of them behind. With caches T is decoded token by token. */
static int64_t run(ct_module *m, int64_t batch, int64_t length, bool cached, float out[MOST]) {
    ct_tensor *head = ct_module_get(m, "wte.weight");
    ct_context *c = ct_context_of(head);
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_kv_cache *caches[LAYERS] = {0};
    int64_t n = 0;
    for (int i = 0; i < LAYERS && cached; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%d.self_attn", i);
        caches[i] = ct_kv_cache_new(ct_module_child(m, name), batch, length);
    }
    const int64_t step = cached ? 1 : length;
    for (int64_t first = 0; first < length; first += step) {
        ct_tensor *ids = ct_empty(c, CT_I64, CT_SHAPE(batch, step));
        for (int64_t i = 0; i < batch * step; i++)
            ct_data_i64(ids)[i] = (7 * (i / step) + 3 * (first + i % step)) % V;
        ct_tensor *x = ct_positions_forward(ct_module_child(m, "wpe"),
                                            ct_forward(ct_module_child(m, "wte"), ids), first);
        for (int i = 0; i < LAYERS; i++) {
            char name[32];
            snprintf(name, sizeof name, "h.%d", i);
            x = ct_encoder_layer_forward(ct_module_child(m, name), x,
                                         (ct_mha_call){.causal = true, .cache = caches[i]})
                    .out;
        }
        x = ct_forward(ct_module_child(m, "ln_f"), x);
        ct_tensor *y = ct_linear(x, head, NULL);
        ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
        ck_assert(n + ct_numel(y) < MOST && ct_to_f32(y, out + n, ct_numel(y)));
        n += ct_numel(y);
        ct_tensor *loss = ct_linear_cross_entropy(ct_reshape(x, CT_SHAPE(batch * step, E)), head,
                                                  ct_reshape(ids, CT_SHAPE(batch * step)),
                                                  (ct_cross_entropy_opts){0});
        out[n++] = (float)ct_item(loss);
    }
    for (int i = 0; i < LAYERS && cached; i++) ct_kv_cache_free(caches[i]);
    ct_scope_close(scope);
    return n;
}

static void same_bits(const char *what, int64_t n, const float *a, const float *b) {
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(!memcmp(&a[i], &b[i], sizeof *a), "%s: number %d is %.9g and %.9g", what,
                      (int)i, (double)a[i], (double)b[i]);
}

/* Each instruction set, 1 and 3 threads, each precision of products. */
START_TEST(modules_have_the_bits_of_rounded_f32) {
    static float want[MOST], got[MOST];
    static const ct_matmul_precision precision[] = {CT_MATMUL_F32, CT_MATMUL_BF16,
                                                    CT_MATMUL_BF16X3};
    for (int i = 0; cti_isa_at(i); i++) {
        for (int t = 0; t < 6; t++) {
            ct_context *c = ct_context_new((ct_context_opts){.seed = 5,
                                                             .threads = t % 2 ? 3 : 1,
                                                             .isa = cti_isa_at(i)->name,
                                                             .matmul = precision[t / 2]});
            ct_module *m = gpt(c);
            round_matrices(m);
            const int64_t sizes[][2] = {{1, 5}, {3, 7}, {2, 40}};
            for (int s = 0; s < 3; s++) {
                for (int cached = 0; cached < 2; cached++) {
                    const int64_t n = run(m, sizes[s][0], sizes[s][1], cached, want);
                    ck_assert(ct_module_to(m, CT_BF16));
                    ck_assert_int_eq(ct_dtype_of(ct_module_get(m, "h.0.linear1.weight")), CT_BF16);
                    ck_assert_int_eq(ct_dtype_of(ct_module_get(m, "h.0.linear1.bias")), CT_F32);
                    ck_assert_int_eq(n, run(m, sizes[s][0], sizes[s][1], cached, got));
                    same_bits(cti_isa_at(i)->name, n, want, got);
                    ck_assert(ct_module_to(m, CT_F32));
                }
            }
            ct_context_free(c);
        }
    }
}
END_TEST

/* ---- products of any size and stride ---- */

static ct_tensor *rounded(ct_tensor *x) { return ct_cast(ct_cast(x, CT_BF16), CT_F32); }

static void same_tensors(const char *what, ct_tensor *a, ct_tensor *b) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s: %s", what, ct_error_message(context));
    const int64_t n = ct_numel(a);
    float *x = malloc(sizeof *x * (size_t)(n + 1)), *y = malloc(sizeof *y * (size_t)(n + 1));
    ck_assert_int_eq(n, ct_numel(b));
    ck_assert(ct_to_f32(a, x, n) && ct_to_f32(b, y, n));
    same_bits(what, n, x, y);
    free(x), free(y);
}

START_TEST(linear_of_any_size) {
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 17, 5},     {5, 3, 1},     {70, 40, 1},
                                       {1, 800, 33},  {7, 800, 33},   {33, 1700, 3}, {2, 6, 9},
                                       {40, 100, 65}, {200, 130, 90}, {8, 8, 8},     {0, 4, 3},
                                       {3, 0, 4},     {64, 1600, 16}, {13, 512, 600}};
    for (int i = 0; cti_isa_at(i); i++) {
        ct_context_free(context);
        context = ct_context_new(
            (ct_context_opts){.seed = 2, .threads = 1 + i % 3, .isa = cti_isa_at(i)->name});
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
            char what[64];
            snprintf(what, sizeof what, "%s %d x %d by %d", cti_isa_at(i)->name, (int)m, (int)k,
                     (int)n);
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(m, k)),
                      *w = ct_randn(context, CT_F32, CT_SHAPE(n, k)),
                      *b = ct_randn(context, CT_F32, CT_SHAPE(n)),
                      *r = ct_randn(context, CT_F32, CT_SHAPE(m, n)), *half = ct_cast(w, CT_BF16);
            w = rounded(w);
            same_tensors(what, ct_linear(x, w, b), ct_linear(x, half, b));
            same_tensors(what, ct_activated_linear(x, CT_SILU, w, b, r),
                         ct_activated_linear(x, CT_SILU, half, b, r));
            /* W strided: of every other row, and transposed */
            same_tensors(
                what, ct_linear(x, ct_transpose(ct_clone(ct_transpose(w, 0, 1)), 0, 1), b),
                ct_linear(x, ct_transpose(ct_contiguous(ct_transpose(half, 0, 1)), 0, 1), b));
            ct_scope_close(scope);
        }
    }
}
END_TEST

START_TEST(gradients_pass_to_x) {
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F32, CT_SHAPE(5, 24)), true),
              *w = ct_randn(context, CT_F32, CT_SHAPE(30, 24)), *half = ct_cast(w, CT_BF16);
    w = rounded(w);
    ct_tensor *grad[2];
    for (int i = 0; i < 2; i++) {
        ct_tensor *y = ct_linear(
            ct_activated_linear(x, CT_GELU, ct_narrow(i ? half : w, 0, 0, 24), NULL, NULL),
            i ? half : w, NULL);
        ct_tensor *ids = ct_arange(context, CT_I64, 0, 5, 1);
        ct_tensor *loss =
            ct_add(ct_sum(ct_mul(y, y), CT_ALL, false),
                   ct_linear_cross_entropy(x, i ? half : w, ids, (ct_cross_entropy_opts){0}));
        ck_assert(ct_backward(loss));
        grad[i] = ct_clone(ct_grad(x));
        ct_zero_grad(x);
    }
    same_tensors("dx", grad[0], grad[1]);
}
END_TEST

/* ---- memory ---- */

START_TEST(half_the_memory) {
    const int64_t before = ct_memory(context).live;
    ct_module *m =
        ct_linear_new(context, (ct_linear_opts){.in_features = 1 << 10, .out_features = 1 << 10});
    const int64_t wide = ct_memory(context).live - before;
    ck_assert(ct_module_to(m, CT_BF16));
    const int64_t narrow = ct_memory(context).live - before;
    ck_assert_int_ge(wide, 4 << 20);
    ck_assert_int_le(2 * narrow, wide + (64 << 10)); /* blocks may be an eighth larger */
    ck_assert(ct_module_to(m, CT_F32));
    ck_assert_int_le(ct_memory(context).live - before, wide + (1 << 10));
}
END_TEST

typedef struct {
    ct_context *c;
    ct_module *model;
    bool to_f32;
} conversion;

static void begin_conversion(void *arg) {
    conversion *t = arg;
    t->c = ct_context_new(
        (ct_context_opts){.seed = 1, .threads = 1, .allocator = {allocate, release, NULL}});
    t->model = gpt(t->c);
    if (t->to_f32) ck_assert(ct_module_to(t->model, CT_BF16));
}
static bool convert(void *arg) {
    const conversion *t = arg;
    return t->to_f32 ? ct_module_to(t->model, CT_F32) : ct_module_to(t->model, CT_BF16);
}
static void check_conversion(const fault_end *end, void *arg) {
    conversion *t = arg;
    const ct_dtype is = end->done != t->to_f32 ? CT_BF16 : CT_F32;
    for (ct_param p = {0}; ct_module_next(t->model, &p);) {
        FAULT_CK(end,
                 ct_dtype_of(p.tensor) == (is_rounded(p.name, ct_ndim(p.tensor)) ? is : CT_F32));
        FAULT_CK(end, ct_requires_grad(p.tensor) == (ct_dtype_of(p.tensor) == CT_F32));
    }
    ct_context_free(t->c);
    t->c = NULL;
}

/* Memory that is refused at any point changes nothing. */
START_TEST(refused_memory_changes_nothing) {
    for (int to_f32 = 0; to_f32 < 2; to_f32++) {
        conversion t = {.to_f32 = to_f32};
        fault_sweep(&(fault_case){.name = to_f32 ? "to_f32" : "to_bf16",
                                  .kind = FAULT_ALLOCATOR,
                                  .forever = true,
                                  .context = &t.c,
                                  .arg = &t,
                                  .begin = begin_conversion,
                                  .run = convert,
                                  .end = check_conversion,
                                  .most = 1000});
    }
}
END_TEST

/* ---- rounding, reading, printing ---- */

START_TEST(cast_rounds_to_nearest_even) {
    const float x[] = {1,       1.00390625F, 1.01171875F, -3.14159F, 0x1p-133F, 0x1.8p-134F,
                       3.4e38F, 3.39e38F,    INFINITY,    -0.0F,     NAN};
    const uint16_t bits[] = {0x3F80, 0x3F80, 0x3F82, 0xC049, 0x0001, 0x0001,
                             0x7F80, 0x7F7F, 0x7F80, 0x8000, 0x7FC0};
    enum { N = sizeof x / sizeof *x };
    ct_tensor *half = ct_cast(ct_from_f32(context, CT_SHAPE(N), x), CT_BF16);
    for (int i = 0; i < N; i++) ck_assert_int_eq(ct_data_bf16(half)[i], bits[i]);
    /* f64 is rounded once, not by way of f32: just above the tie between 1 and the next bf16 */
    ct_tensor *wide = ct_full(context, CT_F64, CT_SCALAR, 1.00390625 + 0x1p-40);
    ck_assert_int_eq(ct_data_bf16(ct_cast(wide, CT_BF16))[0], 0x3F81);
    ck_assert(ct_item(ct_cast(ct_full(context, CT_I64, CT_SCALAR, -257), CT_BF16)) == -256);
    ck_assert(ct_item(ct_full(context, CT_BF16, CT_SCALAR, 0.1)) == 0.10009765625);
    float read[N];
    ck_assert(ct_to_f32(half, read, N) && read[3] == -3.140625F && isnan(read[N - 1]));
    char text[256] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    ct_print(ct_full(context, CT_BF16, CT_SHAPE(2), 1.5), file);
    fclose(file);
    ck_assert_str_eq(text, "tensor([1.5000, 1.5000], shape=(2), dtype=bf16)\n");
}
END_TEST

/* ---- files ---- */

static void same_parameters(ct_module *a, ct_module *b) {
    ct_param p = {0}, q = {0};
    while (ct_module_next(a, &p)) {
        ck_assert(ct_module_next(b, &q) && !strcmp(p.name, q.name));
        ck_assert_int_eq(ct_dtype_of(p.tensor), ct_dtype_of(q.tensor));
        same_tensors(p.name, p.tensor, q.tensor);
    }
}

START_TEST(saved_and_loaded_as_they_are) {
    const char *path = in_folder("bf16.safetensors");
    ct_module *m = gpt(context), *other = gpt(context), *wide = gpt(context);
    ck_assert(ct_save(m, in_folder("f32.safetensors"), (ct_save_opts){0}));
    ck_assert(ct_module_to(m, CT_BF16) && ct_module_to(other, CT_BF16));
    ck_assert(ct_save(m, path, (ct_save_opts){0}));
    ct_safetensors *file = ct_safetensors_open(context, path);
    int of_bf16 = 0;
    for (ct_safetensors_entry e = {0}; ct_safetensors_next(file, &e);) {
        ck_assert_str_eq(e.dtype, is_rounded(e.name, e.shape.ndim) ? "BF16" : "F32");
        of_bf16 += is_rounded(e.name, e.shape.ndim);
    }
    ct_safetensors_close(file);
    ck_assert_int_gt(of_bf16, 10);
    ck_assert(ct_load(other, path, (ct_load_opts){0}));
    same_parameters(m, other);
    /* a file of f32 is rounded, as ct_module_to does; one of bf16 is exact in f32 */
    ck_assert(ct_load(other, in_folder("f32.safetensors"), (ct_load_opts){0}));
    same_parameters(m, other);
    ck_assert(ct_load(wide, path, (ct_load_opts){0}));
    ck_assert(ct_module_to(m, CT_F32));
    same_parameters(m, wide);
    /* as f32 and f16 */
    ck_assert(ct_save(other, path, (ct_save_opts){.floats = CT_FILE_F32}));
    ck_assert(ct_load(wide, path, (ct_load_opts){0}));
    same_parameters(m, wide);
    ck_assert(ct_save(other, path, (ct_save_opts){.floats = CT_FILE_F16}));
    ck_assert(ct_load(other, path, (ct_load_opts){0}));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

START_TEST(a_nan_keeps_its_bits_in_a_file) {
    uint16_t bits[] = {0x7F81, 0xFFC1, 0x0001, 0x3F80}, back[4];
    ct_module *m = ct_module_new(context, "M");
    ct_tensor *w = ct_wrap(context, CT_BF16, CT_SHAPE(2, 2), NULL, bits);
    ct_module_add_param(m, "w", w);
    ck_assert(ct_save(m, in_folder("nan"), (ct_save_opts){0}));
    memcpy(back, bits, sizeof back);
    memset(bits, 0, sizeof bits);
    ck_assert(ct_load(m, in_folder("nan"), (ct_load_opts){0}));
    ck_assert(!memcmp(back, bits, sizeof back));
}
END_TEST

/* ---- the tree ---- */

START_TEST(clones_and_tied_weights) {
    ct_module *m = gpt(context);
    ct_tensor *tied = ct_module_get(m, "wte.weight");
    ck_assert(ct_module_to(m, CT_BF16));
    ck_assert_ptr_eq(ct_module_get(m, "head.weight"), tied);
    ck_assert_ptr_eq(ct_module_get(m, "wte.weight"), tied);
    ct_module *copy = ct_module_clone(m);
    same_parameters(m, copy);
    ck_assert_ptr_eq(ct_module_get(copy, "wte.weight"), ct_module_get(copy, "head.weight"));
    ck_assert(ct_module_get(copy, "wte.weight") != tied);
    ck_assert(!ct_requires_grad(ct_module_get(copy, "wte.weight")));
    ck_assert(ct_module_to(m, CT_BF16)); /* again: nothing to do */
    ck_assert(ct_module_to(copy, CT_F32) && ct_requires_grad(ct_module_get(copy, "wte.weight")));
    ck_assert_int_eq(ct_dtype_of(tied), CT_BF16);
}
END_TEST

/* A graph that was recorded before keeps the values that it saved. */
START_TEST(a_recorded_graph_goes_on) {
    ct_module *m = ct_linear_new(context, (ct_linear_opts){.in_features = 8, .out_features = 3});
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F32, CT_SHAPE(2, 8)), true);
    ct_tensor *want = ct_matmul(ct_ones(context, CT_F32, CT_SHAPE(2, 3)),
                                ct_clone(ct_detach(ct_module_get(m, "weight"))));
    ct_tensor *loss = ct_sum(ct_forward(m, x), CT_ALL, false);
    ck_assert(ct_module_to(m, CT_BF16));
    ck_assert(ct_backward(loss));
    same_tensors("dx", ct_grad(x), want);
    ck_assert_ptr_null(ct_grad(ct_module_get(m, "weight")));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

/* ---- what is refused ---- */

static void refused(bool done, ct_status status, const char *says) {
    ck_assert_msg(!done, "accepted; it should say %s", says);
    ck_assert_msg(ct_error(context) == status && strstr(ct_error_message(context), says),
                  "%d, \"%s\" does not say \"%s\"", (int)ct_error(context),
                  ct_error_message(context), says);
    ct_error_clear(context);
}

START_TEST(not_trained) {
    ct_module *m = gpt(context);
    ct_optim *before = ct_adamw_new(m, (ct_adamw_opts){.lr = 1e-3});
    ck_assert(ct_module_to(m, CT_BF16));
    refused(ct_optim_step(before), CT_ERR_DTYPE, "wte.weight is bf16, which is not trained");
    refused(ct_adamw_new(m, (ct_adamw_opts){.lr = 1e-3}), CT_ERR_DTYPE, "wte.weight is bf16");
    refused(ct_sgd_new(ct_module_child(m, "h"), (ct_sgd_opts){.lr = 1e-3}), CT_ERR_DTYPE,
            "0.self_attn.in_proj_weight is bf16");
    refused(ct_set_requires_grad(ct_module_get(m, "wte.weight"), true), CT_ERR_DTYPE,
            "wte.weight is bf16, which has no gradient");
    refused(ct_module_to(m, CT_F64), CT_ERR_DTYPE, "to f32, bf16, q8_0 or q4_0, not to f64");
    refused(ct_module_to(m, (ct_dtype)99), CT_ERR_DTYPE, "not to another dtype");
    ck_assert(ct_module_to(m, CT_F32) && ct_optim_step(before));
    refused(ct_cast(ct_module_get(m, "wte.weight"), CT_BF16), CT_ERR_GRAD,
            "no gradient flows through bf16");
    refused(ct_module_to(ct_linear_new(context, (ct_linear_opts){.in_features = 2,
                                                                 .out_features = 2,
                                                                 .dtype = CT_F64}),
                         CT_BF16),
            CT_ERR_DTYPE, "the parameter weight is f64");
    refused(ct_linear_new(context,
                          (ct_linear_opts){.in_features = 2, .out_features = 2, .dtype = CT_BF16}),
            CT_ERR_DTYPE, "bf16");
    ct_tensor *wide = ct_ones(context, CT_F64, CT_SHAPE(2, 2)),
              *half = ct_ones(context, CT_BF16, CT_SHAPE(2, 2)),
              *f32 = ct_ones(context, CT_F32, CT_SHAPE(2, 2));
    refused(ct_linear(wide, half, NULL), CT_ERR_DTYPE, "f64 and bf16");
    refused(ct_linear(half, f32, NULL), CT_ERR_DTYPE, "does not take bf16");
    refused(ct_linear(f32, f32, ct_ones(context, CT_BF16, CT_SHAPE(2))), CT_ERR_DTYPE, "bf16");
    refused(ct_matmul(f32, half), CT_ERR_DTYPE, "bf16");
    refused(ct_arange(context, CT_BF16, 0, 3, 1), CT_ERR_DTYPE, "bf16");
    refused(ct_linspace(context, CT_BF16, 0, 3, 4), CT_ERR_DTYPE, "bf16");
    refused(ct_randn(context, CT_BF16, CT_SHAPE(2)), CT_ERR_DTYPE, "bf16");
    refused(ct_lerp_into(half, half, 0.5), CT_ERR_DTYPE, "bf16");
    refused(ct_kv_cache_new_of(context, CT_BF16, 1, 1, 2, 2), CT_ERR_DTYPE, "bf16");
}
END_TEST

/* Freezes the parameters of bf16; returns how many there are. */
static int freeze_halves(ct_module *m) {
    int n = 0;
    for (ct_param p = {0}; ct_module_next(m, &p);) {
        if (ct_dtype_of(p.tensor) != CT_BF16) continue;
        ck_assert_ptr_nonnull(ct_set_requires_grad(p.tensor, false));
        n++;
    }
    return n;
}

/* An optimiser leaves out parameters of bf16 that the program has frozen, before or after they were
 * converted, and trains the others. */
START_TEST(frozen_ones_are_left_out) {
    for (int before = 0; before < 2; before++) {
        ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 4, .hidden = 6});
        ct_tensor *w = ct_module_get(m, "fc.weight"), *bias = ct_module_get(m, "fc.bias");
        if (before)
            for (ct_param p = {0}; ct_module_next(m, &p);)
                ct_set_requires_grad(p.tensor, ct_ndim(p.tensor) < 2);
        ck_assert(ct_module_to(m, CT_BF16));
        if (!before) {
            refused(ct_adamw_new(m, (ct_adamw_opts){0}), CT_ERR_DTYPE, "fc.weight is bf16");
            ck_assert_int_eq(freeze_halves(m), 2);
        }
        ct_module *clone = ct_module_clone(m);
        ct_optim *optim = ct_adamw_new(m, (ct_adamw_opts){.lr = 0.1, .weight_decay = 0.1});
        ck_assert(optim && clone && ct_adamw_new(clone, (ct_adamw_opts){0}));
        ct_tensor *w0 = ct_clone(w), *bias0 = ct_clone(ct_detach(bias)),
                  *x = ct_randn(context, CT_F32, CT_SHAPE(3, 4));
        ck_assert(ct_backward(ct_sum(ct_forward(m, x), CT_ALL, false)) && ct_optim_step(optim));
        ck_assert_mem_eq(ct_data_bf16(w), ct_data_bf16(w0), 24 * sizeof(uint16_t));
        for (int i = 0; i < 6; i++) ck_assert(ct_data_f32(bias)[i] != ct_data_f32(bias0)[i]);
        refused(ct_optim_group(optim, "*.weight", (ct_group_opts){0}), CT_ERR_ARGUMENT,
                "no parameter is called");
        ck_assert(ct_optim_group(optim, "*.bias", (ct_group_opts){.frozen = true}));
        ck_assert(ct_module_to(m, CT_F32)); /* they require a gradient again */
        refused(ct_optim_step(optim), CT_ERR_ARGUMENT,
                "fc.weight has been added since the optimiser was made");
        ck_assert(ct_module_to(m, CT_BF16));
        refused(ct_optim_step(optim), CT_ERR_DTYPE, "fc.weight is bf16");
        freeze_halves(m);
        ck_assert(ct_optim_step(optim));
        for (ct_param p = {0}; ct_module_next(m, &p);) ct_set_requires_grad(p.tensor, false);
        ct_optim_free(optim);
        ck_assert_ptr_nonnull(ct_sgd_new(m, (ct_sgd_opts){0})); /* the biases have no gradient */
    }
    ct_module *m = ct_linear_new(
        context, (ct_linear_opts){.in_features = 2, .out_features = 3, .no_bias = true});
    ck_assert(ct_module_to(m, CT_BF16) && freeze_halves(m) == 1);
    refused(ct_sgd_new(m, (ct_sgd_opts){0}), CT_ERR_ARGUMENT,
            "the Linear has no parameter that is trained");
}
END_TEST

/* Every line of ops.def with inputs of bf16, one of them and all: an error about dtypes, or
 * the result that f32 gives. Under a sanitizer a misread of memory ends the test. */
START_TEST(every_op_takes_it_or_says_so) {
    for (int line = 0; line < case_count(); line++) {
        const case_line *l = case_at(line);
        for (int which = -1; which < 4; which++) {
            case_input specs[CASE_INPUTS];
            ct_tensor *in[CASE_INPUTS] = {0}, *wide[CASE_INPUTS] = {0};
            const int n = case_inputs(l, 0, 1, specs);
            ct_scope scope = ct_scope_open_no_grad(context);
            ck_assert(which >= n || case_build(context, specs, n,
                                               (case_build_opts){.dtype = CT_F32, .seed = 3}, in));
            bool any = false;
            for (int i = 0; i < n && which < n; i++)
                if (in[i] && ct_dtype_of(in[i]) == CT_F32 && (which < 0 || which == i)) {
                    in[i] = ct_cast(in[i], CT_BF16);
                    any = true;
                }
            for (int i = 0; i < n && which < n; i++)
                wide[i] = in[i] && ct_dtype_of(in[i]) == CT_BF16 ? ct_cast(in[i], CT_F32) : in[i];
            if (any) {
                ct_tensor *y = l->run(context, in);
                ck_assert_msg(y ? ct_error(context) == CT_OK : ct_error(context) == CT_ERR_DTYPE,
                              "%s: %d, %s", l->call, (int)ct_error(context),
                              ct_error_message(context));
                ck_assert(y || strstr(ct_error_message(context), "bf16"));
                if (y) same_tensors(l->call, l->run(context, wide), y);
                ct_error_clear(context);
            }
            ct_scope_close(scope);
        }
    }
}
END_TEST

int main(void) {
    return run_tests("bf16_rest", setup, teardown,
                     TESTS(TEST(modules_have_the_bits_of_rounded_f32), TEST(linear_of_any_size),
                           TEST(gradients_pass_to_x), TEST(half_the_memory),
                           TEST(refused_memory_changes_nothing), TEST(cast_rounds_to_nearest_even),
                           TEST(saved_and_loaded_as_they_are), TEST(a_nan_keeps_its_bits_in_a_file),
                           TEST(clones_and_tied_weights), TEST(a_recorded_graph_goes_on),
                           TEST(not_trained), TEST(frozen_ones_are_left_out),
                           TEST(every_op_takes_it_or_says_so)));
}
