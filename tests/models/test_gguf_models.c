/* Models in GGUF files: each family goes into a file and comes back, in each float type, and so do
 * adapters. test_gguf_files.c has files of other writers. tests/torch/test_gguf_models_live.py
 * compares the files with gguf-py and llama.cpp's converter. */
#include "gguf_models.h"

static const struct {
    const char *name, *config;
} models[] = {
    {"gpt2", "{\"model_type\": \"gpt2\", \"vocab_size\": 35, \"n_embd\": 32, \"n_layer\": 2, "
             "\"n_head\": 4, \"n_positions\": 48, " IDS "}"},
    {"llama", DECODER("llama", "")},
    {"llama tied, biases, a head of its own",
     DECODER("llama", "\"tie_word_embeddings\": true, \"attention_bias\": true, "
                      "\"mlp_bias\": true, \"head_dim\": 12, ")},
    {"llama 3",
     DECODER("llama", "\"rope_parameters\": {\"rope_type\": \"llama3\", "
                      "\"rope_theta\": 500000.0, \"factor\": 8.0, \"low_freq_factor\": "
                      "1.0, \"high_freq_factor\": 4.0, "
                      "\"original_max_position_embeddings\": 3000}, \"head_dim\": 32, ")},
    {"llama linear", DECODER("llama", "\"rope_parameters\": {\"rope_type\": \"linear\", "
                                      "\"rope_theta\": 20000.0, \"factor\": 2.5}, ")},
    {"llama yarn", DECODER("llama", "\"rope_parameters\": {\"rope_type\": \"yarn\", "
                                    "\"rope_theta\": 10000.0, \"factor\": 4.0, \"beta_fast\": 16, "
                                    "\"original_max_position_embeddings\": 16}, ")},
    {"mistral", DECODER("mistral", "\"sliding_window\": null, ")},
    {"qwen2", DECODER("qwen2", "\"rms_norm_eps\": 1e-5, ")},
    {"qwen3", DECODER("qwen3", "\"head_dim\": 16, \"tie_word_embeddings\": true, ")},
    {"gemma3", DECODER("gemma3_text", "\"head_dim\": 8, \"query_pre_attn_scalar\": 8, "
                                      "\"sliding_window\": 3, \"final_logit_softcapping\": 20.0, "
                                      "\"layer_types\": [\"sliding_attention\", "
                                      "\"full_attention\"], ")},
    {"smollm3", DECODER("smollm3", "\"num_key_value_heads\": 4, ")},
    {"olmo2", DECODER("olmo2", "")},
    {"gpt_neox", "{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.5, " WIDE IDS "}"},
    {"gpt_neox in sequence",
     "{\"model_type\": \"gpt_neox\", \"use_parallel_residual\": false, " WIDE IDS "}"},
    {"gemma3 of seven layers",
     "{\"model_type\": \"gemma3_text\", \"vocab_size\": 35, \"hidden_size\": 32, "
     "\"intermediate_size\": 64, \"num_hidden_layers\": 7, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 2, \"max_position_embeddings\": 48, \"head_dim\": 8, "
     "\"query_pre_attn_scalar\": 8, \"sliding_window\": 2, " IDS "}"},
    {"bert", "{\"model_type\": \"bert\", " WIDE IDS "}"},
    {"gemma3 both ways",
     "{\"model_type\": \"gemma3_text\", \"architectures\": [\"Gemma3TextModel\"], "
     "\"use_bidirectional_attention\": true, \"num_key_value_heads\": 2, \"head_dim\": 8, "
     "\"query_pre_attn_scalar\": 8, \"sliding_window\": 2, " WIDE IDS "}"},
    {"distilbert", "{\"model_type\": \"distilbert\", \"vocab_size\": 35, \"dim\": 32, "
                   "\"hidden_dim\": 64, \"n_layers\": 2, \"n_heads\": 4, "
                   "\"max_position_embeddings\": 48, " IDS "}"},
    {"granite", DECODER("granite", "\"embedding_multiplier\": 3, \"attention_multiplier\": 0.2, "
                                   "\"residual_multiplier\": 0.6, \"logits_scaling\": 4, ")},
};
enum { GGUF_MODELS = sizeof models / sizeof *models };

static const char *config_of(int i) {
    static char text[1024];
    snprintf(text, sizeof text, "%s", models[i].config);
    char *twice = strstr(text, "\"num_key_value_heads\": 4, ");
    if (twice) memset(strstr(text, "\"num_key_value_heads\": 2, "), ' ', 26);
    return text;
}

static ct_tensor *result_of(ct_module *lm) {
    const int64_t ids[] = {4, 9, 34, 0, 17, 21, 5, 30, 2, 11};
    return ct_clone(run_lm(lm, ct_from_i64(context, CT_SHAPE(2, 5), ids), (ct_lm_call){0}));
}

static bool is_norm(const char *name) { return strstr(name, "norm") != NULL; }

/* The parameters of two models that differ by more than a fraction of their largest element. */
static void ck_same_params(ct_module *a, ct_module *b, const char *what, double fraction) {
    ct_param p = {0}, q = {0};
    while (ct_module_next(a, &p)) {
        if (strstr(p.name, "pooler")) continue; /* a GGUF file has none */
        ck_assert_msg(ct_module_next(b, &q), "%s: %s is missing", what, p.name);
        ck_assert_str_eq(p.name, q.name);
        ct_scope scope = ct_scope_open_no_grad(context);
        const bool shifted = is_norm(p.name) && !strcmp(ct_lm_about(a).family, "gemma3_text");
        const double most = ct_item(ct_max(ct_abs(ct_cast(p.tensor, CT_F32)), CT_ALL, false)),
                     off = apart(ct_cast(p.tensor, CT_F32), ct_cast(q.tensor, CT_F32));
        ct_scope_close(scope);
        ck_assert_msg(off <= (shifted ? 1.2e-7 * (most + 1) : 0) + fraction * most,
                      "%s: %s differs by %g of %g", what, p.name, off, most);
    }
    ck_assert_msg(!ct_module_next(b, &q), "%s: %s was added", what, q.name);
}

static void ck_same_facts(const ct_module *a, const ct_module *b, const char *what) {
    const ct_lm_info x = ct_lm_about(a), y = ct_lm_about(b);
    const int64_t want[] = {x.vocab_size, x.width,      x.layers, x.heads, x.kv_heads,
                            x.head_dim,   x.max_length, x.bos,    x.pad,   x.n_eos},
                  got[] = {y.vocab_size, y.width,      y.layers, y.heads, y.kv_heads,
                           y.head_dim,   y.max_length, y.bos,    y.pad,   y.n_eos};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        ck_assert_msg(want[i] == got[i], "%s: fact %zu is %lld, not %lld", what, i,
                      (long long)got[i], (long long)want[i]);
    ck_assert(!memcmp(x.eos, y.eos, (size_t)x.n_eos * sizeof *x.eos));
}

/* Without a tokenizer a key tells readers the number of ids. */
static void ck_says_vocabulary(const char *path, int64_t want) {
    cti_gguf file;
    cti_text arch;
    char key[64];
    int64_t got = -1;
    ck_assert(cti_gguf_open(context, "test", path, &file));
    ck_assert(cti_gguf_text(&file, "general.architecture", &arch));
    snprintf(key, sizeof key, "%s.vocab_size", arch.at);
    ck_assert(cti_gguf_integer(&file, key, &got));
    ck_assert_msg(got == want, "%s is %lld, not %lld", key, (long long)got, (long long)want);
    cti_gguf_close(&file);
}

/* A model comes back with the same bits, and goes on into a folder of safetensors. */
START_TEST(round_trips) {
    for (int i = 0; i < GGUF_MODELS; i++) {
        const char *what = models[i].name;
        ct_scope scope = ct_scope_open(context);
        ct_module *lm = rough_lm(config_of(i), (ct_lm_opts){0});
        save_lm(lm, in_folder("m.gguf"), CT_FILE_SAME);
        ck_says_vocabulary(in_folder("m.gguf"), ct_lm_about(lm).vocab_size);
        ct_module *back = open_lm(in_folder("m.gguf"), (ct_lm_opts){0});
        ck_same_facts(lm, back, what);
        ck_same_params(lm, back, what, 0);
        const double off = apart(result_of(lm), result_of(back));
        ck_assert_msg(off <= (strstr(what, "gemma") ? 1e-4 : 0), "%s: logits differ by %g", what,
                      off);
        save_lm(back, in_folder("again"), CT_FILE_SAME);
        ct_module *again = open_lm(in_folder("again"), (ct_lm_opts){0});
        ck_same_facts(lm, again, what);
        ck_assert_msg(apart(result_of(back), result_of(again)) == 0, "%s", what);
        ct_module_free(again), ct_module_free(back), ct_module_free(lm);
        ct_scope_close(scope);
        remove_tree(in_folder("again"));
    }
}
END_TEST

/* A rounded file is near the model, and what is read from it is written with the same bytes. */
START_TEST(round_trips_rounded) {
    static const struct {
        ct_file_float floats;
        double off;
    } formats[] = {{CT_FILE_F32, 0},
                   {CT_FILE_F16, 1e-3},
                   {CT_FILE_BF16, 8e-3},
                   {CT_FILE_Q8_0, 1e-2},
                   {CT_FILE_Q4_0, 0.14}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int i = 0; i < GGUF_MODELS; i++) {
            char *first, *second;
            ct_scope scope = ct_scope_open(context);
            ct_module *lm = rough_lm(config_of(i), (ct_lm_opts){0});
            save_lm(lm, in_folder("m.gguf"), formats[f].floats);
            ct_module *back = open_lm(in_folder("m.gguf"), (ct_lm_opts){0});
            ck_same_params(lm, back, models[i].name, formats[f].off);
            const size_t size = bytes_of(in_folder("m.gguf"), &first);
            save_lm(back, in_folder("m.gguf"), formats[f].floats);
            ck_assert_uint_eq(bytes_of(in_folder("m.gguf"), &second), size);
            if (!strstr(models[i].name, "gemma3")) /* w + 1 - 1 + 1 may round twice */
                ck_assert_msg(!memcmp(first, second, size), "%s", models[i].name);
            free(first), free(second);
            ct_module_free(back), ct_module_free(lm);
            ct_scope_close(scope);
        }
}
END_TEST

/* What lies in the file, apart from what reads it: the rows of q and k in pairs, those of GPT-NeoX
 * apart by kind, gemma's norms with 1 added, GPT-2's matrices as (out, in). */
START_TEST(rows_in_the_file) {
    static const struct {
        int model;
        const char *param, *tensor;
        int64_t row, row_in_file; /* heads of 8 rows */
        double offset;
    } cases[] = {
        {1, "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", 8 + 4 + 3, 8 + 7, 0},
        {1, "model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight", 2, 4, 0},
        {1, "model.layers.1.self_attn.v_proj.weight", "blk.1.attn_v.weight", 2, 2, 0},
        {7, "model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", 2, 2, 0},
        {12, "gpt_neox.layers.0.attention.query_key_value.weight", "blk.0.attn_qkv.weight",
         2 * 24 + 8 + 5, 32 + 2 * 8 + 5, 0},
        {12, "gpt_neox.layers.0.attention.query_key_value.bias", "blk.0.attn_qkv.bias",
         3 * 24 + 16 + 1, 64 + 3 * 8 + 1, 0},
        {9, "model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight", 3, 3, 1},
        {9, "model.layers.1.post_attention_layernorm.weight", "blk.1.post_attention_norm.weight", 5,
         5, 1},
        {9, "model.layers.1.pre_feedforward_layernorm.weight", "blk.1.ffn_norm.weight", 5, 5, 1},
        {0, "transformer.h.1.mlp.c_fc.weight", "blk.1.ffn_up.weight", 70, 70, 0},
        {11, "model.layers.1.post_attention_layernorm.weight", "blk.1.post_attention_norm.weight",
         5, 5, 0},
        {18, "model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight", 2, 4, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cti_gguf file;
        float row[64];
        ct_module *lm = rough_lm(config_of(cases[i].model), (ct_lm_opts){0});
        save_lm(lm, in_folder("m.gguf"), CT_FILE_SAME);
        const char *path = in_folder("m.gguf");
        ck_assert(cti_gguf_open(context, "test", path, &file));
        int64_t k = 0;
        while (k < file.tensors && strcmp(file.tensor[k].name.at, cases[i].tensor)) k++;
        ck_assert_msg(k < file.tensors, "no %s", cases[i].tensor);
        const cti_file_tensor *tensor = &file.tensor[k];
        const int64_t n = tensor->ndim == 2 ? tensor->shape.dim[1] : 1;
        ck_assert_int_le(n, 64);
        ck_assert(cti_file_read(&file.file,
                                file.data + tensor->begin + cases[i].row_in_file * n * 4, row,
                                (size_t)n * 4));
        const float *want = ct_data_f32(ct_module_get(lm, cases[i].param)) + cases[i].row * n;
        for (int64_t d = 0; d < n; d++)
            ck_assert_msg(row[d] == want[d] + (float)cases[i].offset, "%s: %g, not %g",
                          cases[i].tensor, (double)row[d], (double)want[d]);
        cti_gguf_close(&file);
        ct_module_free(lm);
    }
}
END_TEST

/* A model whose matrices rest in blocks has the bits of the file's, and writes them again. With
 * CT_Q4_0 other blocks stay Q8_0. */
START_TEST(blocks_stay) {
    static const struct {
        ct_file_float floats;
        ct_dtype open, want;
    } cases[] = {{CT_FILE_Q8_0, CT_Q8_0, CT_Q8_0},
                 {CT_FILE_Q4_0, CT_Q4_0, CT_Q4_0},
                 {CT_FILE_Q8_0, CT_Q4_0, CT_Q8_0},
                 {CT_FILE_BF16, CT_BF16, CT_BF16}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int i = 0; i < GGUF_MODELS; i += 3) {
            char *first, *second;
            ct_scope scope = ct_scope_open(context);
            ct_module *lm = rough_lm(config_of(i), (ct_lm_opts){0});
            save_lm(lm, in_folder("m.gguf"), cases[c].floats);
            ct_module *plain = open_lm(in_folder("m.gguf"), (ct_lm_opts){0}),
                      *rests = open_lm(in_folder("m.gguf"), (ct_lm_opts){.dtype = cases[c].open});
            ck_assert_int_eq(ct_lm_file_dtype(context, in_folder("m.gguf")),
                             cases[c].floats == CT_FILE_Q8_0 ? CT_Q8_0 : cases[c].want);
            ct_param param = {0};
            int n = 0;
            while (ct_module_next(rests, &param)) n += ct_dtype_of(param.tensor) == cases[c].want;
            ck_assert_msg(n >= 9, "%s: %d matrices", models[i].name, n);
            ck_assert_msg(apart(result_of(plain), result_of(rests)) == 0, "%s", models[i].name);
            const size_t size = bytes_of(in_folder("m.gguf"), &first);
            save_lm(rests, in_folder("m.gguf"), CT_FILE_SAME);
            ck_assert_uint_eq(bytes_of(in_folder("m.gguf"), &second), size);
            ck_assert_msg(strstr(models[i].name, "gemma3") || !memcmp(first, second, size), "%s",
                          models[i].name);
            free(first), free(second);
            ct_module_free(rests), ct_module_free(plain), ct_module_free(lm);
            ct_scope_close(scope);
        }
}
END_TEST

static void adapters_roughen(ct_module *lm) {
    ct_param param = {0};
    while (ct_module_next(lm, &param))
        if (strstr(param.name, "lora_B")) ct_init_normal(param.tensor, 0, 0.5);
}

/* Granite 4.0 has gate and up in one Linear, and the file has two tensors. They come back as a
 * granite, and so do an adapter's. */
START_TEST(two_tensors_of_one_linear) {
    for (int tied = 0; tied < 2; tied++) {
        char config[1024];
        snprintf(config, sizeof config, "{\"tie_word_embeddings\": %s, %s", tied ? "true" : "false",
                 &GRANITE4[1]);
        ct_module *lm = rough_lm(config, (ct_lm_opts){0});
        save_lm(lm, in_folder("m.gguf"), CT_FILE_SAME);
        ct_module *back = open_lm(in_folder("m.gguf"), (ct_lm_opts){0});
        ck_assert_str_eq(ct_lm_about(back).family, "granite");
        ct_tensor *ids = some_ids(2, 7), *want = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert_double_lt(apart(run_lm(back, ids, (ct_lm_call){0}), want), 1e-4);
        ck_assert_int_eq(ct_lora_add(lm, "*_linear", (ct_lora_opts){.rank = 3, .alpha = 5}), 4);
        adapters_roughen(lm);
        ck_assert_msg(ct_lora_save(lm, in_folder("adapter.gguf")), "%s", ct_error_message(context));
        ct_tensor *adapted = run_lm(lm, ids, (ct_lm_call){0});
        ck_assert_double_gt(apart(adapted, want), 1e-2);
        ck_assert_msg(ct_lora_load(back, in_folder("adapter.gguf")), "%s",
                      ct_error_message(context));
        ck_assert_double_lt(apart(run_lm(back, ids, (ct_lm_call){0}), adapted), 1e-4);
        ct_module_free(back), ct_module_free(lm);
    }
}
END_TEST

/* RoBERTa's positions begin behind pad_token_id. A file has the rows from there on, which is a
 * BERT. */
START_TEST(positions_behind_padding) {
    ct_module *lm = rough_lm("{\"model_type\": \"roberta\", \"type_vocab_size\": 1, " WIDE
                             "\"pad_token_id\": 3}",
                             (ct_lm_opts){0});
    ck_assert_int_eq(ct_lm_about(lm).max_length, 48 - 4);
    ck_refused(ct_lm_forward(lm, ct_zeros(context, CT_I64, CT_SHAPE(1, 45)), (ct_lm_call){0}) !=
                   NULL,
               CT_ERR_ARGUMENT, "lm_forward", "45 tokens");
    save_lm(lm, in_folder("m.gguf"), CT_FILE_SAME);
    ct_module *back = open_lm(in_folder("m.gguf"), (ct_lm_opts){0});
    ck_assert_str_eq(ct_lm_about(back).family, "bert");
    ck_assert_int_eq(ct_lm_about(back).max_length, 48 - 4);
    ck_assert_double_eq(apart(result_of(lm), result_of(back)), 0);
    ck_refused(ct_lm_new(context, "{\"model_type\": \"roberta\", \"pad_token_id\": null}",
                         (ct_lm_opts){0}) != NULL,
               CT_ERR_FORMAT, "pad_token_id", "positions begin behind it");
}
END_TEST

/* Granite's readers take a flag for whether there are rotary positions. */
/* A Granite without RoPE comes back as Granite 4.0, whose config.json can say so, with gate and up
 * in one Linear again. */
START_TEST(granite_without_rope) {
    static const char *const keys[] = {"\"position_embedding_type\": \"nope\"",
                                       "\"num_local_experts\": 0", "\"attention\""};
    const ct_dtype dtypes[] = {CT_F32, CT_Q8_0};
    char config[1024];
    snprintf(config, sizeof config, "%s", GRANITE4);
    memcpy(strstr(config, "\"rope\""), "\"nope\"", 6);
    ct_module *lm = rough_lm(config, (ct_lm_opts){0}),
              *turned = rough_lm(GRANITE4, (ct_lm_opts){0});
    ct_tensor *ids = some_ids(2, 7), *want = run_lm(lm, ids, (ct_lm_call){0});
    for (int i = 0; i < 2; i++) {
        save_lm(lm, in_folder("m.gguf"), i ? CT_FILE_Q8_0 : CT_FILE_SAME);
        ct_module *back = open_lm(in_folder("m.gguf"), (ct_lm_opts){.dtype = dtypes[i]});
        ck_assert_str_eq(ct_lm_about(back).family, "granitemoehybrid");
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            ck_assert_msg(strstr(ct_lm_about(back).config, keys[k]) != NULL, "%s", keys[k]);
        ct_tensor *got = run_lm(back, ids, (ct_lm_call){0});
        ck_assert_double_lt(apart(got, want), i ? 0.2 : 1e-4);
        ck_assert(ct_lm_save(back, in_folder("folder"), (ct_save_opts){.floats = CT_FILE_F32}));
        ct_module *again = open_lm(in_folder("folder"), (ct_lm_opts){0});
        ck_assert_double_lt(apart(run_lm(again, ids, (ct_lm_call){0}), got), 1e-4);
        ct_module_free(again), ct_module_free(back);
    }
    save_lm(turned, in_folder("m.gguf"), CT_FILE_SAME);
    ck_assert_str_eq(ct_lm_about(open_lm(in_folder("m.gguf"), (ct_lm_opts){0})).family, "granite");
}
END_TEST

/* ---- adapters ---- */

START_TEST(adapters) {
    static const int which[] = {0, 1, 2, 7, 12};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        ct_module *lm = rough_lm(config_of(which[i]), (ct_lm_opts){0});
        const int64_t adapted = ct_lora_add(lm,
                                            which[i] == 0    ? "*c_*"
                                            : which[i] == 12 ? "*query_key_value"
                                                             : "*_proj",
                                            (ct_lora_opts){.rank = 3, .alpha = 5});
        ck_assert_int_gt(adapted, 1);
        adapters_roughen(lm);
        ck_assert_msg(ct_lora_save(lm, in_folder("adapter.gguf")), "%s", ct_error_message(context));
        ct_tensor *want = result_of(lm);
        ct_module *other = ct_module_clone(lm);
        ct_param zeroed = {0};
        while (ct_module_next(other, &zeroed))
            if (strstr(zeroed.name, "lora_")) ct_init_constant(zeroed.tensor, 0);
        ck_assert(apart(result_of(other), want) > 0.1);
        ck_assert_msg(ct_lora_load(other, in_folder("adapter.gguf")), "%s",
                      ct_error_message(context));
        ck_assert(apart(result_of(other), want) == 0);
        ct_module_free(lm), ct_module_free(other);
    }
}
END_TEST

int main(void) {
    return run_tests("gguf models", setup, end_with_folders,
                     TESTS(TEST(round_trips), TEST(round_trips_rounded), TEST(rows_in_the_file),
                           TEST(blocks_stay), TEST(two_tensors_of_one_linear),
                           TEST(positions_behind_padding), TEST(granite_without_rope),
                           TEST(adapters)));
}
