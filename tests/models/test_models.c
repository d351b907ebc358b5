/* Models of Hugging Face folders, without transformers: results, losses, packed rows, caches,
 * copies, folders that are saved and opened, and texts of config.json that are refused.
 * tests/torch/test_models_live.py has the values. */
#include <math.h>

#include "small_lm.h"

static void teardown_folders(void) {
    static const char *const names[] = {"saved", "first", "second", "there"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove_tree(in_folder(names[i]));
    teardown();
}

START_TEST(results_of_each_architecture) {
    ct_module *lm = rough_lm(LLAMA, f64),
              *bert = rough_lm(BERT("BertForSequenceClassification"), f64);
    ct_tensor *ids = some_ids(2, 5);
    const bool mask[] = {false, false, true, true, true, true, true, true, true, false};
    ct_tensor *key_mask = ct_from_bool(context, CT_SHAPE(2, 5), mask);
    ct_tensor *all = run_lm(lm, ids, (ct_lm_call){.key_mask = key_mask});
    ct_tensor *last = run_lm(lm, ids, (ct_lm_call){.key_mask = key_mask, .result = CT_LM_LAST});
    ck_assert(same_shape(all, CT_SHAPE(2, 5, 31)) && same_shape(last, CT_SHAPE(2, 31)));
    ck_assert_double_eq(apart(ct_select(last, 0, 0), ct_select(ct_select(all, 0, 0), 0, 4)), 0);
    ck_assert_double_eq(apart(ct_select(last, 0, 1), ct_select(ct_select(all, 0, 1), 0, 3)), 0);
    ct_tensor *hidden = run_lm(lm, ids, (ct_lm_call){.key_mask = key_mask, .result = CT_LM_HIDDEN});
    ct_tensor *mean = run_lm(lm, ids, (ct_lm_call){.key_mask = key_mask, .result = CT_LM_MEAN});
    ct_tensor *row = ct_mean(ct_narrow(ct_select(hidden, 0, 0), 0, 2, 3), CT_DIMS(0), false);
    ck_assert_double_lt(apart(ct_select(mean, 0, 0), row), 1e-14);
    ct_tensor *no_token = ct_zeros(context, CT_BOOL, CT_SHAPE(2, 5));
    mean = run_lm(lm, ids, (ct_lm_call){.key_mask = no_token, .result = CT_LM_MEAN});
    ck_assert_double_eq(apart(mean, ct_zeros(context, CT_F64, CT_SHAPE(2, 16))), 0);
    ck_assert(same_shape(run_lm(bert, ids, (ct_lm_call){0}), CT_SHAPE(2, 3)));
    ck_assert(same_shape(run_lm(bert, ids, (ct_lm_call){.result = CT_LM_POOLED}), CT_SHAPE(2, 16)));
    ck_refused(ct_lm_forward(lm, ids, (ct_lm_call){.result = CT_LM_POOLED}), CT_ERR_ARGUMENT,
               "lm_forward", "no pooler");
    ck_refused(ct_lm_forward(bert, ids, (ct_lm_call){.result = CT_LM_LAST}), CT_ERR_ARGUMENT,
               "lm_forward", "no logits");
    ck_refused(ct_lm_forward(lm, ids, (ct_lm_call){.token_types = ids}), CT_ERR_ARGUMENT, "llama",
               "token types");
    ck_refused(ct_lm_forward(lm, ids, (ct_lm_call){.key_mask = ids}), CT_ERR_DTYPE, "key_mask",
               "bool");
    ck_refused(ct_lm_forward(lm, ct_select(ids, 0, 0), (ct_lm_call){0}), CT_ERR_SHAPE, "ids",
               "(B, T)");
}
END_TEST

/* Texts of unequal length in one row, apart by segments, have the logits of each by itself. */
START_TEST(packed_rows) {
    static const char *const configs[] = {LLAMA,   GEMMA, GPT2, NEOX, WITH_QK_NORMS("olmo2"),
                                          GRANITE4};
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        ct_module *lm = rough_lm(configs[c], f64);
        ct_tensor *ids = some_ids(1, 9);
        const int64_t numbers[] = {7, 7, 7, 7, 2, 2, 2, 2, 2};
        ct_tensor *segments = ct_from_i64(context, CT_SHAPE(1, 9), numbers);
        ct_tensor *both = run_lm(lm, ids, (ct_lm_call){.segments = segments});
        ct_tensor *first = run_lm(lm, ct_narrow(ids, 1, 0, 4), (ct_lm_call){0}),
                  *second = run_lm(lm, ct_narrow(ids, 1, 4, 5), (ct_lm_call){0});
        ck_assert_double_lt(apart(ct_narrow(both, 1, 0, 4), first), 1e-12);
        ck_assert_double_lt(apart(ct_narrow(both, 1, 4, 5), second), 1e-12);
    }
}
END_TEST

/* A norm of all heads' queries together, as in OLMo 2, carries a change of head 0 to the others; a
 * norm of each head's queries does not. */
START_TEST(norms_of_queries) {
    static const char *const configs[] = {WITH_QK_NORMS("qwen3"), WITH_QK_NORMS("olmo2")};
    for (int wide = 0; wide < 2; wide++) {
        ct_module *lm = rough_lm(configs[wide], f64);
        ct_tensor *ids = some_ids(1, 5);
        ct_scope scope = ct_scope_open_no_grad(context);
        for (int i = 0; i < 2; i++) { /* the result of head 0 is not used */
            char path[80];
            snprintf(path, sizeof path, "model.layers.%d.self_attn.o_proj.weight", i);
            ck_assert(ct_scale_into(ct_narrow(ct_module_get(lm, path), 1, 0, 4), 0));
        }
        ct_tensor *before = run_lm(lm, ids, (ct_lm_call){0});
        ct_tensor *q = ct_module_get(lm, "model.layers.0.self_attn.q_proj.weight");
        ck_assert(ct_scale_into(ct_narrow(q, 0, 0, 4), 3));
        const double moved = apart(run_lm(lm, ids, (ct_lm_call){0}), before);
        ck_assert_msg(wide ? moved > 1e-3 : moved == 0, "wide %d: %g", wide, moved);
        ct_tensor *norm = ct_module_get(lm, "model.layers.0.self_attn.k_norm.weight");
        ck_assert_int_eq(ct_numel(norm), wide ? 8 : 4);
        ct_scope_close(scope);
    }
}
END_TEST

START_TEST(losses) {
    ct_module *lm = rough_lm(LLAMA, f64), *bare = new_lm(BERT("BertModel"), f64);
    ct_tensor *ids = some_ids(2, 6), *targets = some_ids(2, 6);
    const ct_cross_entropy_opts opts = {.label_smoothing = 0.1, .reduction = CT_SUM};
    ct_tensor *loss = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, opts);
    ct_tensor *want = ct_cross_entropy(run_lm(lm, ids, (ct_lm_call){0}), targets, opts);
    ck_assert_double_lt(apart(loss, want), 1e-10);
    ck_refused(ct_lm_loss(lm, ids, ids, (ct_lm_call){0}, opts), CT_ERR_ARGUMENT, "lm_loss",
               "targets are the ids");
    ck_refused(ct_lm_loss(bare, ids, targets, (ct_lm_call){0}, opts), CT_ERR_ARGUMENT, "lm_loss",
               "no head");
    ck_refused(ct_lm_loss(lm, ids, NULL, (ct_lm_call){0}, opts), CT_ERR_ARGUMENT, "lm_loss",
               "NULL");
    ck_refused(ct_lm_loss(lm, ids, targets, (ct_lm_call){.result = CT_LM_LAST}, opts),
               CT_ERR_ARGUMENT, "lm_loss", ".result");
}
END_TEST

/* Ids and targets as parts of one tensor, which are not contiguous. */
START_TEST(losses_of_views) {
    ct_module *lm = rough_lm(LLAMA, f64);
    ct_tensor *text = some_ids(3, 8), *ids = ct_narrow(text, 1, 0, 7),
              *next = ct_narrow(text, 1, 1, 7);
    const ct_cross_entropy_opts opts = {0};
    ct_tensor *loss = ct_lm_loss(lm, ids, next, (ct_lm_call){0}, opts);
    ct_tensor *want = ct_cross_entropy(run_lm(lm, ids, (ct_lm_call){0}), next, opts);
    ck_assert_double_lt(apart(loss, want), 1e-10);
    ck_refused(ct_lm_loss(lm, ids, ct_narrow(text, 1, 0, 7), (ct_lm_call){0}, opts),
               CT_ERR_ARGUMENT, "lm_loss", "targets are the ids");
    ct_tensor *some = ct_add(text, ct_zeros(context, CT_I64, CT_SCALAR));
    for (int64_t i = 0; i < 24; i += 3) ct_data_i64(some)[i] = -100;
    ck_refused(ct_lm_loss(lm, text, some, (ct_lm_call){0}, opts), CT_ERR_ARGUMENT, "lm_loss",
               "targets are the ids");
    const int64_t one[] = {5, 5, 5, 5}; /* each next id is the id itself */
    ct_tensor *same = ct_from_i64(context, CT_SHAPE(1, 4), one),
              *after = ct_from_i64(context, CT_SHAPE(1, 4), one);
    ck_assert_ptr_nonnull(ct_lm_loss(lm, same, after, (ct_lm_call){0}, opts));
}
END_TEST

/* The gradients of all parameters as one tensor. */
static ct_tensor *gradients(ct_module *lm, ct_tensor *ids, ct_tensor *targets) {
    ct_param each = {0};
    while (ct_module_next(lm, &each)) ct_zero_grad(each.tensor);
    ck_assert(
        ct_backward(ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0})));
    ct_tensor *grad[64];
    int n = 0;
    ct_param param = {0};
    while (ct_module_next(lm, &param))
        grad[n++] = ct_clone(ct_reshape(ct_grad(param.tensor), CT_SHAPE(-1)));
    return ct_cat(grad, n, 0);
}

START_TEST(recomputed_layers_have_the_same_bits) {
    ct_tensor *ids = some_ids(2, 6), *targets = some_ids(2, 6), *grad[2];
    for (int i = 0; i < 2; i++) {
        ct_seed(context, 3);
        ct_module *lm = rough_lm(GEMMA, (ct_lm_opts){.recompute = i == 1});
        ct_module_train(lm, true);
        ct_memory_reset_peak(context);
        grad[i] = gradients(lm, ids, targets);
    }
    ck_assert_double_eq(apart(grad[0], grad[1]), 0);
    ck_assert_double_gt(apart(grad[0], ct_zeros(context, CT_F32, CT_SHAPE(ct_numel(grad[0])))), 0);
}
END_TEST

/* The row of pad_token_id gets no gradient by look-ups, in the families with a padding_idx. */
START_TEST(gradient_of_the_padding_row) {
    static const struct {
        const char *with, *without;
        bool has; /* a padding_idx */
    } cases[] = {
        {"{\"model_type\": \"llama\", \"pad_token_id\": 4, " SIZES "}",
         "{\"model_type\": \"llama\", " SIZES "}", true},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.5, \"pad_token_id\": 4, " SIZES "}",
         NEOX, false},
    };
    const int64_t text[] = {4, 7, 4, 9, 1, 2};
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(1, 6), text), *targets = some_ids(1, 6);
    for (int c = 0; c < 2; c++) {
        ct_tensor *all[2], *table[2];
        for (int i = 0; i < 2; i++) {
            ct_seed(context, 3);
            ct_module *lm = rough_lm(i ? cases[c].without : cases[c].with, f64);
            all[i] = gradients(lm, ids, targets);
            table[i] = ct_grad(
                ct_module_get(lm, c ? "gpt_neox.embed_in.weight" : "model.embed_tokens.weight"));
        }
        ct_tensor *pad = ct_select(table[0], 0, 4), *other = ct_select(table[1], 0, 4);
        ck_assert_double_gt(apart(other, ct_zeros(context, CT_F64, CT_SHAPE(16))), 0);
        ck_assert((apart(pad, ct_zeros(context, CT_F64, CT_SHAPE(16))) == 0) == cases[c].has);
        /* nothing else changes */
        ck_assert_double_eq(apart(all[0], all[1]), cases[c].has ? apart(pad, other) : 0);
    }
}
END_TEST

START_TEST(copies) {
    ct_module *lm = rough_lm(GPT2, f64);
    ct_tensor *ids = some_ids(1, 5), *before = run_lm(lm, ids, (ct_lm_call){0});
    ct_module *copy = ct_module_clone(lm);
    ck_assert_ptr_nonnull(copy);
    ck_assert_str_eq(ct_lm_about(copy).config, ct_lm_about(lm).config);
    ct_init_constant(ct_module_get(lm, "transformer.wpe.weight"), 0);
    ck_assert_double_gt(apart(run_lm(lm, ids, (ct_lm_call){0}), before), 0);
    ct_module_free(lm);
    ck_assert_double_eq(apart(run_lm(copy, ids, (ct_lm_call){0}), before), 0);
    ck_assert_ptr_eq(ct_module_get(copy, "lm_head.weight"),
                     ct_module_get(copy, "transformer.wte.weight"));
}
END_TEST

/* ---- folders ---- */

START_TEST(folders) {
    static const char *const configs[] = {LLAMA,
                                          GEMMA,
                                          GPT2,
                                          NEOX,
                                          WITH_QK_NORMS("olmo2"),
                                          GRANITE,
                                          GRANITE4,
                                          BERT("BertModel"),
                                          BERT("BertForMaskedLM")};
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        ct_module *lm = rough_lm(configs[c], f64);
        ct_tensor *ids = some_ids(2, 5), *want = run_lm(lm, ids, (ct_lm_call){0});
        const char *path = in_folder("saved");
        const ct_rng rng = ct_rng_get(context);
        ck_assert_msg(ct_lm_save(lm, path, (ct_save_opts){.shard_bytes = c % 2 ? 5000 : 0}), "%s",
                      ct_error_message(context));
        ct_module *again = ct_lm_open(context, path, f64);
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        const ct_rng after = ct_rng_get(context);
        ck_assert(!memcmp(&rng, &after, sizeof rng)); /* an open draws nothing */
        ck_assert(!ct_module_training(again));
        ck_assert_double_eq(apart(run_lm(again, ids, (ct_lm_call){0}), want), 0);
        ck_assert_str_eq(ct_lm_about(again).config, ct_lm_about(lm).config);
        /* saves f32, because f64 that is rounded twice may differ */
        ck_assert(ct_lm_save(lm, path, (ct_save_opts){.floats = CT_FILE_F32}));
        ct_module *half = ct_lm_open(context, path, (ct_lm_opts){.dtype = CT_BF16});
        ct_module *rounded = ct_lm_open(context, path, (ct_lm_opts){0});
        ck_assert(ct_module_to(rounded, CT_BF16));
        ck_assert_double_eq(
            apart(run_lm(half, ids, (ct_lm_call){0}), run_lm(rounded, ids, (ct_lm_call){0})), 0);
    }
}
END_TEST

/* A file may have a matrix that the embedding and the head share under either name. */
START_TEST(tied_matrix_under_the_name_of_the_head) {
    static const char *const configs[] = {
        GPT2, "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " SIZES "}"};
    for (int c = 0; c < 2; c++) {
        ct_module *lm = rough_lm(configs[c], f64);
        ct_tensor *ids = some_ids(2, 5), *want = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert(ct_lm_save(lm, in_folder("saved"), (ct_save_opts){0}));
        ct_safetensors *file = ct_safetensors_open(context, in_folder("saved"));
        ct_named tensors[64];
        char names[64][64];
        ct_safetensors_entry entry = {0};
        int64_t n = 0;
        while (ct_safetensors_next(file, &entry)) {
            const bool table = strstr(entry.name, c ? "embed_tokens" : "wte") != NULL;
            snprintf(names[n], sizeof names[n], "%s", table ? "lm_head.weight" : entry.name);
            tensors[n] = (ct_named){names[n], ct_safetensors_read(file, entry.name)};
            n++;
        }
        ct_safetensors_close(file);
        ck_assert(ct_tensors_save(context, in_folder("saved/model.safetensors"), tensors, n,
                                  (ct_save_opts){0}));
        ct_module *again = ct_lm_open(context, in_folder("saved"), f64);
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        ck_assert_double_eq(apart(run_lm(again, ids, (ct_lm_call){0}), want), 0);
    }
}
END_TEST

/* A number of layers that the weights cannot have is an error before a tree of them is made. */
START_TEST(more_layers_than_tensors) {
    ck_assert(ct_lm_save(rough_lm(LLAMA, f64), in_folder("saved"), (ct_save_opts){0}));
    write_text(in_folder("saved/config.json"),
               "{\"model_type\": \"llama\", \"num_key_value_heads\": 2, \"vocab_size\": 31, "
               "\"hidden_size\": 16, \"intermediate_size\": 24, \"num_attention_heads\": 4, "
               "\"num_hidden_layers\": 1000000}");
    ct_memory_reset_peak(context);
    const double before = (double)ct_memory(context).peak;
    ck_refused(ct_lm_open(context, in_folder("saved"), f64), CT_ERR_FORMAT, "1000000 layers",
               "the weights are 21 tensors");
    /* the list of the layers' options and the texts */
    ck_assert_double_lt((double)ct_memory(context).peak - before, 1e8);
}
END_TEST

START_TEST(files_beside_the_weights) {
    char first[300], second[300], path[400];
    snprintf(first, sizeof first, "%s", in_folder("first"));
    snprintf(second, sizeof second, "%s", in_folder("second"));
    ck_assert(ct_lm_save(new_lm(LLAMA, f64), first, (ct_save_opts){0}));
    snprintf(path, sizeof path, "%s/tokenizer.json", first);
    write_text(path, "{\"tokens\": 3}");
    snprintf(path, sizeof path, "%s/notes.txt", first);
    write_text(path, "not for others");
    ct_module *lm = ct_lm_open(context, first, (ct_lm_opts){0});
    ck_assert(ct_lm_save(lm, second, (ct_save_opts){.floats = CT_FILE_BF16}));
    snprintf(path, sizeof path, "%s/tokenizer.json", second);
    ck_assert_str_eq(read_text(path), "{\"tokens\": 3}");
    snprintf(path, sizeof path, "%s/notes.txt", second);
    ck_assert_ptr_null(read_text(path));
    snprintf(path, sizeof path, "%s/config.json", second);
    ck_assert_ptr_nonnull(strstr(read_text(path), "\"dtype\": \"bfloat16\""));
    ck_assert_ptr_nonnull(strstr(read_text(path), "\"architectures\": [\"LlamaForCausalLM\"]"));
    ck_assert(ct_lm_save(lm, first, (ct_save_opts){0})); /* over itself */
    snprintf(path, sizeof path, "%s/tokenizer.json", first);
    ck_assert_str_eq(read_text(path), "{\"tokens\": 3}");
}
END_TEST

START_TEST(folders_that_are_refused) {
    char path[400];
    const char *there = in_folder("there");
    ck_refused(ct_lm_open(context, there, f64), CT_ERR_IO, "there: cannot open", "lm_open");
    ck_assert(ct_lm_save(new_lm(LLAMA, f64), there, (ct_save_opts){0}));
    snprintf(path, sizeof path, "%s/config.json", there);
    write_text(path, GPT2);
    ck_refused(ct_lm_open(context, there, f64), CT_ERR_FORMAT, "missing", "transformer.wpe.weight");
    write_text(path, "{\"model_type\": \"llama\", \"num_key_value_heads\": 4, " SIZES "}");
    ck_refused(ct_lm_open(context, there, f64), CT_ERR_FORMAT, "k_proj.weight", "(16, 16)");
    write_text(path, "{\"model_type\": \"qwen2\", \"num_key_value_heads\": 2, " SIZES "}");
    ck_refused(ct_lm_open(context, there, f64), CT_ERR_FORMAT, "missing", "q_proj.bias");
    write_text(path, LLAMA);
    ck_assert_ptr_nonnull(ct_lm_open(context, there, f64));
    ck_refused(ct_lm_open(context, NULL, f64), CT_ERR_ARGUMENT, "lm_open", "NULL");
    ck_refused(ct_lm_open(context, there, (ct_lm_opts){.dtype = CT_I64}), CT_ERR_DTYPE, "lm_open",
               "bf16");
}
END_TEST

/* ---- config.json ---- */

#define WITH(text) "{\"model_type\": \"llama\", " SIZES ", " text "}"

START_TEST(texts_that_are_refused) {
    static const struct {
        const char *text, *word1, *word2;
    } cases[] = {
        {"[]", "not a JSON object", "lm_new"},
        {"{", "byte", "lm_new"},
        {"{}", "model_type", "absent"},
        {"{\"model_type\": \"mamba\"}", "\"model_type\" is \"mamba\"", "families"},
        {WITH("\"hidden_act\": \"xielu\""), "\"hidden_act\" is \"xielu\"", "not supported"},
        {WITH("\"rms_norm_eps\": -1"), "rms_norm_eps", "above 0"},
        {WITH("\"attention_dropout\": 1"), "attention_dropout", "[0, 1)"},
        {WITH("\"mlp_bias\": 1"), "mlp_bias", "neither true nor false"},
        {WITH("\"num_key_value_heads\": 3"), "4 heads", "3 key heads"},
        {WITH("\"quantization_config\": {\"bits\": 4}"), "quantization_config", "not supported"},
        {WITH("\"new_key\": 7"), "\"new_key\" is 7", ".ignore_unknown"},
        {WITH("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}"), "dynamic", "rope_type"},
        {WITH("\"rope_scaling\": {\"type\": \"linear\"}"), "rope_scaling", "factor"},
        {WITH("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"beta\": 1}"),
         "\"beta\" is 1", "rope_scaling"},
        {WITH("\"rope_parameters\": 3"), "rope_parameters", "not an object"},
        {WITH("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
              "\"partial_rotary_factor\": 0.5"),
         "partial_rotary_factor", "llama"},
        {WITH("\"layer_types\": [\"full_attention\"]"), "layer_types", "2 layers"},
        {WITH("\"no_rope_layers\": [1, 0]"), "\"no_rope_layers\" is [...]", "not known for"},
        {WITH("\"layer_types\": [\"full_attention\", \"chunked_attention\"]"), "layer_types",
         "layer 1"},
        {WITH("\"architectures\": [\"LlamaForQuestionAnswering\"]"), "architectures", "llama"},
        {WITH("\"eos_token_id\": \"</s>\""), "eos_token_id", "not an id"},
        {WITH("\"dtype\": \"int8\""), "dtype", "floats"},
        {WITH("\"head_dim\": 3000000000"), "head_dim", "2^31"},
        {WITH("\"head_dim\": 1.5"), "head_dim", "integer"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 10, \"num_attention_heads\": 4}",
         "a width of 10", "4 heads"},
        {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}", "add_cross_attention",
         "not supported"},
        {"{\"model_type\": \"llama\", \"is_causal\": false}", "\"is_causal\" is false",
         "later tokens"},
        {"{\"model_type\": \"llama\", \"sliding_window\": 4}", "\"sliding_window\" is 4", "cache"},
        {"{\"model_type\": \"gpt_neox\", \"head_dim\": 8}", "\"head_dim\" is 8", "width"},
        {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
         "relative_key", "absolute"},
        {"{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"rope_type\": \"linear\", "
         "\"factor\": 2}}",
         "rope_parameters", "for full_attention and for sliding_attention"},
        {"{\"model_type\": \"gemma3_text\", \"rope_scaling\": {\"type\": \"linear\", "
         "\"factor\": 2}}",
         "\"type\" is \"linear\"", "rope_type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_refused(ct_lm_new(context, cases[i].text, f64), CT_ERR_FORMAT, cases[i].word1,
                   cases[i].word2);
    ck_assert_ptr_nonnull(
        ct_lm_new(context, WITH("\"new_key\": 7"), (ct_lm_opts){.ignore_unknown = true}));
}
END_TEST

/* Of rope_scaling and rope_parameters transformers takes the first, with the base of the top level;
 * and GPT-NeoX's own names before others. */
START_TEST(two_dialects_at_once) {
    static const char *const pairs[][2] = {
        {WITH("\"rope_theta\": 50, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}, "
              "\"rope_parameters\": {\"rope_theta\": 9, \"rope_type\": \"default\"}"),
         WITH("\"rope_parameters\": {\"rope_theta\": 50, \"rope_type\": \"linear\", \"factor\": "
              "4}")},
        {WITH("\"rope_theta\": 50, \"rope_scaling\": {}, "
              "\"rope_parameters\": {\"rope_theta\": 9, \"rope_type\": \"default\"}"),
         WITH("\"rope_theta\": 9")},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 1, \"partial_rotary_factor\": 0.5, "
         "\"rotary_emb_base\": 9, \"rope_theta\": 50, " SIZES "}",
         "{\"model_type\": \"gpt_neox\", \"rope_parameters\": {\"rope_theta\": 9, "
         "\"partial_rotary_factor\": 1}, " SIZES "}"},
    };
    ct_tensor *ids = some_ids(1, 9);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ct_tensor *logits[2];
        for (int k = 0; k < 2; k++) {
            ct_seed(context, 5);
            logits[k] = run_lm(rough_lm(pairs[i][k], f64), ids, (ct_lm_call){0});
        }
        ck_assert_double_eq(apart(logits[0], logits[1]), 0);
    }
}
END_TEST

/* Keys that programs write beside the model's. */
START_TEST(keys_that_change_nothing) {
    static const char *const keys[] = {
        "\"_model_name_or_path\": \"x\"",  "\"unk_token_id\": 0",     "\"_commit_hash\": null",
        "\"unsloth_fixed\": true",         "\"use_mrope\": false",    "\"_num_labels\": 1",
        "\"directionality\": \"bidi\"",    "\"pooler_fc_size\": 768", "\"output_past\": true",
        "\"predict_special_tokens\": true"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", " SIZES ", %s}", keys[i]);
        ck_assert_msg(ct_lm_new(context, text, f64) != NULL, "%s", ct_error_message(context));
    }
}
END_TEST

/* A text that is cut anywhere is refused, and nothing is left behind. */
START_TEST(texts_that_are_cut) {
    char text[512];
    const size_t size = strlen(GEMMA);
    const int64_t before = ct_memory(context).live;
    for (size_t n = 0; n < size; n++) {
        snprintf(text, sizeof text, "%.*s", (int)n, GEMMA);
        ck_refused(ct_lm_new(context, text, f64), CT_ERR_FORMAT, "lm_new", "byte");
    }
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

/* ---- caches ---- */

START_TEST(rows_of_a_cache) {
    ct_module *lm = rough_lm(GEMMA, f64);
    ct_lm_cache *cache = ct_lm_cache_new(lm, 2, 12);
    ct_tensor *ids = some_ids(2, 4), *next = some_ids(2, 1);
    const bool mask[] = {true, true, true, true, true, true, false, false};
    int64_t lengths[2];
    run_lm(lm, ids,
           (ct_lm_call){.cache = cache, .key_mask = ct_from_bool(context, CT_SHAPE(2, 4), mask)});
    ck_assert(ct_lm_cache_lengths(cache, lengths) && lengths[0] == 4 && lengths[1] == 2);
    ck_assert(ct_lm_cache_select(cache, (const int64_t[]){1, 0}));
    ck_assert(ct_lm_cache_lengths(cache, lengths) && lengths[0] == 2 && lengths[1] == 4);
    ct_tensor *y = run_lm(lm, next, (ct_lm_call){.cache = cache});
    for (int b = 0; b < 2; b++) { /* row b was row 1 - b */
        ct_tensor *parts[] = {ct_narrow(ct_narrow(ids, 0, 1 - b, 1), 1, 0, b ? 4 : 2),
                              ct_narrow(next, 0, b, 1)};
        ct_tensor *whole = run_lm(lm, ct_cat(parts, 2, 1), (ct_lm_call){.result = CT_LM_LAST});
        ck_assert_double_lt(apart(ct_narrow(y, 0, b, 1), whole), 1e-11);
    }
    ck_assert(ct_lm_cache_set_lengths(cache, (const int64_t[]){2, 4}));
    ck_assert_double_lt(apart(run_lm(lm, next, (ct_lm_call){.cache = cache}), y), 1e-11);
    ck_refused(ct_lm_cache_set_lengths(cache, (const int64_t[]){9, 4}), CT_ERR_ARGUMENT, "row 0",
               "9");
    ck_refused(ct_lm_cache_select(cache, (const int64_t[]){2, 0}), CT_ERR_ARGUMENT, "row 0", "2");
    const bool hole[] = {true, true, true, true, false, true, true, true};
    ck_refused(ct_lm_forward(lm, ids,
                             (ct_lm_call){.cache = cache,
                                          .key_mask = ct_from_bool(context, CT_SHAPE(2, 4), hole)}),
               CT_ERR_ARGUMENT, "key_mask[1, 1]", "padding");
    ck_refused(ct_lm_forward(lm, some_ids(1, 1), (ct_lm_call){.cache = cache}), CT_ERR_ARGUMENT,
               "lm_forward", "rows");
    ck_refused(ct_lm_forward(lm, some_ids(2, 12), (ct_lm_call){.cache = cache}), CT_ERR_SHAPE,
               "room for 12", "do not fit");
    ck_assert(ct_lm_cache_lengths(cache, lengths) && lengths[0] == 3 && lengths[1] == 5);
    ck_refused(ct_lm_cache_new(new_lm(BERT("BertModel"), f64), 1, 1), CT_ERR_ARGUMENT,
               "lm_cache_new", "causal");
    ct_module_free(lm); /* and with it the cache */
    ck_refused(ct_lm_cache_lengths(cache, lengths), CT_ERR_ARGUMENT, "lm_cache_lengths", "freed");
    ct_lm_cache_free(cache);
}
END_TEST

static ct_batch some_prompts(int64_t B, int64_t T) { return (ct_batch){.ids = some_ids(B, T)}; }

/* Adapters of a model in bf16 are trained, although an optimiser refuses its matrices. */
START_TEST(adapters_beside_bf16) {
    ct_module *lm = ct_lm_new(context, LLAMA, (ct_lm_opts){.dtype = CT_BF16});
    ck_assert_int_eq(ct_lora_add(lm, "*_proj", (ct_lora_opts){.rank = 2}), 14);
    ct_optim *optim = ct_adamw_new(lm, (ct_adamw_opts){.lr = 0.1});
    ct_tensor *ids = some_ids(2, 6), *targets = some_ids(2, 6);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        ct_optim_zero_grad(optim);
        ct_tensor *y = ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0});
        ct_backward(y);
        loss[i] = ct_item(y);
        ck_assert(ct_optim_step(optim));
    }
    ck_assert_double_lt(loss[1], loss[0]);
}
END_TEST

START_TEST(generators) {
    ct_module *lm = rough_lm(LLAMA, f64);
    const ct_generate_opts opts = {.max_new = 4, .no_eos = true};
    ct_generator *generator = ct_generate_new(lm, some_prompts(2, 3), opts);
    int64_t ids[2];
    ct_module_train(lm, true);
    ck_assert(ct_generate_next(generator, ids) && ids[0] >= 0 && ids[1] >= 0);
    ck_assert(ct_module_training(lm));
    ck_assert(ct_generate_end(generator, 1));
    for (int i = 0; i < 3; i++)
        ck_assert(ct_generate_next(generator, ids) && ids[0] >= 0 && ids[1] == -1);
    ck_assert(!ct_generate_next(generator, ids) && ids[0] == -1 && ct_error(context) == CT_OK);
    ck_refused(ct_generate_end(generator, 2), CT_ERR_ARGUMENT, "generate_end", "row 2 of 2");
    ck_refused(ct_generate_next(generator, NULL), CT_ERR_ARGUMENT, "generate_next", "NULL");
    ck_refused(ct_generate_new(new_lm(BERT("BertModel"), f64), some_prompts(1, 1), opts),
               CT_ERR_ARGUMENT, "generate_new", "causal");
    ck_refused(ct_generate_new(lm, (ct_batch){0}, opts), CT_ERR_ARGUMENT, "generate_new", ".ids");
    ct_module_free(lm); /* and with it the generator */
    ck_refused(ct_generate_next(generator, ids), CT_ERR_ARGUMENT, "generate_next", "ended");
    ct_generate_free(generator);
    ck_assert_int_eq(ct_lm_generate_opts(new_lm(GPT2, f64)).max_new, 0);
}
END_TEST

START_TEST(models_of_another_type) {
    ct_module *other =
        ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2});
    ck_refused(ct_lm_forward(other, some_ids(1, 1), (ct_lm_call){0}), CT_ERR_ARGUMENT,
               "LanguageModel", "Linear");
    ck_refused(ct_lm_save(other, in_folder("x"), (ct_save_opts){0}), CT_ERR_ARGUMENT,
               "LanguageModel", "Linear");
    ck_refused(ct_lm_resize(other, 5), CT_ERR_ARGUMENT, "LanguageModel", "Linear");
    ck_assert_str_eq(ct_module_kind(other), "Linear");
    ck_assert_str_eq(ct_module_kind(NULL), "");
}
END_TEST

int main(void) {
    return run_tests(
        "models", setup, teardown_folders,
        TESTS(TEST(results_of_each_architecture), TEST(packed_rows), TEST(norms_of_queries),
              TEST(losses), TEST(losses_of_views), TEST(recomputed_layers_have_the_same_bits),
              TEST(gradient_of_the_padding_row), TEST(copies), TEST(folders),
              TEST(tied_matrix_under_the_name_of_the_head), TEST(more_layers_than_tensors),
              TEST(files_beside_the_weights), TEST(folders_that_are_refused),
              TEST(texts_that_are_refused), TEST(two_dialects_at_once),
              TEST(keys_that_change_nothing), TEST(texts_that_are_cut), TEST(rows_of_a_cache),
              TEST(adapters_beside_bf16), TEST(generators), TEST(models_of_another_type)));
}
