/* Modules: names and their order, sharing, initialisation, printing, the layers of torch, and what goes wrong. */
#include <check.h>
#include <cotangent/cotangent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static ct_context *context;

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1}); }
static void teardown(void) { ct_context_free(context); }

static void no_error(void) { ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context)); }

static void expect(ct_status status, const char *word1, const char *word2) {
    const char *message = ct_error_message(context);
    ck_assert_msg(ct_error(context) == status, "status %d: %s", (int)ct_error(context), message);
    ck_assert_msg(strstr(message, word1) && strstr(message, word2), "\"%s\" names not both %s and %s", message, word1, word2);
    ct_error_clear(context);
}

static void names_are(const ct_module *module, const char *const *names) {
    no_error();
    ct_param param = {0};
    for (; *names; names++) {
        ck_assert_msg(ct_module_next(module, &param), "no %s", *names);
        ck_assert_str_eq(param.name, *names);
        ck_assert_ptr_eq(ct_module_get((ct_module *)module, *names), param.tensor);
    }
    ck_assert_msg(!ct_module_next(module, &param), "%s is one too many", param.name);
    ck_assert(!ct_module_next(module, &param));
}
#define NAMES(module, ...) names_are(module, (const char *const[]){__VA_ARGS__, NULL})

static void shape_is(ct_module *module, const char *name, ct_shape shape) {
    ct_tensor *tensor = ct_module_get(module, name);
    no_error();
    ct_shape got = ct_shape_of(tensor);
    ck_assert_int_eq(got.ndim, shape.ndim);
    for (int d = 0; d < shape.ndim; d++) ck_assert_int_eq(got.dim[d], shape.dim[d]);
}

static double *values(ct_tensor *t) {   /* the caller frees them */
    no_error();
    ck_assert_ptr_nonnull(t);
    double *out = malloc(sizeof(double) * (size_t)(ct_numel(t) + 1));
    ck_assert(ct_to_f64(t, out, ct_numel(t)));
    return out;
}

static double largest(ct_tensor *t) {
    double *v = values(t), most = 0;
    for (int64_t i = 0; i < ct_numel(t); i++) most = fmax(most, fabs(v[i]));
    free(v);
    return most;
}

static double distance(ct_tensor *a, ct_tensor *b) {
    ck_assert_int_eq(ct_numel(a), ct_numel(b));
    return largest(ct_sub(a, b));
}

static ct_tensor *randn(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

static ct_tensor *identity(void *self, ct_tensor *x) { return (void)self, x; }
static ct_tensor *nothing(void *self, ct_tensor *x) { return (void)self, (void)x, NULL; }
static ct_tensor *twice(void *self, ct_tensor *x) { return ct_forward(self, ct_forward(self, x)); }

/* ---- the tree ---- */

START_TEST(names_are_torchs_in_torchs_order) {
    ct_layer_opts layer = {.embed_dim = 8, .num_heads = 2, .hidden = 16};
    NAMES(ct_encoder_layer_new(context, layer), "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
          "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight", "norm1.bias",
          "norm2.weight", "norm2.bias");
    NAMES(ct_decoder_layer_new(context, layer), "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
          "self_attn.out_proj.bias", "multihead_attn.in_proj_weight", "multihead_attn.in_proj_bias", "multihead_attn.out_proj.weight",
          "multihead_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight", "norm1.bias",
          "norm2.weight", "norm2.bias", "norm3.weight", "norm3.bias");
    layer.no_bias = true;
    NAMES(ct_encoder_layer_new(context, layer), "self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight",
          "norm1.weight", "norm2.weight");
    ct_module *mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .kdim = 4, .vdim = 6, .add_bias_kv = true});
    NAMES(mha, "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias");
    shape_is(mha, "k_proj_weight", CT_SHAPE(8, 4));
    shape_is(mha, "v_proj_weight", CT_SHAPE(8, 6));
    shape_is(mha, "in_proj_bias", CT_SHAPE(24));
    shape_is(mha, "bias_v", CT_SHAPE(1, 1, 8));
    ct_module *grouped = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 4, .num_kv_heads = 2});
    shape_is(grouped, "k_proj_weight", CT_SHAPE(4, 8));
    shape_is(grouped, "in_proj_bias", CT_SHAPE(16));
    NAMES(ct_mlp_new(context, (ct_mlp_opts){.dim = 4}), "fc.weight", "fc.bias", "proj.weight", "proj.bias");
}
END_TEST

START_TEST(counts) {
    for (int64_t d = 8; d <= 64; d *= 2)
        ck_assert_int_eq(ct_module_count(ct_mha_new(context, (ct_mha_opts){.embed_dim = d, .num_heads = 4})), 4 * d * d + 4 * d);
    ck_assert_int_eq(ct_module_count(ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 4, .no_bias = true})), 4 * 64);
    ck_assert_int_eq(ct_module_count(ct_mlp_new(context, (ct_mlp_opts){.dim = 5})), 5 * 20 + 20 + 20 * 5 + 5);
    ck_assert_int_eq(ct_module_count(NULL), 0);
}
END_TEST

START_TEST(lists_and_nested_names) {
    ct_module *gpt = ct_module_new(context, "GPT");
    for (int i = 0; i < 12; i++) ck_assert_ptr_nonnull(ct_module_append(gpt, "h", ct_linear_new(context, (ct_linear_opts){2, 2, i != 11, 0})));
    ct_module *tail = ct_module_add_child(gpt, "ln_f", ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 2}));
    ct_tensor *own = ct_module_add_param(gpt, "own", ct_zeros(context, CT_F32, CT_SHAPE(3)));
    NAMES(gpt, "own", "h.0.weight", "h.1.weight", "h.2.weight", "h.3.weight", "h.4.weight", "h.5.weight", "h.6.weight", "h.7.weight",
          "h.8.weight", "h.9.weight", "h.10.weight", "h.11.weight", "h.11.bias", "ln_f.weight", "ln_f.bias");
    ck_assert_ptr_eq(ct_module_child(gpt, "ln_f"), tail);
    ck_assert_ptr_nonnull(ct_module_child(gpt, "h.11"));
    ck_assert_ptr_eq(ct_module_get(gpt, "own"), own);
    NAMES(ct_module_child(gpt, "h.11"), "weight", "bias");
    ck_assert_ptr_null(ct_module_child(gpt, "h.12"));
    expect(CT_ERR_ARGUMENT, "GPT", "h.12");
    ck_assert_ptr_null(ct_module_get(gpt, "h.0.weigh"));
    expect(CT_ERR_ARGUMENT, "GPT", "h.0.weigh");
    ck_assert_ptr_null(ct_module_append(gpt, "ln_f", ct_module_new(context, "X")));
    expect(CT_ERR_ARGUMENT, "ln_f", "not a list");
    ct_module_free(ct_module_child(gpt, "h.11"));   /* a child that has a parent leaves it */
    ck_assert_ptr_null(ct_module_child(gpt, "h.11"));
    ct_error_clear(context);
    ck_assert_int_eq(ct_module_count(gpt), 3 + 11 * 4 + 4);
}
END_TEST

START_TEST(bad_names) {
    ct_module *m = ct_module_new(context, "M");
    ct_tensor *t = ct_zeros(context, CT_F32, CT_SHAPE(2));
    ct_module_add_param(m, "w", t);
    ct_module_add_child(m, "c", ct_module_new(context, "C"));
    const char *bad[] = {"", "a.b", "w", "c", NULL};
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_null(ct_module_add_param(m, bad[i], ct_zeros(context, CT_F32, CT_SHAPE(2))));
        expect(CT_ERR_ARGUMENT, "M: ", "");
        ck_assert_ptr_null(ct_module_add_child(m, bad[i], ct_module_new(context, "C")));
        expect(CT_ERR_ARGUMENT, "M: ", "");
        if (i == 2 || i == 3) continue;
        ck_assert_ptr_null(ct_module_append(m, bad[i], ct_module_new(context, "C")));
        expect(CT_ERR_ARGUMENT, "M: ", "");
    }
    char name[257];
    memset(name, 'n', sizeof name);
    name[256] = 0;
    ck_assert_ptr_null(ct_module_add_param(m, name, t));
    expect(CT_ERR_ARGUMENT, "M: ", "256");
    name[255] = 0;
    ck_assert_ptr_nonnull(ct_module_add_param(m, name, t));   /* as long as can be; it is another name of w */
    ct_param param = {0};
    ck_assert(ct_module_next(m, &param) && !ct_module_next(m, &param));
    ct_module *outer = ct_module_new(context, "Outer");
    ck_assert_ptr_null(ct_module_add_child(outer, "m", m));   /* "m." + 255 */
    expect(CT_ERR_ARGUMENT, "Outer", "257");

    ct_module *deep = ct_module_new(context, "Deep"), *at = deep;
    int depth = 0;
    for (ct_module *next; (next = ct_module_add_child(at, "x", ct_module_new(context, "Deep"))); at = next) depth++;
    expect(CT_ERR_ARGUMENT, "Deep", "");
    ck_assert_int_le(depth, 128);
    ck_assert_int_ge(depth, 100);
}
END_TEST

START_TEST(no_cycles_and_one_parent) {
    ct_module *a = ct_module_new(context, "A"), *b = ct_module_new(context, "B"), *c = ct_module_new(context, "C");
    ck_assert_ptr_null(ct_module_add_child(a, "self", a));
    expect(CT_ERR_ARGUMENT, "A", "itself");
    ct_module_add_child(a, "b", b);
    ct_module_add_child(b, "c", c);
    ck_assert_ptr_null(ct_module_add_child(c, "a", a));
    expect(CT_ERR_ARGUMENT, "C", "itself");
    ck_assert_ptr_null(ct_module_add_child(a, "c", c));
    expect(CT_ERR_ARGUMENT, "A", "parent");
    ck_assert_ptr_null(ct_module_add_child(a, "n", NULL));
    expect(CT_ERR_ARGUMENT, "A", "NULL");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert_ptr_null(ct_module_add_child(a, "o", ct_module_new(other, "O")));
    expect(CT_ERR_ARGUMENT, "A", "context");
    ck_assert_ptr_null(ct_module_add_param(a, "o", ct_zeros(other, CT_F32, CT_SHAPE(1))));
    expect(CT_ERR_ARGUMENT, "A", "context");
    ct_context_free(other);
    ct_module_free(NULL);
    ct_module_free(a);
}
END_TEST

START_TEST(what_a_parameter_may_be) {
    ct_module *m = ct_module_new(context, "M");
    ck_assert_ptr_null(ct_module_add_param(m, "w", NULL));
    expect(CT_ERR_ARGUMENT, "M", "NULL");
    ck_assert_ptr_null(ct_module_add_param(m, "w", ct_zeros(context, CT_I64, CT_SHAPE(2))));
    expect(CT_ERR_DTYPE, "M", "i64");
    ck_assert_ptr_null(ct_module_add_param(m, "w", ct_transpose(randn(CT_SHAPE(2, 3)), 0, 1)));
    expect(CT_ERR_ARGUMENT, "M", "contiguous");
    ct_tensor *x = ct_set_requires_grad(randn(CT_SHAPE(2)), true), *y = ct_sum(ct_mul(x, x), CT_ALL, false);
    ck_assert_ptr_null(ct_module_add_param(m, "w", y));
    ck_assert_int_ne(ct_error(context), CT_OK);
    ct_error_clear(context);
    ck_assert(ct_backward(y));
    ck_assert_ptr_null(ct_module_add_param(m, "w", ct_grad(x)));   /* the leaf's own */
    expect(CT_ERR_ARGUMENT, "M", "gradient");
    ck_assert_int_eq(ct_module_count(m), 0);

    ct_scope scope = ct_scope_open(context);   /* a parameter outlives the scope it was made in */
    ct_tensor *w = ct_module_add_param(m, "w", ct_full(context, CT_F64, CT_SHAPE(2), 3));
    ct_scope_close(scope);
    ck_assert_double_eq(largest(w), 3);
    ck_assert(ct_requires_grad(w));
}
END_TEST

START_TEST(a_shared_parameter_is_one) {
    ct_module *m = ct_module_new(context, "GPT");
    ct_module *wte = ct_module_add_child(m, "wte", ct_embedding_new(context, (ct_embedding_opts){5, 3, 0}));
    ct_module *head = ct_module_add_child(m, "lm_head", ct_module_new(context, "Head"));
    ct_tensor *w = ct_module_get(wte, "weight");
    ck_assert_ptr_eq(ct_module_add_param(head, "weight", w), w);
    ck_assert_int_eq(ct_module_count(m), 15);
    NAMES(m, "wte.weight");
    NAMES(head, "weight");
    ck_assert_ptr_eq(ct_module_get(m, "lm_head.weight"), w);
    ct_module_free(wte);   /* the other holds it still */
    NAMES(m, "lm_head.weight");
    ck_assert(largest(w) > 0);
}
END_TEST

START_TEST(training_mode) {
    ct_module *m = ct_encoder_layer_new(context, (ct_layer_opts){.embed_dim = 4, .num_heads = 2, .dropout = 0.5});
    ck_assert(ct_module_training(m) && ct_module_training(ct_module_child(m, "self_attn.out_proj")));
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 3, 4));
    ck_assert_double_gt(distance(ct_forward(m, x), ct_forward(m, x)), 0);
    ct_module_train(m, false);
    ck_assert(!ct_module_training(m) && !ct_module_training(ct_module_child(m, "self_attn.out_proj")));
    uint64_t stream = ct_rng_get(context).stream;
    ck_assert_double_eq(distance(ct_forward(m, x), ct_forward(m, x)), 0);
    ck_assert_uint_eq(ct_rng_get(context).stream, stream);
    ct_module_train(ct_module_child(m, "self_attn"), true);
    ck_assert(!ct_module_training(m) && ct_module_training(ct_module_child(m, "self_attn.out_proj")));
    ck_assert(!ct_module_training(NULL));
}
END_TEST

/* ---- forward ---- */

START_TEST(forwards_are_checked) {
    ct_module *linear = ct_linear_new(context, (ct_linear_opts){4, 2, false, CT_F64});
    ct_tensor *x = randn(CT_SHAPE(1, 3, 4));
    ck_assert_ptr_null(ct_mha_forward(linear, x, NULL, NULL, (ct_mha_call){0}).out);
    expect(CT_ERR_ARGUMENT, "MultiheadAttention", "Linear");
    ck_assert_ptr_null(ct_encoder_layer_forward(linear, x, (ct_mha_call){0}).out);
    expect(CT_ERR_ARGUMENT, "TransformerEncoderLayer", "Linear");
    ck_assert_ptr_null(ct_kv_cache_new(linear, 1, 1));
    expect(CT_ERR_ARGUMENT, "MultiheadAttention", "Linear");
    ck_assert_ptr_null(ct_forward(ct_decoder_layer_new(context, (ct_layer_opts){.embed_dim = 4, .num_heads = 1}), x));
    expect(CT_ERR_ARGUMENT, "TransformerDecoderLayer", "one input");
    ck_assert_ptr_null(ct_module_set_forward(linear, identity, NULL));
    expect(CT_ERR_ARGUMENT, "ct_module_set_forward", "Linear");
    ck_assert_ptr_null(ct_forward(linear, NULL));
    expect(CT_ERR_ARGUMENT, "Linear", "NULL");
    ck_assert_ptr_null(ct_forward(ct_module_new(context, "Mine"), x));
    expect(CT_ERR_ARGUMENT, "Mine", "forward");
    ck_assert_ptr_null(ct_forward(ct_module_set_forward(ct_module_new(context, "Mine"), nothing, NULL), x));
    expect(CT_ERR_ARGUMENT, "Mine", "nothing");
    ck_assert_ptr_null(ct_forward(NULL, x));
    ck_assert_ptr_null(ct_forward(linear, randn(CT_SHAPE(3))));
    expect(CT_ERR_SHAPE, "(3)", "(2, 4)");
    ct_module_free(ct_module_child(ct_module_add_child(ct_module_new(context, "M"), "mlp", ct_mlp_new(context, (ct_mlp_opts){.dim = 4})), "fc"));
    no_error();
}
END_TEST

START_TEST(modules_of_your_own) {
    ct_module *m = ct_module_new(context, "Twice");
    ct_module *linear = ct_module_add_child(m, "linear", ct_linear_new(context, (ct_linear_opts){3, 3, false, CT_F64}));
    ck_assert_ptr_eq(ct_module_set_forward(m, twice, linear), m);
    ct_tensor *x = randn(CT_SHAPE(2, 3)), *w = ct_module_get(linear, "weight"), *b = ct_module_get(linear, "bias");
    ck_assert_double_lt(distance(ct_forward(m, x), ct_linear(ct_linear(x, w, b), w, b)), 1e-15);
    ct_scope scope = ct_scope_open(context);
    ct_module_set_forward(m, identity, NULL);
    ck_assert_ptr_eq(ct_forward(m, x), x);   /* an outer scope's tensor is not taken from it */
    ct_scope_close(scope);
    ck_assert_double_gt(largest(x), 0);
}
END_TEST

START_TEST(mlp_is_its_parts) {
    for (ct_activation a = CT_RELU; a <= CT_SILU; a++) {
        ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 7, .activation = a, .dtype = CT_F64});
        ct_tensor *x = randn(CT_SHAPE(2, 5, 3)), *h = ct_forward(ct_module_child(m, "fc"), x);
        h = a == CT_RELU ? ct_relu(h) : a == CT_GELU ? ct_gelu(h) : a == CT_SILU ? ct_silu(h) : ct_gelu_tanh(h);
        ck_assert_double_eq(distance(ct_forward(m, x), ct_forward(ct_module_child(m, "proj"), h)), 0);
    }
    ck_assert_ptr_null(ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .activation = (ct_activation)9}));
    expect(CT_ERR_ARGUMENT, "MLP", "activation");
}
END_TEST

START_TEST(positions) {
    int64_t n = 40, e = 7;
    ct_module *m = ct_positions_new(context, (ct_positions_opts){.max_length = n, .embed_dim = e, .dtype = CT_F64});
    ck_assert_int_eq(ct_module_count(m), 0);
    double *got = values(ct_forward(m, ct_zeros(context, CT_F64, CT_SHAPE(1, n, e))));
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < e; i++) {
            double angle = (double)p / pow(10000, (double)(i / 2 * 2) / (double)e);
            ck_assert_double_eq_tol(got[p * e + i], i % 2 ? cos(angle) : sin(angle), 1e-13);
        }
    free(got);
    ck_assert_ptr_null(ct_forward(m, ct_zeros(context, CT_F64, CT_SHAPE(1, n + 1, e))));
    expect(CT_ERR_SHAPE, "up to 40", "(1, 41, 7)");
    ct_module *learned = ct_positions_new(context, (ct_positions_opts){.max_length = 500, .embed_dim = 20, .learned = true});
    NAMES(learned, "weight");
    ck_assert_double_eq_tol(ct_item(ct_mean(ct_pow(ct_module_get(learned, "weight"), 2), CT_ALL, false)), 0.02 * 0.02, 2e-5);
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 3, 20));
    ct_tensor *y = ct_add(x, ct_narrow(ct_module_get(learned, "weight"), 0, 0, 3));
    ck_assert_double_eq(distance(ct_forward(learned, x), y), 0);
}
END_TEST

START_TEST(heads) {
    ct_tensor *x = randn(CT_SHAPE(2, 3, 8)), *h = ct_split_heads(x, 4);
    ck_assert_int_eq(ct_dim(h, 1), 4);
    ck_assert_int_eq(ct_dim(h, 2), 3);
    ck_assert_double_eq(distance(ct_select(h, 1, 2), ct_narrow(x, 2, 4, 2)), 0);
    ck_assert_double_eq(distance(ct_combine_heads(h), x), 0);
    ck_assert_ptr_null(ct_split_heads(x, 3));
    expect(CT_ERR_SHAPE, "split_heads", "(2, 3, 8)");
    ck_assert_ptr_null(ct_split_heads(x, 0));
    expect(CT_ERR_SHAPE, "split_heads", "(2, 3, 8)");
    ck_assert_ptr_null(ct_combine_heads(x));
    expect(CT_ERR_SHAPE, "combine_heads", "(2, 3, 8)");
}
END_TEST

/* ---- torch's layers, written out ---- */

static ct_tensor *run(ct_module *layer, const char *child, ct_tensor *x) { return ct_forward(ct_module_child(layer, child), x); }

static ct_tensor *feed(ct_module *layer, ct_tensor *x, bool gelu) {
    ct_tensor *h = run(layer, "linear1", x);
    return run(layer, "linear2", gelu ? ct_gelu(h) : ct_relu(h));
}

START_TEST(layers_are_torchs) {
    ct_tensor *x = randn(CT_SHAPE(2, 5, 8)), *memory = randn(CT_SHAPE(2, 3, 8));
    bool real[] = {true, true, false, true, true, true};
    ct_mha_call self = {.causal = true, .need_weights = true};
    ct_mha_call cross = {.key_mask = ct_from_bool(context, CT_SHAPE(2, 3), real), .need_weights = true, .per_head = true};
    for (int first = 0; first < 2; first++) {
        ct_layer_opts opts = {.embed_dim = 8, .num_heads = 2, .hidden = 12, .norm_first = first, .activation = first ? CT_GELU : CT_RELU,
                              .dtype = CT_F64};
        ct_module *e = ct_encoder_layer_new(context, opts), *d = ct_decoder_layer_new(context, opts);
        ct_layer_out y = ct_encoder_layer_forward(e, x, self), z = ct_decoder_layer_forward(d, x, memory, self, cross);
        no_error();

        ct_tensor *q = first ? run(e, "norm1", x) : x;
        ct_mha_out a = ct_mha_forward(ct_module_child(e, "self_attn"), q, NULL, NULL, self);
        ct_tensor *h = ct_add(x, a.out);
        h = first ? ct_add(h, feed(e, run(e, "norm2", h), true)) : run(e, "norm1", h);
        if (!first) h = run(e, "norm2", ct_add(h, feed(e, h, false)));
        ck_assert_double_eq(distance(y.out, h), 0);
        ck_assert_double_eq(distance(y.self_weights, a.weights), 0);
        ck_assert_ptr_null(y.cross_weights);

        a = ct_mha_forward(ct_module_child(d, "self_attn"), first ? run(d, "norm1", x) : x, NULL, NULL, self);
        h = ct_add(x, a.out);
        if (!first) h = run(d, "norm1", h);
        ct_mha_out c = ct_mha_forward(ct_module_child(d, "multihead_attn"), first ? run(d, "norm2", h) : h, memory, memory, cross);
        h = ct_add(h, c.out);
        if (!first) h = run(d, "norm2", h);
        h = ct_add(h, feed(d, first ? run(d, "norm3", h) : h, first));
        if (!first) h = run(d, "norm3", h);
        ck_assert_double_eq(distance(z.out, h), 0);
        ck_assert_double_eq(distance(z.self_weights, a.weights), 0);
        ck_assert_double_eq(distance(z.cross_weights, c.weights), 0);
        ck_assert_int_eq(ct_ndim(z.cross_weights), 4);
        ck_assert_double_eq(ct_item(ct_max(ct_select(ct_select(z.cross_weights, 0, 0), -1, 2), CT_ALL, false)), 0);   /* hidden */

        ck_assert(ct_backward(ct_sum(ct_mul(z.out, randn(CT_SHAPE(2, 5, 8))), CT_ALL, false)));
        for (ct_param p = {0}; ct_module_next(d, &p);) ck_assert_msg(ct_grad(p.tensor) && largest(ct_grad(p.tensor)) > 0, "%s", p.name);
    }
    ct_module *d = ct_decoder_layer_new(context, (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .dtype = CT_F64});
    ck_assert_ptr_null(ct_decoder_layer_forward(d, x, NULL, self, cross).out);
    expect(CT_ERR_ARGUMENT, "TransformerDecoderLayer", "memory");
    ck_assert_ptr_null(ct_decoder_layer_forward(d, x, randn(CT_SHAPE(2, 8)), self, cross).self_weights);
    expect(CT_ERR_SHAPE, "memory (B, T, 8)", "(2, 8)");
}
END_TEST

/* ---- initialisation ---- */

static void uniform_within(ct_tensor *t, double bound) {   /* fills its range, and has its variance, bound^2 / 3 */
    double n = (double)ct_numel(t), most = largest(t);
    ck_assert_msg(most <= bound * (1 + 1e-6) && most > bound * 0.98, "%g of %g", most, bound);
    double mean = ct_item(ct_mean(t, CT_ALL, false)), square = ct_item(ct_mean(ct_mul(t, t), CT_ALL, false));
    ck_assert_double_lt(fabs(mean), 5 * bound / sqrt(3 * n));
    ck_assert_double_eq_tol(square / (bound * bound / 3), 1, 5 / sqrt(n));
}

static void normal_with(ct_tensor *t, double std) {
    double n = (double)ct_numel(t);
    ck_assert_double_lt(fabs(ct_item(ct_mean(t, CT_ALL, false))), 5 * std / sqrt(n));
    ck_assert_double_eq_tol(ct_item(ct_mean(ct_mul(t, t), CT_ALL, false)) / (std * std), 1, 8 / sqrt(n));
}

START_TEST(initialisation_is_torchs) {
    ct_module *linear = ct_linear_new(context, (ct_linear_opts){50, 400, false, 0});
    uniform_within(ct_module_get(linear, "weight"), 1 / sqrt(50));
    uniform_within(ct_module_get(linear, "bias"), 1 / sqrt(50));
    normal_with(ct_module_get(ct_embedding_new(context, (ct_embedding_opts){200, 50, 0}), "weight"), 1);
    ct_module *mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .add_bias_kv = true});
    uniform_within(ct_module_get(mha, "in_proj_weight"), sqrt(6.0 / (4 * 64)));
    uniform_within(ct_module_get(mha, "out_proj.weight"), 1 / sqrt(64));
    ck_assert_double_eq(largest(ct_module_get(mha, "in_proj_bias")), 0);
    ck_assert_double_eq(largest(ct_module_get(mha, "out_proj.bias")), 0);
    normal_with(ct_module_get(mha, "bias_k"), sqrt(2.0 / (2 * 64)));
    ct_module *apart = ct_mha_new(context, (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .kdim = 100, .init = CT_INIT_XAVIER});
    uniform_within(ct_module_get(apart, "q_proj_weight"), sqrt(6.0 / (64 + 64)));
    uniform_within(ct_module_get(apart, "k_proj_weight"), sqrt(6.0 / (64 + 100)));
    uniform_within(ct_module_get(apart, "out_proj.weight"), sqrt(6.0 / (64 + 64)));
    ct_module *xavier = ct_mha_new(context, (ct_mha_opts){.embed_dim = 64, .num_heads = 4, .init = CT_INIT_XAVIER});
    uniform_within(ct_module_get(xavier, "in_proj_weight"), sqrt(6.0 / (64 + 64)));
    ct_module *norm = ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 5});
    ck_assert_double_eq(ct_item(ct_sum(ct_module_get(norm, "weight"), CT_ALL, false)), 5);
    ck_assert_double_eq(largest(ct_module_get(norm, "bias")), 0);
    ck_assert_ptr_nonnull(ct_linear_new(context, (ct_linear_opts){0, 3, false, 0}));   /* no input, and no division by it */
    no_error();
}
END_TEST

START_TEST(init_functions) {
    ct_tensor *t = ct_empty(context, CT_F64, CT_SHAPE(30, 10, 4));   /* fan_in 40, fan_out 120 */
    ck_assert(ct_init_xavier_uniform(t, 2));
    uniform_within(t, 2 * sqrt(6.0 / 160));
    ck_assert(ct_init_xavier_normal(t, 1));
    normal_with(t, sqrt(2.0 / 160));
    ck_assert(ct_init_kaiming_uniform(t, sqrt(5)));
    uniform_within(t, 1 / sqrt(40));
    ck_assert(ct_init_uniform(t, -3, 3) && (uniform_within(t, 3), true));
    ck_assert(ct_init_normal(t, 0, 0.5) && (normal_with(t, 0.5), true));
    ck_assert(ct_init_constant(t, -2));
    ck_assert_double_eq(ct_item(ct_mean(t, CT_ALL, false)), -2);
    ck_assert(!ct_init_xavier_uniform(randn(CT_SHAPE(3)), 1));
    expect(CT_ERR_SHAPE, "xavier_uniform", "(3)");
    ck_assert(!ct_init_xavier_uniform(t, NAN));
    expect(CT_ERR_ARGUMENT, "xavier_uniform", "gain");
    ck_assert(!ct_init_uniform(t, 1, 0));
    expect(CT_ERR_ARGUMENT, "init_uniform", "");
    ck_assert(!ct_init_normal(t, 0, -1));
    expect(CT_ERR_ARGUMENT, "init_normal", "std");
    ck_assert(!ct_init_normal(ct_zeros(context, CT_I64, CT_SHAPE(2)), 0, 1));
    expect(CT_ERR_DTYPE, "i64", "");
    ck_assert(ct_init_xavier_uniform(ct_empty(context, CT_F32, CT_SHAPE(0, 0)), 1));
    ck_assert(!ct_init_constant(NULL, 1));
}
END_TEST

/* ---- printing ---- */

START_TEST(prints_as_torch) {
    ct_module *m = ct_module_new(context, "GPT");
    ct_module_add_child(m, "wte", ct_embedding_new(context, (ct_embedding_opts){10, 8, 0}));
    ct_module_append(m, "h", ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .no_bias = true}));
    ct_module_add_child(m, "drop", ct_dropout_new(context, 0.1));
    ct_module_add_child(m, "ln_f", ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 8}));
    no_error();
    FILE *file = tmpfile();
    ct_module_print(m, file);
    char text[2000] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_str_eq(text, "GPT(\n"
                           "  (wte): Embedding(10, 8)\n"
                           "  (h): ModuleList(\n"
                           "    (0): MultiheadAttention(\n"
                           "      embed_dim=8, num_heads=2, bias=False\n"
                           "      (out_proj): Linear(in_features=8, out_features=8, bias=False)\n"
                           "    )\n"
                           "  )\n"
                           "  (drop): Dropout(p=0.1)\n"
                           "  (ln_f): LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)\n"
                           ")\n");
}
END_TEST

/* ---- failing ---- */

typedef struct {
    int64_t left;
} budget;

static void *count_down(void *data, size_t size) { return ((budget *)data)->left-- > 0 ? malloc(size) : NULL; }
static void give_back(void *data, void *block, size_t size) { (void)data, (void)size, free(block); }

static ct_module *make_any(ct_context *c, int which) {
    switch (which) {
    case 0: return ct_decoder_layer_new(c, (ct_layer_opts){.embed_dim = 64, .num_heads = 4});
    case 1: return ct_mha_new(c, (ct_mha_opts){.embed_dim = 96, .num_heads = 4, .kdim = 40, .add_bias_kv = true});
    case 2: return ct_positions_new(c, (ct_positions_opts){.max_length = 300, .embed_dim = 30});
    default: return ct_mlp_new(c, (ct_mlp_opts){.dim = 60});
    }
}

/* Large blocks come from the allocator one by one: the n-th is refused. */
START_TEST(a_failed_constructor_leaves_nothing) {
    for (int which = 0; which < 4; which++) {
        budget b = {1000000};
        ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .allocator = {count_down, give_back, &b}});
        int64_t before = ct_memory(c).live, failures = 0;
        ct_module *module = NULL;
        for (int64_t n = 0; n < 200 && !module; n++) {
            ct_memory_trim(c);
            b.left = n;
            module = make_any(c, which);
            if (module) break;
            failures++;
            ck_assert_int_eq(ct_error(c), CT_ERR_MEMORY);
            ck_assert_int_eq(ct_memory(c).live, before);
            ct_error_clear(c);
        }
        ck_assert_ptr_nonnull(module);
        ck_assert_int_ge(failures, 1);
        ct_module_free(module);
        ck_assert_int_eq(ct_memory(c).live, before);
        ct_context_free(c);
    }
}
END_TEST

START_TEST(constructors_refuse) {
    int64_t before = ct_memory(context).live;
    ck_assert_ptr_null(ct_linear_new(context, (ct_linear_opts){-1, 3, false, 0}));
    expect(CT_ERR_ARGUMENT, "Linear", "in_features is -1");
    ck_assert_ptr_null(ct_linear_new(context, (ct_linear_opts){1, 3, false, CT_I64}));
    expect(CT_ERR_DTYPE, "Linear", "i64");
    ck_assert_ptr_null(ct_linear_new(context, (ct_linear_opts){INT64_MAX / 2, 3, false, 0}));
    expect(CT_ERR_MEMORY, "", "");
    ck_assert_ptr_null(ct_mha_new(context, (ct_mha_opts){.embed_dim = 10, .num_heads = 3}));
    expect(CT_ERR_ARGUMENT, "embed_dim 10", "num_heads 3");
    ck_assert_ptr_null(ct_mha_new(context, (ct_mha_opts){.embed_dim = 12, .num_heads = 4, .num_kv_heads = 3}));
    expect(CT_ERR_ARGUMENT, "num_heads 4", "num_kv_heads 3");
    ck_assert_ptr_null(ct_mha_new(context, (ct_mha_opts){.embed_dim = 12}));
    expect(CT_ERR_ARGUMENT, "num_heads is 0", "at least 1");
    ck_assert_ptr_null(ct_mha_new(context, (ct_mha_opts){.embed_dim = 12, .num_heads = 4, .dropout = 1.5}));
    expect(CT_ERR_ARGUMENT, "dropout", "1.5");
    ck_assert_ptr_null(ct_dropout_new(context, NAN));
    expect(CT_ERR_ARGUMENT, "Dropout", "nan");
    ck_assert_ptr_null(ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 2, .eps = -1}));
    expect(CT_ERR_ARGUMENT, "LayerNorm", "eps");
    ck_assert_ptr_null(ct_encoder_layer_new(context, (ct_layer_opts){.embed_dim = 8, .num_heads = 3}));
    expect(CT_ERR_ARGUMENT, "embed_dim 8", "num_heads 3");
    ck_assert_ptr_null(ct_module_new(context, ""));
    expect(CT_ERR_ARGUMENT, "ct_module_new", "name");
    ck_assert_ptr_null(ct_linear_new(NULL, (ct_linear_opts){1, 1, false, 0}));
    ck_assert_int_eq(ct_memory(context).live, before);
    ct_module *m = ct_linear_new(context, (ct_linear_opts){2, 2, false, 0});
    ct_dim(NULL, 0);
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert_ptr_null(ct_linear_new(context, (ct_linear_opts){1, 1, false, 0}));
    ck_assert_int_eq(ct_module_count(m), 6);   /* readers and free still work */
    ct_module_free(m);
    expect(CT_ERR_IO, "pending", "");
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("nn");
    TCase *tests = tcase_create("modules");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, names_are_torchs_in_torchs_order);
    tcase_add_test(tests, counts);
    tcase_add_test(tests, lists_and_nested_names);
    tcase_add_test(tests, bad_names);
    tcase_add_test(tests, no_cycles_and_one_parent);
    tcase_add_test(tests, what_a_parameter_may_be);
    tcase_add_test(tests, a_shared_parameter_is_one);
    tcase_add_test(tests, training_mode);
    tcase_add_test(tests, forwards_are_checked);
    tcase_add_test(tests, modules_of_your_own);
    tcase_add_test(tests, mlp_is_its_parts);
    tcase_add_test(tests, positions);
    tcase_add_test(tests, heads);
    tcase_add_test(tests, layers_are_torchs);
    tcase_add_test(tests, initialisation_is_torchs);
    tcase_add_test(tests, init_functions);
    tcase_add_test(tests, prints_as_torch);
    tcase_add_test(tests, a_failed_constructor_leaves_nothing);
    tcase_add_test(tests, constructors_refuse);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
