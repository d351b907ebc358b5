/* The layers of models: the tree of each family, whose names, order and kinds programs and files
 * rely on, and a model's layer as a layer of nn.h. */
#include "small_lm.h"

/* ---- trees ---- */

#define TREE(family, more) "{\"model_type\": \"" family "\", " more SIZES "}"
#define FEW_HEADS          "\"num_key_value_heads\": 2, "

static const char *const tree_configs[] = {
    GPT2,
    TREE("llama", FEW_HEADS "\"attention_bias\": true, \"mlp_bias\": true, "),
    TREE("llama", "\"architectures\": [\"LlamaModel\"], "),
    TREE("mistral", FEW_HEADS),
    TREE("qwen2", FEW_HEADS),
    WITH_QK_NORMS("qwen3"),
    GEMMA,
    TREE("smollm3", FEW_HEADS),
    TREE("olmo2", FEW_HEADS),
    GRANITE,
    GRANITE4,
    NEOX,
    TREE("gpt_neox", "\"use_parallel_residual\": false, \"attention_bias\": false, "),
    BERT("BertForMaskedLM"),
    BERT("BertForSequenceClassification"),
    BERT("BertModel"),
    ROBERTA("roberta", "RobertaForMaskedLM"),
    ROBERTA("xlm-roberta", "XLMRobertaForSequenceClassification"),
    DISTILBERT("DistilBertForMaskedLM"),
    DISTILBERT("DistilBertForSequenceClassification"),
};
enum { TREES = sizeof tree_configs / sizeof *tree_configs };

/* Writes a model as it is printed, then its parameters in their order. The only buffers are the
 * frequencies of rotary positions. */
static void write_tree(FILE *file, const char *config) {
    ct_module *lm = new_lm(config, (ct_lm_opts){0});
    ct_param param = {0}, buffer = {0};
    fprintf(file, "# %s\n", config);
    ct_module_print(lm, file);
    while (ct_module_next(lm, &param)) {
        const ct_shape shape = ct_shape_of(param.tensor);
        fprintf(file, "%s", param.name);
        for (int d = 0; d < shape.ndim; d++) fprintf(file, " %d", (int)shape.dim[d]);
        fprintf(file, " %s\n", ct_module_kind(param.owner));
    }
    while (ct_module_next_buffer(lm, &buffer))
        ck_assert_ptr_nonnull(strstr(buffer.name, ".rotary_frequencies"));
    ct_module_free(lm);
}

/* Compares with tests/golden/model_trees.txt, line by line. With NEW_TREES=FILE in the environment
 * the trees are written there, too. */
START_TEST(trees_stay) {
    static char line[1024], want[1024];
    const char *copy = getenv("NEW_TREES");
    FILE *file = fopen(copy ? copy : in_folder("trees"), "w+"),
         *golden = fopen("tests/golden/model_trees.txt", "r");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < TREES; i++) write_tree(file, tree_configs[i]);
    rewind(file);
    ck_assert_ptr_nonnull(golden);
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        ck_assert_msg(fgets(want, sizeof want, golden) != NULL, "line %d is new: %s", number, line);
        ck_assert_msg(!strcmp(line, want), "line %d is\n%snot\n%s", number, line, want);
    }
    ck_assert_msg(!fgets(want, sizeof want, golden), "a line is gone: %s", want);
    fclose(file), fclose(golden);
}
END_TEST

/* ---- a layer of a model as one of nn.h ---- */

static const char *const layer_configs[] = {
    TREE("llama", FEW_HEADS "\"attention_bias\": true, \"mlp_bias\": true, "),
    WITH_QK_NORMS("qwen3"),
    TREE("olmo2", FEW_HEADS),
    NEOX,
    TREE("gpt_neox", "\"use_parallel_residual\": false, "),
};
enum { LAYER_CONFIGS = sizeof layer_configs / sizeof *layer_configs };

static const char *base_of(ct_module *lm) {
    return !strcmp(ct_lm_about(lm).family, "gpt_neox") ? "gpt_neox" : "model";
}
static ct_module *part_of(ct_module *lm, const char *part) {
    char path[128];
    snprintf(path, sizeof path, "%s.%s", base_of(lm), part);
    ct_module *module = ct_module_child(lm, path);
    ck_assert_msg(module != NULL, "%s", ct_error_message(context));
    return module;
}
static ct_tensor *run_layer(ct_module *layer, ct_tensor *x, ct_mha_call call) {
    ct_tensor *y = ct_encoder_layer_forward(layer, x, call).out;
    ck_assert_msg(y != NULL, "%s", ct_error_message(context));
    return y;
}

/* The layers run by ct_encoder_layer_forward are the model. */
START_TEST(layers_of_nn) {
    ct_module *lm = rough_lm(layer_configs[_i], f64);
    const bool neox = !strcmp(base_of(lm), "gpt_neox");
    ct_tensor *ids = some_ids(2, 6), *segments = NULL, *mask = NULL;
    static const int64_t own[12] = {0, 0, 1, 1, 1, 2, 5, 5, 5, 5, 3, 3};
    static const bool shown[12] = {1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0};
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 1) segments = ct_from_i64(context, CT_SHAPE(2, 6), own);
        if (kind == 2) segments = NULL, mask = ct_from_bool(context, CT_SHAPE(2, 6), shown);
        static const int64_t of_segments[12] = {0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 0, 1},
                             of_mask[12] = {0, 1, 2, 3, 4, 5, 0, 0, 0, 1, 2, 2};
        ct_mha_call call = {.causal = true, .segments = segments, .key_mask = mask};
        if (kind)
            call.positions =
                ct_from_i64(context, CT_SHAPE(2, 6), kind == 1 ? of_segments : of_mask);
        ct_tensor *x = ct_forward(part_of(lm, neox ? "embed_in" : "embed_tokens"), ids);
        for (int i = 0; i < 2; i++)
            x = run_layer(part_of(lm, i ? "layers.1" : "layers.0"), x, call);
        x = ct_forward(part_of(lm, neox ? "final_layer_norm" : "norm"), x);
        const ct_lm_call hidden = {.result = CT_LM_HIDDEN, .segments = segments, .key_mask = mask};
        ck_assert_double_eq(apart(x, run_lm(lm, ids, hidden)), 0);
    }
}
END_TEST

/* GPT-NeoX adds the results of both sublayers before x, as transformers does: in f32 the order of
 * the sum is seen in its rounding. */
START_TEST(sums_of_a_parallel_layer) {
    ct_module *lm = rough_lm(NEOX, (ct_lm_opts){0}), *layer = part_of(lm, "layers.0");
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 7, 16));
    const ct_mha_call call = {.causal = true};
    ct_tensor *a = ct_mha_forward(ct_module_child(layer, "attention"),
                                  ct_forward(ct_module_child(layer, "input_layernorm"), x), NULL,
                                  NULL, call)
                       .out,
              *f = ct_forward(ct_module_child(layer, "mlp"),
                              ct_forward(ct_module_child(layer, "post_attention_layernorm"), x));
    ct_tensor *y = run_layer(layer, x, call);
    ck_assert_double_eq(apart(y, ct_add(ct_add(f, a), x)), 0);
    ck_assert_double_gt(apart(y, ct_add(ct_add(x, a), f)), 0);
}
END_TEST

/* A model's layer, its attention and its feed-forward can run without the model. So can a copy of
 * the layer after the model was freed: it has its own copy of the rotary frequencies. */
START_TEST(copies_of_layers) {
    ct_module *lm = rough_lm(GEMMA, f64), *layer = part_of(lm, "layers.0");
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 7, 16));
    ct_tensor *want = run_layer(layer, x, (ct_mha_call){.causal = true}),
              *once = ct_forward(layer, x), *mlp = ct_forward(ct_module_child(layer, "mlp"), x),
              *attention = ct_forward(ct_module_child(layer, "self_attn"), x);
    ck_assert(want && once && mlp && attention && apart(want, once) > 0.01);
    ct_module *copy = ct_module_clone(layer);
    ct_module_free(lm);
    ck_assert_double_eq(apart(run_layer(copy, x, (ct_mha_call){.causal = true}), want), 0);
    ck_assert_double_eq(apart(ct_forward(copy, x), once), 0);
    ck_assert_double_eq(apart(ct_forward(ct_module_child(copy, "mlp"), x), mlp), 0);
    ct_mha_out again = ct_mha_forward(ct_module_child(copy, "self_attn"), x, NULL, NULL,
                                      (ct_mha_call){.need_weights = true});
    ck_assert_double_eq(apart(again.out, attention), 0);
    ck_assert(same_shape(again.weights, CT_SHAPE(2, 7, 7)));
}
END_TEST

/* The Linear that makes queries, keys and values has one input. */
START_TEST(attention_of_one_product) {
    ct_module *lm = rough_lm(_i ? GPT2 : NEOX, f64);
    ct_module *attention =
        _i ? ct_module_child(lm, "transformer.h.0.attn") : part_of(lm, "layers.0.attention");
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3, 16)),
              *y = ct_randn(context, CT_F64, CT_SHAPE(2, 3, 16));
    ck_assert_ptr_nonnull(ct_mha_forward(attention, x, x, x, (ct_mha_call){0}).out);
    ck_refused(ct_mha_forward(attention, x, y, y, (ct_mha_call){0}).out, CT_ERR_ARGUMENT, "Group",
               "self-attention");
    ck_refused(ct_mha_forward(attention, x, x, y, (ct_mha_call){0}).out, CT_ERR_ARGUMENT, "Group",
               "self-attention");
}
END_TEST

/* ---- modules in the place of a layer's ---- */

static ct_tensor *thrice(void *data, ct_tensor *x) {
    (void)data;
    return ct_scale(x, 3);
}
static ct_tensor *too_wide(void *data, ct_tensor *x) {
    (void)data;
    return ct_cat((ct_tensor *[]){x, x}, 2, 2);
}
static const ct_module_type scaling = {.name = "MLP", .forward = thrice},
                            widening = {.name = "MLP", .forward = too_wide};

static void put_type(ct_module *owner, const char *path, const ct_module_type *type) {
    ct_module *old = ct_module_set_child(owner, path, ct_module_new_of(context, type, NULL));
    ck_assert_msg(old != NULL, "%s", ct_error_message(context));
    ct_module_free(old);
    ct_module_train(owner, false);
}

START_TEST(feed_forwards_of_a_program) {
    ct_module *lm = rough_lm(LLAMA, f64), *layer = part_of(lm, "layers.1");
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 7, 16)), *ids = some_ids(2, 5);
    const ct_mha_call call = {.causal = true};
    ct_tensor *a =
        ct_mha_forward(ct_module_child(layer, "self_attn"),
                       ct_forward(ct_module_child(layer, "input_layernorm"), x), NULL, NULL, call)
            .out;
    ct_tensor *half = ct_add(x, a),
              *normed = ct_forward(ct_module_child(layer, "post_attention_layernorm"), half);
    put_type(layer, "mlp", &scaling);
    ck_assert_double_eq(apart(run_layer(layer, x, call), ct_add(half, ct_scale(normed, 3))), 0);
    /* it needs no cache */
    ct_lm_cache *cache = ct_lm_cache_new(lm, 2, 9);
    ct_tensor *want = run_lm(lm, ids, (ct_lm_call){0}),
              *got = run_lm(lm, ids, (ct_lm_call){.cache = cache});
    ck_assert_double_lt(apart(got, want), 1e-12);
    put_type(layer, "mlp", &widening);
    ck_refused(ct_encoder_layer_forward(layer, x, call).out, CT_ERR_SHAPE, "mlp", "32");
}
END_TEST

/* An attention of one input runs in a plain call, and is refused in any other; so is one of nn. */
START_TEST(attentions_of_a_program) {
    ct_module *lm = rough_lm(_i ? GPT2 : LLAMA, f64);
    const char *path = _i ? "transformer.h.0.attn" : "model.layers.0.self_attn";
    ct_tensor *ids = some_ids(2, 5);
    ct_lm_cache *early = ct_lm_cache_new(lm, 2, 9);
    put_type(lm, path, &scaling);
    ct_lm_cache *cache = ct_lm_cache_new(lm, 2, 9);
    ck_assert(early && cache);
    ct_module *layer = ct_module_child(lm, _i ? "transformer.h.0" : "model.layers.0");
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 7, 16));
    ct_module *norm = ct_module_child(layer, _i ? "ln_1" : "input_layernorm"),
              *next = ct_module_child(layer, _i ? "ln_2" : "post_attention_layernorm");
    ct_tensor *half = ct_add(x, ct_scale(ct_forward(norm, x), 3)),
              *mlp = ct_forward(ct_module_child(layer, "mlp"), ct_forward(next, half));
    ck_assert_double_eq(
        apart(run_layer(layer, x, (ct_mha_call){.causal = true}), ct_add(half, mlp)), 0);
    run_lm(lm, ids, (ct_lm_call){0});
    static const bool shown[10] = {1, 1, 1, 1, 1, 1, 1};
    ct_tensor *numbers = ct_zeros(context, CT_I64, CT_SHAPE(2, 5));
    const ct_lm_call calls[] = {{.key_mask = ct_from_bool(context, CT_SHAPE(2, 5), shown)},
                                {.segments = numbers},
                                {.positions = numbers},
                                {.cache = cache},
                                {.cache = early}};
    static const char *const words[] = {"padding", "segments", "positions", "a cache", "a cache"};
    for (int i = 0; i < 5; i++)
        ck_refused(ct_lm_forward(lm, ids, calls[i]), CT_ERR_ARGUMENT, "a MLP, of one input",
                   words[i]);
    ct_mha_call more[] = {{.lengths = ct_zeros(context, CT_I64, CT_SHAPE(2))},
                          {.mask = ct_ones(context, CT_BOOL, CT_SHAPE(7, 7))},
                          {.bias = ct_zeros(context, CT_F64, CT_SHAPE(7, 7))},
                          {.rope_offset = 1},
                          {.need_weights = true}};
    static const char *const names[] = {"padding", "a mask", "a bias", "positions", "weights"};
    for (int i = 0; i < 5; i++)
        ck_refused(ct_encoder_layer_forward(layer, x, more[i]).out, CT_ERR_ARGUMENT, "of one input",
                   names[i]);
    ck_assert_ptr_nonnull(run_lm(lm, ids, (ct_lm_call){0}));
}
END_TEST

/* torch's attention in the place of a family's takes every call. */
START_TEST(attentions_of_nn) {
    ct_module *lm = rough_lm(LLAMA, f64);
    ct_module *own = ct_mha_new(
        context, (ct_mha_opts){.embed_dim = 16, .num_heads = 2, .rope = true, .dtype = CT_F64});
    ct_module_free(ct_module_set_child(lm, "model.layers.0.self_attn", own));
    ct_module_train(lm, false);
    ct_tensor *ids = some_ids(2, 6), *want = run_lm(lm, ids, (ct_lm_call){0});
    ct_lm_cache *cache = ct_lm_cache_new(lm, 2, 9);
    for (int64_t t = 0; t < 6; t += 2) {
        ct_tensor *got = run_lm(lm, ct_narrow(ids, 1, t, 2), (ct_lm_call){.cache = cache});
        ck_assert_double_lt(apart(got, ct_narrow(want, 1, t, 2)), 1e-12);
    }
}
END_TEST

/* Also in the layers of nn.h. */
START_TEST(attentions_in_layers_of_nn) {
    const ct_layer_opts opts = {
        .embed_dim = 8, .num_heads = 2, .norm_first = true, .dtype = CT_F64};
    ct_module *layer = ct_encoder_layer_new(context, opts),
              *decoder = ct_decoder_layer_new(context, opts);
    put_type(layer, "self_attn", &scaling);
    put_type(decoder, "multihead_attn", &scaling);
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3, 8)),
              *half = ct_add(x, ct_scale(ct_forward(ct_module_child(layer, "norm1"), x), 3)),
              *h = ct_forward(ct_module_child(layer, "linear1"),
                              ct_forward(ct_module_child(layer, "norm2"), half)),
              *f = ct_forward(ct_module_child(layer, "linear2"), ct_relu(h));
    ck_assert_double_lt(apart(run_layer(layer, x, (ct_mha_call){0}), ct_add(half, f)), 1e-12);
    ck_refused(ct_decoder_layer_forward(decoder, x, x, (ct_mha_call){0}, (ct_mha_call){0}).out,
               CT_ERR_ARGUMENT, "of one input", "memory");
}
END_TEST

int main(void) {
    return run_tests("model layers", setup, end_with_folders,
                     TESTS(TEST(trees_stay), LOOP(layers_of_nn, LAYER_CONFIGS),
                           TEST(sums_of_a_parallel_layer), TEST(copies_of_layers),
                           LOOP(attention_of_one_product, 2), TEST(feed_forwards_of_a_program),
                           LOOP(attentions_of_a_program, 2), TEST(attentions_of_nn),
                           TEST(attentions_in_layers_of_nn)));
}
