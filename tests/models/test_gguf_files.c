/* GGUF files of models as other writers may have them, what is refused, and by which name: keys and
 * tensors of a file that is read, and options of a model that a file cannot say. */
#include "gguf_models.h"

/* ---- files of other writers ---- */

typedef struct {
    const char *without; /* a key or a tensor that is left out, or NULL */
    void (*more)(cti_gguf_out *out);
} crafted;

static bool is_left_out(const crafted *how, const char *name) {
    return how->without && !strcmp(how->without, name);
}

static void craft_tensor(cti_gguf_out *out, const crafted *how, const char *name, ct_shape shape) {
    if (is_left_out(how, name)) return;
    ct_tensor *tensor = ct_empty(context, CT_F32, shape);
    for (int64_t i = 0; i < ct_numel(tensor); i++)
        ct_data_f32(tensor)[i] = (float)(strlen(name) + (size_t)i % 7) / 16;
    cti_gguf_put_tensor(out, name, tensor, CTI_FILE_F32, (cti_row_grid){0}, 0, false);
}

/* Writes a llama of one layer. */
static const char *craft(crafted how) {
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.context_length", 16},      {"llama.embedding_length", 8},
                 {"llama.block_count", 1},          {"llama.feed_forward_length", 6},
                 {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 1}};
    static const struct {
        const char *name;
        int64_t rows, columns;
    } tensors[] = {{"token_embd.weight", 5, 8},     {"output.weight", 5, 8},
                   {"output_norm.weight", 8, 0},    {"blk.0.attn_norm.weight", 8, 0},
                   {"blk.0.attn_q.weight", 8, 8},   {"blk.0.attn_k.weight", 4, 8},
                   {"blk.0.attn_v.weight", 4, 8},   {"blk.0.attn_output.weight", 8, 8},
                   {"blk.0.ffn_norm.weight", 8, 0}, {"blk.0.ffn_gate.weight", 6, 8},
                   {"blk.0.ffn_up.weight", 6, 8},   {"blk.0.ffn_down.weight", 8, 6}};
    static const char architecture[] = "general.architecture",
                      eps[] = "llama.attention.layer_norm_rms_epsilon";
    const char *path = in_folder("crafted.gguf");
    ct_scope scope = ct_scope_open(context);
    cti_gguf_out out;
    ck_assert(cti_gguf_out_begin(context, "craft", path, &out));
    if (!is_left_out(&how, architecture))
        cti_gguf_put_text(&out, architecture, cti_text_of("llama"));
    if (!is_left_out(&how, eps)) cti_gguf_put_f32(&out, eps, 1e-5F);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!is_left_out(&how, sizes[i].key)) cti_gguf_put_u32(&out, sizes[i].key, sizes[i].value);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        craft_tensor(&out, &how, tensors[i].name,
                     tensors[i].columns ? CT_SHAPE(tensors[i].rows, tensors[i].columns)
                                        : CT_SHAPE(tensors[i].rows));
    if (how.more) how.more(&out);
    ck_assert_msg(cti_gguf_out_write(&out), "%s", ct_error_message(context));
    cti_gguf_out_end(&out);
    ct_scope_close(scope);
    return path;
}

static const crafted whole = {0};
static void put_falcon(cti_gguf_out *out) {
    cti_gguf_put_text(out, "general.architecture", cti_text_of("falcon"));
}
static void put_many_layers(cti_gguf_out *out) {
    cti_gguf_put_u32(out, "llama.block_count", 1000000);
}
static void put_two_layers(cti_gguf_out *out) { cti_gguf_put_u32(out, "llama.block_count", 2); }
static void put_text_length(cti_gguf_out *out) {
    cti_gguf_put_text(out, "llama.context_length", cti_text_of("16"));
}
static void put_length_of_head(cti_gguf_out *out) {
    cti_gguf_put_u32(out, "llama.attention.key_length", 4);
    cti_gguf_put_u32(out, "llama.attention.value_length", 8);
}
static void put_unequal_heads(cti_gguf_out *out) {
    cti_gguf_put_array(out, "llama.attention.head_count", CTI_GGUF_U32, 2);
    cti_gguf_add_u32(out, 2), cti_gguf_add_u32(out, 4);
}
static void put_equal_heads(cti_gguf_out *out) {
    cti_gguf_put_array(out, "llama.attention.head_count", CTI_GGUF_I32, 2);
    cti_gguf_add_i32(out, 2), cti_gguf_add_i32(out, 2);
}
static void put_negative_heads(cti_gguf_out *out) {
    cti_gguf_put_i32(out, "llama.attention.head_count", -2);
}
static void put_no_heads(cti_gguf_out *out) {
    cti_gguf_put_i32(out, "llama.attention.head_count", 0);
}
static void put_half_turned(cti_gguf_out *out) {
    cti_gguf_put_u32(out, "llama.rope.dimension_count", 2);
}
static void put_longrope(cti_gguf_out *out) {
    cti_gguf_put_text(out, "llama.rope.scaling.type", cti_text_of("longrope"));
}
static void put_long_factors(cti_gguf_out *out) {
    craft_tensor(out, &whole, "rope_factors_long.weight", CT_SHAPE(2));
}
static void put_wild_freqs(cti_gguf_out *out) {
    ct_tensor *tensor = ct_from_f32(context, CT_SHAPE(2), (const float[]){2, 1.5F});
    cti_gguf_put_tensor(out, "rope_freqs.weight", tensor, CTI_FILE_F32, (cti_row_grid){0}, 0,
                        false);
}
static void put_three_freqs(cti_gguf_out *out) {
    craft_tensor(out, &whole, "rope_freqs.weight", CT_SHAPE(3));
}
static void put_infinite_base(cti_gguf_out *out) {
    cti_gguf_put_f32(out, "llama.rope.freq_base", (float)INFINITY);
}
static void put_yarn_factor(cti_gguf_out *out) {
    cti_gguf_put_text(out, "llama.rope.scaling.type", cti_text_of("yarn"));
    cti_gguf_put_f32(out, "llama.rope.scaling.factor", 4);
    cti_gguf_put_f32(out, "llama.rope.scaling.attn_factor", 2);
}
static void put_classifier(cti_gguf_out *out) {
    craft_tensor(out, &whole, "cls.output.weight", CT_SHAPE(2, 8));
}
static void put_strange(cti_gguf_out *out) {
    craft_tensor(out, &whole, "blk.0.attn_sinks.weight", CT_SHAPE(2));
}
static void put_layer_behind(cti_gguf_out *out) {
    craft_tensor(out, &whole, "blk.1.attn_norm.weight", CT_SHAPE(8));
}
static void put_flat_embedding(cti_gguf_out *out) {
    craft_tensor(out, &whole, "token_embd.weight", CT_SHAPE(40));
}

START_TEST(refused_when_read) {
    static const struct {
        crafted how;
        const char *word1, *word2;
    } cases[] = {
        {{"general.architecture", NULL}, "general.architecture", "is missing"},
        {{"general.architecture", put_falcon},
         "falcon",
         "the architectures are gpt2, llama, qwen2"},
        {{"llama.block_count", NULL}, "llama.block_count", "is missing"},
        {{"llama.attention.layer_norm_rms_epsilon", NULL}, "layer_norm_rms_epsilon", "is missing"},
        {{"llama.block_count", put_many_layers}, "llama.block_count", "1e+06"},
        {{"llama.block_count", put_two_layers}, "missing", "model.layers.1."},
        {{"llama.context_length", put_text_length}, "llama.context_length", "string"},
        {{NULL, put_length_of_head}, "llama.attention.value_length", "different sizes"},
        {{"llama.attention.head_count", put_unequal_heads}, "head_count", "layer 1 has 4"},
        {{"llama.attention.head_count", put_negative_heads}, "head_count", "is -2"},
        {{"llama.attention.head_count", put_no_heads}, "head_count", "is 0"},
        {{NULL, put_half_turned}, "llama.rope.dimension_count", "is 2 of a head's 4 dims"},
        {{NULL, put_longrope}, "llama.rope.scaling.type", "none, linear and yarn"},
        {{NULL, put_long_factors}, "rope_factors_long.weight", "longrope"},
        {{NULL, put_wild_freqs}, "rope_freqs.weight", "Llama 3's"},
        {{NULL, put_three_freqs}, "rope_freqs.weight", "a head's 4 dims"},
        {{NULL, put_infinite_base}, "llama.rope.freq_base", "finite"},
        {{NULL, put_yarn_factor}, "llama.rope.scaling.attn_factor", "only 1"},
        {{NULL, put_classifier}, "classifier", "pooler"},
        {{"token_embd.weight", NULL}, "token_embd.weight", "is missing"},
        {{"token_embd.weight", put_flat_embedding}, "token_embd.weight", "not a matrix"},
        {{"blk.0.attn_k.weight", NULL}, "missing", "self_attn.k_proj.weight"},
        {{NULL, put_strange}, "unexpected", "blk.0.attn_sinks.weight"},
        {{NULL, put_layer_behind}, "unexpected", "model.layers.1.input_layernorm.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = craft(cases[i].how);
        const int64_t live = ct_memory(context).live;
        const ct_module *lm = ct_lm_open(context, path, (ct_lm_opts){0});
        ck_assert_msg(strstr(ct_error_message(context), "crafted.gguf"),
                      "%s: the file is not named", ct_error_message(context));
        refused_in(context, lm != NULL, cases[i].word1, CT_ERR_FORMAT, cases[i].word1,
                   cases[i].word2);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

/* What may be written in several ways: kinds of integers, values for each layer that are equal. */
START_TEST(read_as_written_by_others) {
    ct_module *lm = open_lm(craft(whole), (ct_lm_opts){0});
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(1, 3), (const int64_t[]){1, 4, 2});
    ct_tensor *want = ct_clone(run_lm(lm, ids, (ct_lm_call){0}));
    ck_assert_ptr_nonnull(strstr(ct_lm_about(lm).config, "\"rms_norm_eps\": 1e-05"));
    ck_assert_int_eq(ct_lm_about(lm).vocab_size, 5);
    ct_module *other =
        open_lm(craft((crafted){"llama.attention.head_count", put_equal_heads}), (ct_lm_opts){0});
    ck_assert(apart(run_lm(other, ids, (ct_lm_call){0}), want) == 0);
    /* without output.weight the head is the embedding */
    ct_module *tied = open_lm(craft((crafted){"output.weight", NULL}), (ct_lm_opts){0});
    ck_assert_ptr_eq(ct_module_get(tied, "lm_head.weight"),
                     ct_module_get(tied, "model.embed_tokens.weight"));
}
END_TEST

/* ---- what a file cannot say ---- */

START_TEST(refused_when_written) {
    static const struct {
        const char *config, *word1, *word2;
    } cases[] = {
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 31, \"n_embd\": 16, \"n_layer\": 1, "
         "\"n_head\": 4, \"n_inner\": 50}",
         "n_inner", "four times"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 31, \"n_embd\": 16, \"n_layer\": 1, "
         "\"n_head\": 4, \"scale_attn_by_inverse_layer_idx\": true}",
         "scale_attn_by_inverse_layer_idx", "true"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 31, \"n_embd\": 16, \"n_layer\": 1, "
         "\"n_head\": 4, \"scale_attn_weights\": false}",
         "scale_attn_weights", "false"},
        {DECODER("llama", "\"hidden_act\": \"gelu\", "), "hidden_act", "own activation"},
        {DECODER("mistral", "\"sliding_window\": 5, "), "sliding_window", "all tokens"},
        {DECODER("qwen2", "\"use_sliding_window\": true, \"sliding_window\": 5, "
                          "\"max_window_layers\": 1, "),
         "sliding_window", "all tokens"},
        {DECODER("qwen2", "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 1e4, "
                          "\"factor\": 8.0, \"original_max_position_embeddings\": 32}, "),
         "rope_type", "only for llama"},
        {DECODER("llama", "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e4, "
                          "\"factor\": 8.0, \"original_max_position_embeddings\": 32, "
                          "\"attention_factor\": 1.5}, "),
         "rope_type", "attention_factor"},
        {DECODER("gemma3_text", "\"head_dim\": 8, \"query_pre_attn_scalar\": 12, "),
         "query_pre_attn_scalar", "size of a head"},
        {DECODER("smollm3", "\"no_rope_layers\": [1, 0], "), "no_rope_layers", "4th"},
        {BERT("BertForMaskedLM"), "architectures", "masked"},
        {BERT("BertForSequenceClassification"), "architectures", "classifier"},
        {"{\"model_type\": \"llama\", \"architectures\": [\"LlamaModel\"], " WIDE IDS "}",
         "architectures", "needs a head"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_module *lm = new_lm(cases[i].config, (ct_lm_opts){0});
        refused_in(context, ct_lm_save(lm, in_folder("no.gguf"), (ct_save_opts){0}),
                   cases[i].config, CT_ERR_ARGUMENT, cases[i].word1, cases[i].word2);
        ct_module_free(lm);
    }
    ct_module *lm = new_lm(DECODER("llama", ""), f64);
    ck_refused(ct_lm_save(lm, in_folder("no.gguf"), (ct_save_opts){0}), CT_ERR_DTYPE, "f64",
               ".floats");
    ck_refused(ct_lm_save(lm, in_folder("no.gguf"), (ct_save_opts){.shard_bytes = 100}),
               CT_ERR_ARGUMENT, "shard_bytes", "one file");
    static const char *const metadata[] = {"a", "b", NULL};
    ck_refused(ct_lm_save(lm, in_folder("no.gguf"), (ct_save_opts){.metadata = metadata}),
               CT_ERR_ARGUMENT, "metadata", "the model's own");
    ck_assert_int_eq(files_in_folder(), 0);
    save_lm(lm, in_folder("yes.gguf"), CT_FILE_F32);
}
END_TEST

/* A DistilBERT has no key for its norms' eps, so a file with another one is no DistilBERT. */
START_TEST(another_eps) {
    static const char key[] = "attention.layer_norm_epsilon";
    save_lm(new_lm("{\"model_type\": \"distilbert\", \"vocab_size\": 35, \"dim\": 32, "
                   "\"hidden_dim\": 64, \"n_layers\": 1, \"n_heads\": 4}",
                   (ct_lm_opts){0}),
            in_folder("m.gguf"), CT_FILE_SAME);
    char *bytes;
    const size_t size = bytes_of(in_folder("m.gguf"), &bytes);
    size_t at = 0;
    while (at + sizeof key + 8 < size && memcmp(bytes + at, key, sizeof key - 1)) at++;
    const float eps = 1e-5f; /* behind the key and the 4 bytes of its type */
    memcpy(bytes + at + sizeof key - 1 + 4, &eps, sizeof eps);
    FILE *file = fopen(in_folder("m.gguf"), "wb");
    ck_assert(file && fwrite(bytes, 1, size, file) == size && !fclose(file));
    free(bytes);
    ck_refused(ct_lm_open(context, in_folder("m.gguf"), (ct_lm_opts){0}) != NULL, CT_ERR_FORMAT,
               key, "1e-05");
}
END_TEST

START_TEST(notes) {
    ct_module *llama = new_lm(LLAMA, (ct_lm_opts){0}), *neox = new_lm(NEOX, (ct_lm_opts){0}),
              *bert = new_lm(BERT("BertModel"), (ct_lm_opts){0});
    ck_assert_str_eq(ct_lm_about(llama).gguf_note, "");
    ck_assert_ptr_nonnull(strstr(ct_lm_about(neox).gguf_note, "tanh"));
    ck_assert_ptr_nonnull(strstr(ct_lm_about(bert).gguf_note, "pooler"));
    save_lm(bert, in_folder("bert.gguf"), CT_FILE_SAME);
    ct_module *back = open_lm(in_folder("bert.gguf"), (ct_lm_opts){0});
    ck_refused(ct_lm_forward(back, some_ids(1, 3), (ct_lm_call){.result = CT_LM_POOLED}) != NULL,
               CT_ERR_ARGUMENT, "lm_forward", "no pooler");
}
END_TEST

int main(void) {
    return run_tests("gguf files", setup, end_with_folders,
                     TESTS(TEST(refused_when_read), TEST(read_as_written_by_others),
                           TEST(refused_when_written), TEST(another_eps), TEST(notes)));
}
