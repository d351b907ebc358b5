/* Modules: names and their order, shared parameters, custom modules, and printing. */
#include "tests/support/nn_check.h"

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

static ct_tensor *identity(void *self, ct_tensor *x) { return (void)self, x; }
static ct_tensor *nothing(void *self, ct_tensor *x) { return (void)self, (void)x, NULL; }
static ct_tensor *twice(void *self, ct_tensor *x) { return ct_forward(self, ct_forward(self, x)); }

/* ---- the tree ---- */

START_TEST(names_are_torchs_in_torchs_order) {
    ct_layer_opts layer = {.embed_dim = 8, .num_heads = 2, .hidden = 16};
    NAMES(ct_encoder_layer_new(context, layer), "self_attn.in_proj_weight",
          "self_attn.in_proj_bias", "self_attn.out_proj.weight", "self_attn.out_proj.bias",
          "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight",
          "norm1.bias", "norm2.weight", "norm2.bias");
    NAMES(ct_decoder_layer_new(context, layer), "self_attn.in_proj_weight",
          "self_attn.in_proj_bias", "self_attn.out_proj.weight", "self_attn.out_proj.bias",
          "multihead_attn.in_proj_weight", "multihead_attn.in_proj_bias",
          "multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias", "linear1.weight",
          "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight", "norm1.bias",
          "norm2.weight", "norm2.bias", "norm3.weight", "norm3.bias");
    layer.no_bias = true;
    NAMES(ct_encoder_layer_new(context, layer), "self_attn.in_proj_weight",
          "self_attn.out_proj.weight", "linear1.weight", "linear2.weight", "norm1.weight",
          "norm2.weight");
    ct_module *mha = ct_mha_new(
        context,
        (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .kdim = 4, .vdim = 6, .add_bias_kv = true});
    NAMES(mha, "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k",
          "bias_v", "out_proj.weight", "out_proj.bias");
    shape_is(mha, "k_proj_weight", CT_SHAPE(8, 4));
    shape_is(mha, "v_proj_weight", CT_SHAPE(8, 6));
    shape_is(mha, "in_proj_bias", CT_SHAPE(24));
    shape_is(mha, "bias_v", CT_SHAPE(1, 1, 8));
    ct_module *grouped =
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 4, .num_kv_heads = 2});
    shape_is(grouped, "k_proj_weight", CT_SHAPE(4, 8));
    shape_is(grouped, "in_proj_bias", CT_SHAPE(16));
    NAMES(ct_mlp_new(context, (ct_mlp_opts){.dim = 4}), "fc.weight", "fc.bias", "proj.weight",
          "proj.bias");
}
END_TEST

START_TEST(counts) {
    for (int64_t d = 8; d <= 64; d *= 2)
        ck_assert_int_eq(
            ct_module_count(ct_mha_new(context, (ct_mha_opts){.embed_dim = d, .num_heads = 4})),
            4 * d * d + 4 * d);
    ck_assert_int_eq(ct_module_count(ct_mha_new(
                         context, (ct_mha_opts){.embed_dim = 8, .num_heads = 4, .no_bias = true})),
                     4 * 64);
    ck_assert_int_eq(ct_module_count(ct_mlp_new(context, (ct_mlp_opts){.dim = 5})),
                     5 * 20 + 20 + 20 * 5 + 5);
    ck_assert_int_eq(ct_module_count(NULL), 0);
}
END_TEST

START_TEST(lists_and_nested_names) {
    ct_module *gpt = ct_module_new(context, "GPT");
    for (int i = 0; i < 12; i++)
        ck_assert_ptr_nonnull(ct_module_append(
            gpt, "h",
            ct_linear_new(context, (ct_linear_opts){
                                       .in_features = 2, .out_features = 2, .no_bias = i != 11})));
    ct_module *tail = ct_module_add_child(
        gpt, "ln_f", ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 2}));
    ct_tensor *own = ct_module_add_param(gpt, "own", ct_zeros(context, CT_F32, CT_SHAPE(3)));
    NAMES(gpt, "own", "h.0.weight", "h.1.weight", "h.2.weight", "h.3.weight", "h.4.weight",
          "h.5.weight", "h.6.weight", "h.7.weight", "h.8.weight", "h.9.weight", "h.10.weight",
          "h.11.weight", "h.11.bias", "ln_f.weight", "ln_f.bias");
    ck_assert_ptr_eq(ct_module_child(gpt, "ln_f"), tail);
    ck_assert_ptr_nonnull(ct_module_child(gpt, "h.11"));
    ck_assert_ptr_eq(ct_module_get(gpt, "own"), own);
    NAMES(ct_module_child(gpt, "h.11"), "weight", "bias");
    ck_refused(ct_module_child(gpt, "h.12"), CT_ERR_ARGUMENT, "GPT", "h.12");
    ck_refused(ct_module_get(gpt, "h.0.weigh"), CT_ERR_ARGUMENT, "GPT", "h.0.weigh");
    ck_assert(!ct_module_get(NULL, "own") && !ct_module_child(NULL, "h"));
    ck_refused(ct_module_append(gpt, "ln_f", ct_module_new(context, "X")), CT_ERR_ARGUMENT, "ln_f",
               "not a list");
    ct_module *others[] = {
        ct_module_new(context, "X"),
        ct_dropout_new(context, 0),
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 1, .embedding_dim = 1}),
        ct_linear_new(context, (ct_linear_opts){.in_features = 1, .out_features = 1}),
        ct_mlp_new(context, (ct_mlp_opts){.dim = 1}),
        ct_positions_new(context, (ct_positions_opts){.max_length = 1, .embed_dim = 1}),
        ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 1})};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ct_module *m = ct_module_new(context, "M");
        ct_module_add_child(m, "c", others[i]);
        ck_refused(ct_module_append(m, "c", ct_module_new(context, "X")), CT_ERR_ARGUMENT,
                   "M: \"c\" is a ", "not a list");
    }
    ck_refused(ct_module_get(gpt, NULL), CT_ERR_ARGUMENT, "GPT: no parameter \"NULL\"", "");
    ck_refused(ct_module_child(gpt, NULL), CT_ERR_ARGUMENT, "GPT: no child \"NULL\"", "");
    ct_module_add_child(ct_module_child(gpt, "h"), "named", ct_module_new(context, "X"));
    ct_module_append(gpt, "h", ct_module_new(context, "X"));
    ck_assert_ptr_nonnull(ct_module_child(gpt, "h.12")); /* numbered after the last */
    ct_module_free(ct_module_child(gpt, "h.11")); /* freeing a child removes it from its parent */
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
        ck_refused(ct_module_add_param(m, bad[i], ct_zeros(context, CT_F32, CT_SHAPE(2))),
                   CT_ERR_ARGUMENT, "M: ", "");
        ck_refused(ct_module_add_child(m, bad[i], ct_module_new(context, "C")), CT_ERR_ARGUMENT,
                   "M: ", "");
        if (i == 2 || i == 3) continue;
        ck_refused(ct_module_append(m, bad[i], ct_module_new(context, "C")), CT_ERR_ARGUMENT,
                   "M: ", "");
    }
    char name[257];
    memset(name, 'n', sizeof name);
    name[256] = 0;
    ck_refused(ct_module_add_param(m, name, t), CT_ERR_ARGUMENT, "M: ", "256");
    name[255] = 0;
    /* the longest possible name, a second name of w */
    ck_assert_ptr_nonnull(ct_module_add_param(m, name, t));
    ct_param param = {0};
    ck_assert(ct_module_next(m, &param) && !ct_module_next(m, &param));
    ct_module *outer = ct_module_new(context, "Outer");
    ck_assert_ptr_null(ct_module_add_child(outer, "m", m)); /* "m." + 255 */
    expect(CT_ERR_ARGUMENT, "Outer", "257");

    ct_module *deep = ct_module_new(context, "Deep"), *at = deep;
    int depth = 0;
    for (ct_module *next; (next = ct_module_add_child(at, "x", ct_module_new(context, "Deep")));
         at = next)
        depth++;
    expect(CT_ERR_ARGUMENT, "Deep", "");
    ck_assert_int_le(depth, 128);
    ck_assert_int_ge(depth, 100);
}
END_TEST

/* "aaa...": of that length. */
static const char *long_name(char buffer[400], size_t length) {
    memset(buffer, 'a', length);
    buffer[length] = 0;
    return buffer;
}

/* A full name has up to 255 bytes; the longest name below a module counts. */
START_TEST(full_names_fit) {
    char a[400], b[400];
    /* with nothing under it */
    ck_assert_ptr_nonnull(ct_module_add_child(ct_module_new(context, "T"), long_name(a, 255),
                                              ct_module_new(context, "C")));
    for (int first = 0; first < 2; first++) {
        ct_module *m = ct_module_new(context, "M"), *child = ct_module_new(context, "C"),
                  *small = ct_module_new(context, "S");
        if (first) ct_module_add_child(m, "small", small);
        ck_assert_ptr_nonnull(ct_module_add_child(m, long_name(a, 99), child));
        if (!first) ct_module_add_child(m, "small", small);
        ct_module_add_param(child, "w", ct_zeros(context, CT_F32, CT_SHAPE(1)));
        /* 99 + 1 + 6 */
        ct_module_add_param(child, "weight", ct_zeros(context, CT_F32, CT_SHAPE(1)));
        ct_module_add_param(child, "v", ct_zeros(context, CT_F32, CT_SHAPE(1)));
        ct_module *top = ct_module_new(context, "T");
        no_error();
        ck_refused(ct_module_add_child(top, long_name(b, 149), m), CT_ERR_ARGUMENT,
                   "a full name with", "takes 256 bytes, more than 255");
        ck_assert_ptr_nonnull(ct_module_add_child(top, long_name(b, 148), m));
        size_t longest = 0;
        for (ct_param p = {0}; ct_module_next(top, &p);)
            longest = strlen(p.name) > longest ? strlen(p.name) : longest;
        ck_assert_uint_eq(longest, 255);
        ck_refused(ct_module_add_param(child, "weights", ct_zeros(context, CT_F32, CT_SHAPE(1))),
                   CT_ERR_ARGUMENT, "a full name with \"weights\"", "256 bytes");
    }
}
END_TEST

START_TEST(a_module_that_is_freed_gives_all_back) {
    ct_module_free(NULL);
    const int64_t before = ct_memory(context).live;
    ct_module_free(ct_module_new(context, "a label of its own, which is longer than some"));
    ck_assert_int_eq(ct_memory(context).live, before);
    for (size_t n = 60; n < 70; n++) { /* blocks are multiples of 64 bytes */
        char buffer[400];
        ct_module *named = ct_module_new(context, long_name(buffer, n));
        ct_module_add_child(named, buffer, ct_module_new(context, "C"));
        ct_module_add_param(named, long_name(buffer, n - 1),
                            ct_zeros(context, CT_F32, CT_SHAPE(1)));
        no_error();
        ct_module_free(named);
        ck_assert_int_eq(ct_memory(context).live, before);
    }
    ck_assert(!ct_module_next(NULL, &(ct_param){0}));
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 3});
    ct_module_append(m, "list",
                     ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2}));
    ct_scope scope = ct_scope_open(context);
    for (int i = 0; i < 3; i++)
        ct_module_add_param(m, (const char *[]){"a", "b", "c"}[i],
                            ct_zeros(context, CT_F32, CT_SHAPE(1)));
    ct_set_requires_grad(ct_module_get(m, "b"), false); /* not a leaf */
    ct_scope_close(scope);
    no_error();
    ck_assert(!ct_module_next(m, NULL));
    ct_module_free(m);
    ck_assert_int_eq(ct_memory(context).live, before);
    for (int64_t dim = 1; dim < 3; dim++) {
        ck_assert_ptr_nonnull(ct_embedding_new(
            context, (ct_embedding_opts){.num_embeddings = dim, .embedding_dim = dim}));
        ck_assert_ptr_nonnull(ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = dim}));
        ck_assert_ptr_nonnull(ct_linear_new(
            context,
            (ct_linear_opts){.in_features = dim, .out_features = 3 - dim, .dtype = CT_F32}));
    }
}
END_TEST

START_TEST(no_cycles_and_one_parent) {
    ct_module *a = ct_module_new(context, "A"), *b = ct_module_new(context, "B"),
              *c = ct_module_new(context, "C");
    ck_refused(ct_module_add_child(a, "self", a), CT_ERR_ARGUMENT, "A", "itself");
    ct_module_add_child(a, "b", b);
    ct_module_add_child(b, "c", c);
    ck_refused(ct_module_add_child(c, "a", a), CT_ERR_ARGUMENT, "C", "itself");
    ck_refused(ct_module_add_child(a, "c", c), CT_ERR_ARGUMENT, "A", "parent");
    ck_refused(ct_module_add_child(a, "n", NULL), CT_ERR_ARGUMENT, "A", "NULL");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_refused(ct_module_add_child(a, "o", ct_module_new(other, "O")), CT_ERR_ARGUMENT, "A",
               "context");
    expect_in(other, CT_ERR_ARGUMENT, "A", "context");
    ck_refused(ct_module_add_param(a, "o", ct_zeros(other, CT_F32, CT_SHAPE(1))), CT_ERR_ARGUMENT,
               "A", "context");
    ct_context_free(other);
    ct_module_free(NULL);
    ct_module_free(a);
}
END_TEST

START_TEST(what_a_parameter_may_be) {
    ct_module *m = ct_module_new(context, "M");
    ck_refused(ct_module_add_param(m, "w", NULL), CT_ERR_ARGUMENT, "M", "NULL");
    ck_refused(ct_module_add_param(m, "w", ct_zeros(context, CT_I64, CT_SHAPE(2))), CT_ERR_DTYPE,
               "M", "i64");
    ck_refused(ct_module_add_param(m, "w", ct_transpose(randn(CT_SHAPE(2, 3)), 0, 1)),
               CT_ERR_ARGUMENT, "M", "contiguous");
    ct_tensor *x = ct_set_requires_grad(randn(CT_SHAPE(2)), true),
              *y = ct_sum(ct_mul(x, x), CT_ALL, false);
    ck_assert_ptr_null(ct_module_add_param(m, "w", y));
    ck_assert_int_ne(ct_error(context), CT_OK);
    ct_error_clear(context);
    ck_assert(ct_backward(y));
    ck_assert_ptr_null(ct_module_add_param(m, "w", ct_grad(x))); /* owned by the leaf */
    expect(CT_ERR_ARGUMENT, "M", "gradient");
    ck_assert_int_eq(ct_module_count(m), 0);

    ct_scope scope = ct_scope_open(context); /* a parameter outlives the scope it was made in */
    ct_tensor *w = ct_module_add_param(m, "w", ct_full(context, CT_F64, CT_SHAPE(2), 3));
    ct_scope_close(scope);
    ck_assert_double_eq(largest(w), 3);
    ck_assert(ct_requires_grad(w));
}
END_TEST

START_TEST(a_shared_parameter_is_one) {
    ct_module *m = ct_module_new(context, "GPT");
    ct_module *wte = ct_module_add_child(
        m, "wte",
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 5, .embedding_dim = 3}));
    ct_module *head = ct_module_add_child(m, "lm_head", ct_module_new(context, "Head"));
    ct_tensor *w = ct_module_get(wte, "weight");
    ck_assert_ptr_eq(ct_module_add_param(head, "weight", w), w);
    ck_assert_int_eq(ct_module_count(m), 15);
    NAMES(m, "wte.weight");
    NAMES(head, "weight");
    ck_assert_ptr_eq(ct_module_get(m, "lm_head.weight"), w);
    ct_module_free(wte); /* the other module still holds it */
    NAMES(m, "lm_head.weight");
    ck_assert(largest(w) > 0);
}
END_TEST

static void has_name(ct_tensor *w, const char *name) {
    char text[400];
    FILE *file = tmpfile();
    ck_assert(ct_graph_print(ct_scale(w, 2), file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_msg(strstr(text, name) != NULL, "%s is not in %s", name, text);
}

/* A parameter is printed with its first name as long as that module exists. */
START_TEST(a_shared_parameter_has_its_first_name) {
    for (int order = 0; order < 2; order++) {
        ct_module *m[3];
        for (int i = 0; i < 3; i++) m[i] = ct_module_new(context, "M");
        ct_module_add_param(m[0], "before", ct_zeros(context, CT_F32, CT_SHAPE(1)));
        ct_tensor *w = ct_module_add_param(m[1], "first", ct_zeros(context, CT_F32, CT_SHAPE(1)));
        if (order) ct_module_free(m[0]); /* the next one reuses its memory */
        ct_module_add_param(m[2], "second", w);
        has_name(w, "\"first\"");
        ct_module_free(m[2]);
        has_name(w, "\"first\"");
        m[2] = ct_module_new(context, "M");
        ct_module_add_param(m[2], "third", w);
        ct_module_free(m[1]);
        has_name(w, "leaf");
        no_error();
    }
}
END_TEST

START_TEST(training_mode) {
    ct_module *m = ct_encoder_layer_new(
        context, (ct_layer_opts){.embed_dim = 4, .num_heads = 2, .dropout = 0.5});
    ck_assert(ct_module_training(m) &&
              ct_module_training(ct_module_child(m, "self_attn.out_proj")));
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 3, 4));
    ck_assert_double_gt(distance(ct_forward(m, x), ct_forward(m, x)), 0);
    ct_module_train(m, false);
    ck_assert(!ct_module_training(m) &&
              !ct_module_training(ct_module_child(m, "self_attn.out_proj")));
    uint64_t stream = ct_rng_get(context).stream;
    ck_assert_double_eq(distance(ct_forward(m, x), ct_forward(m, x)), 0);
    ck_assert_uint_eq(ct_rng_get(context).stream, stream);
    ct_module_train(ct_module_child(m, "self_attn"), true);
    ck_assert(!ct_module_training(m) &&
              ct_module_training(ct_module_child(m, "self_attn.out_proj")));
    ck_assert(!ct_module_training(NULL));
}
END_TEST

/* ---- forward ---- */

START_TEST(forwards_are_checked) {
    ct_module *linear = ct_linear_new(
        context, (ct_linear_opts){.in_features = 4, .out_features = 2, .dtype = CT_F64});
    ct_tensor *x = randn(CT_SHAPE(1, 3, 4));
    ck_refused(ct_mha_forward(linear, x, NULL, NULL, (ct_mha_call){0}).out, CT_ERR_ARGUMENT,
               "MultiheadAttention", "Linear");
    ck_refused(ct_encoder_layer_forward(linear, x, (ct_mha_call){0}).out, CT_ERR_ARGUMENT,
               "TransformerEncoderLayer", "Linear");
    ck_refused(ct_kv_cache_new(linear, 1, 1), CT_ERR_ARGUMENT, "MultiheadAttention", "Linear");
    ck_refused(
        ct_forward(ct_decoder_layer_new(context, (ct_layer_opts){.embed_dim = 4, .num_heads = 1}),
                   x),
        CT_ERR_ARGUMENT, "TransformerDecoderLayer", "one input");
    ck_refused(ct_module_set_forward(linear, identity, NULL), CT_ERR_ARGUMENT,
               "ct_module_set_forward: expected a Module", "Linear");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_refused(ct_forward(linear, ct_zeros(other, CT_F64, CT_SHAPE(1, 3, 4))), CT_ERR_ARGUMENT,
               "Linear: tensors of different contexts", "");
    ct_context_free(other);
    ck_refused(ct_forward(linear, NULL), CT_ERR_ARGUMENT, "Linear", "NULL");
    ck_refused(ct_forward(ct_module_new(context, "Mine"), x), CT_ERR_ARGUMENT, "Mine", "forward");
    ck_refused(ct_forward(ct_module_set_forward(ct_module_new(context, "Mine"), nothing, NULL), x),
               CT_ERR_ARGUMENT, "Mine", "nothing");
    ck_refused(ct_forward(NULL, x), CT_ERR_ARGUMENT, "ct_forward: module is NULL", "");
    ck_refused(ct_forward(linear, randn(CT_SHAPE(3))), CT_ERR_SHAPE, "(3)", "(2, 4)");
    ct_module_free(
        ct_module_child(ct_module_add_child(ct_module_new(context, "M"), "mlp",
                                            ct_mlp_new(context, (ct_mlp_opts){.dim = 4})),
                        "fc"));
    no_error();
}
END_TEST

START_TEST(modules_of_your_own) {
    ct_module *m = ct_module_new(context, "Twice");
    ct_module *linear = ct_module_add_child(
        m, "linear",
        ct_linear_new(context,
                      (ct_linear_opts){.in_features = 3, .out_features = 3, .dtype = CT_F64}));
    ck_assert_ptr_eq(ct_module_set_forward(m, twice, linear), m);
    ct_tensor *x = randn(CT_SHAPE(2, 3)), *w = ct_module_get(linear, "weight"),
              *b = ct_module_get(linear, "bias");
    ck_assert_double_lt(distance(ct_forward(m, x), ct_linear(ct_linear(x, w, b), w, b)), 1e-15);
    ct_scope scope = ct_scope_open(context);
    ct_module_set_forward(m, identity, NULL);
    ck_assert_ptr_eq(ct_forward(m, x), x); /* a tensor of an outer scope stays there */
    ct_scope_close(scope);
    ck_assert_double_gt(largest(x), 0);
}
END_TEST

/* ---- printing ---- */

/* Returns the text that ct_module_print writes; valid until the next call. */
static const char *printed(const ct_module *m) {
    static char text[2000];
    FILE *file = tmpfile();
    ct_module_print(m, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

START_TEST(prints_as_torch) {
    ct_module *m = ct_module_new(context, "GPT");
    ct_module_add_child(
        m, "wte",
        ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 10, .embedding_dim = 8}));
    ct_module_append(
        m, "h",
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .no_bias = true}));
    ct_module_add_child(m, "drop", ct_dropout_new(context, 0.1));
    ct_module_add_child(m, "ln_f", ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 8}));
    no_error();
    const char *text = printed(m);
    ck_assert_str_eq(text,
                     "GPT(\n"
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

START_TEST(a_dropout_module) {
    ct_module *m = ct_dropout_new(context, 0.75);
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(400));
    ct_module_train(m, false);
    ck_assert_double_eq(distance(ct_forward(m, x), x), 0);
    ct_module_train(m, true);
    ct_tensor *y = ct_forward(m, x);
    int kept = 0;
    for (int i = 0; i < 400; i++) {
        ck_assert(ct_data_f32(y)[i] == 0 || ct_data_f32(y)[i] == 4);
        kept += ct_data_f32(y)[i] != 0;
    }
    ck_assert(kept > 60 && kept < 140);
    /* 0 and 1 are allowed */
    for (int p = 0; p < 2; p++) ck_assert_ptr_nonnull(ct_dropout_new(context, p));
}
END_TEST

static void prints(ct_module *m, const char *want) {
    no_error();
    ct_module_print(m, NULL); /* does nothing */
    ct_module_print(NULL, stdout);
    const char *text = printed(m);
    ck_assert_msg(strstr(text, want) != NULL, "%s is not in %s", want, text);
}

START_TEST(prints_options) {
    const ct_mha_opts all = {.embed_dim = 8,
                             .num_heads = 4,
                             .num_kv_heads = 2,
                             .kdim = 5,
                             .vdim = 3,
                             .dropout = 0.1,
                             .out_dropout = 0.25,
                             .no_bias = true,
                             .add_bias_kv = true,
                             .add_zero_attn = true,
                             .rope = true};
    prints(ct_mha_new(context, all), "\n  embed_dim=8, num_heads=4, num_kv_heads=2, kdim=5, "
                                     "vdim=3, dropout=0.1, out_dropout=0.25, bias=False, "
                                     "add_bias_kv=True, add_zero_attn=True, rope=10000\n");
    prints(ct_mha_new(context, (ct_mha_opts){.embed_dim = 8,
                                             .num_heads = 2,
                                             .rope = true,
                                             .rotary = {.base = 500, .interleaved = true}}),
           "\n  embed_dim=8, num_heads=2, rope=500 interleaved\n");
    prints(
        ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2, .kdim = 9, .vdim = 10}),
        "\n  embed_dim=8, num_heads=2, kdim=9, vdim=10\n");
    prints(ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 3}),
           "Linear(in_features=2, out_features=3, bias=True)");
    prints(ct_embedding_new(context, (ct_embedding_opts){.num_embeddings = 4, .embedding_dim = 5}),
           "Embedding(4, 5)");
    prints(ct_dropout_new(context, 0.25), "Dropout(p=0.25)");
    prints(ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 6}),
           "RMSNorm((6,), eps=1e-05, elementwise_affine=True)");
    prints(ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = 6, .offset = 1}),
           "RMSNorm((6,), eps=1e-05, elementwise_affine=True, offset=1)");
    prints(ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 6, .eps = 0.5, .no_bias = true}),
           "LayerNorm((6,), eps=0.5, elementwise_affine=True, bias=False)");
    prints(ct_positions_new(context,
                            (ct_positions_opts){.max_length = 5, .embed_dim = 4, .dropout = 0.1}),
           "max_length=5, embed_dim=4, learned=False, dropout=0.1");
    prints(ct_positions_new(context,
                            (ct_positions_opts){.max_length = 5, .embed_dim = 4, .learned = true}),
           "learned=True, dropout=0");
    static const char *const names[] = {"relu",       "gelu",         "gelu_tanh",
                                        "silu",       "elu",          "softplus",
                                        "leaky_relu", "relu_squared", "quick_gelu"};
    for (int i = 0; i < CT_QUICK_GELU + 1; i++) {
        const ct_activation a = (ct_activation)i;
        char want[64];
        snprintf(want, sizeof want, "\n  activation=%s, dropout=0.1\n", names[i]);
        prints(ct_mlp_new(context, (ct_mlp_opts){.dim = 2, .dropout = 0.1, .activation = a}), want);
        snprintf(want, sizeof want, "\n  activation=%s, dropout=0.1, gated=True\n", names[i]);
        prints(ct_mlp_new(context,
                          (ct_mlp_opts){.dim = 2, .dropout = 0.1, .activation = a, .gated = true}),
               want);
        snprintf(want, sizeof want, "\n  activation=%s, dropout=0.2, norm_first=%s\n", names[i],
                 i % 2 ? "True" : "False");
        prints(ct_encoder_layer_new(context, (ct_layer_opts){.embed_dim = 4,
                                                             .num_heads = 2,
                                                             .dropout = 0.2,
                                                             .activation = a,
                                                             .norm_first = i % 2}),
               want);
    }
}
END_TEST

/* Each activation is the op of its name, also inside the ops that have one. */
START_TEST(activations_are_ops) {
    ct_tensor *x = randn(CT_SHAPE(3, 40)), *one = ct_ones(context, CT_F64, CT_SHAPE(3, 40));
    ct_tensor *const want[] = {
        ct_relu(x),      ct_gelu(x),     ct_gelu_tanh(x),        ct_silu(x),
        ct_elu(x, 1),    ct_softplus(x), ct_leaky_relu(x, 0.01), ct_relu_squared(x),
        ct_quick_gelu(x)};
    for (int i = 0; i < CT_QUICK_GELU + 1; i++) {
        ck_assert_double_eq(distance(ct_activate(x, (ct_activation)i), want[i]), 0);
        ck_assert_double_eq(distance(ct_activated_mul(x, (ct_activation)i, one), want[i]), 0);
    }
    ck_refused(ct_activate(x, (ct_activation)(CT_QUICK_GELU + 1)), CT_ERR_ARGUMENT, "activate",
               "no activation 9");
    ck_assert_ptr_null(ct_activate(NULL, (ct_activation)(CT_QUICK_GELU + 1)));
}
END_TEST

int main(void) {
    return run_tests(
        "nn", setup, teardown,
        TESTS(TEST(names_are_torchs_in_torchs_order), TEST(counts), TEST(lists_and_nested_names),
              TEST(bad_names), TEST(full_names_fit), TEST(a_module_that_is_freed_gives_all_back),
              TEST(no_cycles_and_one_parent), TEST(what_a_parameter_may_be),
              TEST(a_shared_parameter_is_one), TEST(a_shared_parameter_has_its_first_name),
              TEST(training_mode), TEST(forwards_are_checked), TEST(modules_of_your_own),
              TEST(prints_as_torch), TEST(prints_options), TEST(activations_are_ops),
              TEST(a_dropout_module)));
}
