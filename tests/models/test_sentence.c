/* Sentence vectors: what is refused and what the refusal names, rows without tokens, prompts, the
 * gradient of every pooling, and saves. tests/torch/test_embeddings_live.py has the values. */
#include <sys/stat.h>

#include "small_lm.h"

#define TYPE(name)       "\"type\": \"sentence_transformers.models." name "\""
#define ITEM(path, name) "{\"idx\": 0, \"name\": \"0\", \"path\": \"" path "\", " TYPE(name) "}"
#define BEGIN            ITEM("", "Transformer") ", " ITEM("1_Pooling", "Pooling")
#define WITH_DENSE       "[" BEGIN ", " ITEM("2_Dense", "Dense") ", " ITEM("3_Normalize", "Normalize") "]"
#define MEAN             "{\"word_embedding_dimension\": 16, \"pooling_mode_mean_tokens\": true}"
#define DENSE(more)                                                                                \
    "{\"in_features\": 16, \"out_features\": 5, " more                                             \
    "\"activation_function\": \"torch.nn.modules.activation.Tanh\"}"

static void put_file(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "m/%s", name);
    write_text(in_folder(path), text);
}

/* The weights of a Dense 16 -> out. */
static void put_weights(const char *name, int64_t out, bool bias) {
    char path[200];
    snprintf(path, sizeof path, "m/%s", name);
    ct_scope scope = ct_scope_open(context);
    const ct_named named[] = {{"linear.weight", ct_randn(context, CT_F32, CT_SHAPE(out, 16))},
                              {"linear.bias", ct_randn(context, CT_F32, CT_SHAPE(out))}};
    ck_assert(ct_tensors_save(context, in_folder(path), named, 1 + bias, (ct_save_opts){0}));
    ct_scope_close(scope);
}

static void begin_sentence(void) {
    setup();
    ct_module *lm = rough_lm(BERT("BertModel"), (ct_lm_opts){0});
    ck_assert(ct_lm_save(lm, in_folder("m"), (ct_save_opts){0}));
    ct_module_free(lm);
    ck_assert(!mkdir(in_folder("m/1_Pooling"), 0700) && !mkdir(in_folder("m/2_Dense"), 0700));
    put_file("modules.json", WITH_DENSE);
    put_file("1_Pooling/config.json", MEAN);
    put_file("2_Dense/config.json", DENSE("\"bias\": true, "));
    put_weights("2_Dense/model.safetensors", 5, true);
}

static ct_module *open_m(ct_lm_opts opts) {
    ct_module *lm = ct_lm_open(context, in_folder("m"), opts);
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    return lm;
}

static ct_tensor *embed(ct_module *lm, ct_tensor *ids, ct_lm_call call) {
    call.result = CT_LM_EMBED;
    return ct_lm_forward(lm, ids, call);
}

/* ---- what is refused ---- */

typedef struct {
    const char *file, *text, *word1, *word2;
    bool known; /* ignore_unknown does not help */
} refusal;

static const refusal refusals[] = {
    {"modules.json", "{}", "modules.json: is not a JSON array", "", true},
    {"modules.json", "[]", "modules.json: has no Pooling", "", true},
    {"modules.json", "[" ITEM("", "Transformer") "]", "modules.json: has no Pooling", "", true},
    {"modules.json", "[" ITEM("0_Transformer", "Transformer") ", " ITEM("1_Pooling", "Pooling") "]",
     "\"path\" is \"0_Transformer\"", "not the model's folder", true},
    {"modules.json", "[" BEGIN ", " ITEM("2_Dense", "LSTM") "]", "modules.json: \"type\"",
     "models.LSTM\", which is not supported", true},
    {"modules.json", "[" BEGIN ", {\"path\": \"2_Dense\", \"type\": \"custom_st.Dense\"}]",
     "\"custom_st.Dense\"", "not supported", true},
    {"modules.json", "[" BEGIN ", {\"path\": \"2_Dense\"}]", "\"type\" is absent", "", true},
    {"modules.json", "[" BEGIN ", " ITEM("../up", "Dense") "]", "\"path\" is \"../up\"",
     "no folder in the model's", true},
    {"modules.json", "[" BEGIN ", " ITEM("1_Pooling", "Normalize") "]", "\"path\" is \"1_Pooling\"",
     "an earlier module", true},
    {"modules.json", "[" BEGIN ", " ITEM("2_Pooling", "Pooling") "]", "Pooling\"",
     "then a Pooling, then Dense", true},
    {"modules.json", "[" BEGIN ", " ITEM("2_None", "Dense") "]", "2_None/config.json: is missing",
     "", true},
    {"1_Pooling/config.json", "{\"word_embedding_dimension\": 15}",
     "1_Pooling/config.json: \"word_embedding_dimension\" is 15", "width", true},
    {"1_Pooling/config.json", "{\"pooling_mode\": \"median\"}", "\"pooling_mode\" is \"median\"",
     "not supported", true},
    {"1_Pooling/config.json", "{\"pooling_mode\": []}", "\"pooling_mode\" is [...]", "empty", true},
    {"1_Pooling/config.json", "{\"pooling_mode_mean_tokens\": 1}",
     "\"pooling_mode_mean_tokens\" is 1", "neither true nor false", true},
    {"1_Pooling/config.json", "{\"pooling_mode_median\": true}", "\"pooling_mode_median\" is true",
     "unknown", false},
    {"1_Pooling/config.json", "[]", "1_Pooling/config.json: is not a JSON object", "", true},
    {"2_Dense/config.json", "{\"in_features\": 7, \"out_features\": 5}", "\"in_features\" is 7",
     "size of the vector", true},
    {"2_Dense/config.json", "{\"in_features\": 16}", "\"out_features\" is absent", "", true},
    {"2_Dense/config.json", DENSE("\"use_residual\": true, "), "\"use_residual\" is true", "",
     true},
    {"2_Dense/config.json", DENSE("\"module_input_name\": \"token_embeddings\", "),
     "\"module_input_name\" is \"token_embeddings\"", "", true},
    {"2_Dense/config.json", DENSE("\"bias\": false, "),
     "2_Dense/model.safetensors: must have linear.weight (5, 16), and nothing else", "", true},
    {"2_Dense/config.json",
     "{\"in_features\": 16, \"out_features\": 5, \"activation_function\": \"my.Tanh\"}",
     "\"activation_function\" is \"my.Tanh\"", "not supported", true},
    {"2_Dense/config.json", "{\"in_features\": 16, \"out_features\": 6}",
     "must have linear.weight (6, 16) and linear.bias", "", true},
    {"sentence_bert_config.json", "{\"do_lower_case\": true}", "\"do_lower_case\" is true", "",
     true},
    {"sentence_bert_config.json", "{\"max_seq_length\": 0}", "\"max_seq_length\" is 0", "", true},
    {"sentence_bert_config.json", "{\"max_length\": 7}", "\"max_length\" is 7", "unknown", false},
};

/* The model opens and has its other results; the vector is an error that names file and key. */
START_TEST(refused) {
    ct_tensor *ids = some_ids(2, 5);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        char path[200];
        snprintf(path, sizeof path, "m/%s", r->file);
        const char *before = read_text(in_folder(path));
        char *old = before ? strdup(before) : NULL; /* whole, as it is put back */
        ck_assert(!before == !old);
        put_file(r->file, r->text);
        ct_module *lm = open_m((ct_lm_opts){0});
        run_lm(lm, ids, (ct_lm_call){.result = CT_LM_MEAN});
        ck_refused(embed(lm, ids, (ct_lm_call){0}), CT_ERR_FORMAT, r->word1, r->word2);
        ct_param param = {0};
        while (ct_module_next(lm, &param)) ck_assert(!strstr(param.name, "2_Dense"));
        ct_module_free(lm);
        lm = open_m((ct_lm_opts){.ignore_unknown = true});
        ck_assert_msg(!embed(lm, ids, (ct_lm_call){0}) == r->known, "%s", r->word1);
        ct_error_clear(context);
        ct_module_free(lm);
        if (old) put_file(r->file, old);
        else remove(in_folder(path));
        free(old);
    }
}
END_TEST

START_TEST(refused_files) {
    ct_tensor *ids = some_ids(2, 5);
    put_file("modules.json", "[");
    ck_refused(ct_lm_open(context, in_folder("m"), (ct_lm_opts){0}), CT_ERR_FORMAT, "lm_open",
               "modules.json: byte");
    put_file("modules.json", WITH_DENSE);
    put_file("2_Dense/model.safetensors", "ab");
    ck_refused(ct_lm_open(context, in_folder("m"), (ct_lm_opts){0}), CT_ERR_FORMAT, "lm_open",
               "2_Dense/model.safetensors");
    remove(in_folder("m/2_Dense/model.safetensors"));
    put_file("2_Dense/pytorch_model.bin", "PK");
    ct_module *lm = open_m((ct_lm_opts){0});
    ck_refused(embed(lm, ids, (ct_lm_call){0}), CT_ERR_FORMAT, "2_Dense/model.safetensors",
               "pytorch_model.bin is a pickle");
    /* what is not followed is kept all the same */
    ck_assert(ct_lm_save(lm, in_folder("kept"), (ct_save_opts){0}));
    ck_assert_str_eq(read_text(in_folder("kept/2_Dense/pytorch_model.bin")), "PK");
    ck_assert_str_eq(read_text(in_folder("kept/modules.json")), WITH_DENSE);
}
END_TEST

START_TEST(refused_calls) {
    ct_module *lm = open_m((ct_lm_opts){0});
    ct_tensor *ids = some_ids(2, 5);
    ck_refused(embed(lm, ids, (ct_lm_call){.prompt_tokens = -1}), CT_ERR_ARGUMENT, "lm_forward",
               "prompt_tokens is -1");
    ck_refused(ct_lm_save(lm, in_folder("m.gguf"), (ct_save_opts){0}), CT_ERR_ARGUMENT, "2_Dense",
               "GGUF");
    ct_module_free(ct_module_set_child(
        lm, "2_Dense",
        ct_linear_new(context, (ct_linear_opts){.in_features = 16, .out_features = 5})));
    run_lm(lm, ids, (ct_lm_call){.result = CT_LM_EMBED});
    ck_refused(ct_lm_save(lm, in_folder("n"), (ct_save_opts){0}), CT_ERR_ARGUMENT, "2_Dense",
               "ct_save");
    ct_module *decoder = new_lm(LLAMA, (ct_lm_opts){0});
    ct_lm_cache *cache = ct_lm_cache_new(decoder, 2, 5);
    ck_refused(embed(decoder, ids, (ct_lm_call){.cache = cache}), CT_ERR_ARGUMENT, "lm_forward",
               "without a cache");
    ck_assert_ptr_null(ct_lm_prompt(decoder, "query"));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

/* ---- values ---- */

/* Without modules.json it is the mean. */
START_TEST(without_modules) {
    remove(in_folder("m/modules.json"));
    ct_module *lm = open_m((ct_lm_opts){0});
    ct_tensor *ids = some_ids(2, 5);
    ck_assert(apart(run_lm(lm, ids, (ct_lm_call){.result = CT_LM_EMBED}),
                    run_lm(lm, ids, (ct_lm_call){.result = CT_LM_MEAN})) == 0);
}
END_TEST

#define ALL_POOLINGS                                                                               \
    "{\"pooling_mode\": [\"cls\", \"max\", \"mean\", \"mean_sqrt_len_tokens\", "                   \
    "\"weightedmean\", \"lasttoken\"]}"

/* A row without a token is 0, and what stands in padding counts nowhere. The row's vector is that
 * of the row by itself. */
START_TEST(padding) {
    put_file("modules.json", "[" BEGIN "]");
    put_file("1_Pooling/config.json", ALL_POOLINGS);
    ct_module *lm = open_m(f64);
    const bool mask[] = {true,  true,  true, false, false, false,
                         false, false, true, true,  true,  true};
    ct_tensor *ids = some_ids(3, 4), *key_mask = ct_from_bool(context, CT_SHAPE(3, 4), mask);
    ct_tensor *y = run_lm(lm, ids, (ct_lm_call){.key_mask = key_mask, .result = CT_LM_EMBED});
    ck_assert(same_shape(y, CT_SHAPE(3, 6 * 16)));
    ck_assert(ct_item(ct_max(ct_abs(ct_select(y, 0, 1)), CT_ALL, false)) == 0);
    for (int64_t i = 0; i < 3; i += 2) {
        ct_tensor *row = ct_narrow(ct_narrow(ids, 0, i, 1), 1, 0, i ? 4 : 3);
        ck_assert(apart(ct_narrow(y, 0, i, 1),
                        run_lm(lm, row, (ct_lm_call){.result = CT_LM_EMBED})) < 1e-12);
    }
    /* prompt_tokens count only without include_prompt */
    ck_assert(apart(y, run_lm(lm, ids,
                              (ct_lm_call){.key_mask = key_mask,
                                           .result = CT_LM_EMBED,
                                           .prompt_tokens = 2})) == 0);
}
END_TEST

/* Without its first tokens a row is as if the mask hid them from the pooling, and they are seen by
 * the others. */
START_TEST(prompts_left_out) {
    put_file("modules.json", "[" BEGIN "]");
    put_file("1_Pooling/config.json", "{\"pooling_mode\": \"mean\", \"include_prompt\": false}");
    ct_module *lm = open_m(f64);
    const bool mask[] = {true, true, true, false, true, true, true, true};
    ct_tensor *ids = some_ids(2, 4), *key_mask = ct_from_bool(context, CT_SHAPE(2, 4), mask);
    ct_lm_call call = {.key_mask = key_mask, .result = CT_LM_HIDDEN};
    ct_tensor *x = run_lm(lm, ids, call);
    ct_tensor *first = ct_select(ct_select(x, 0, 0), 0, 2);
    ct_tensor *second = ct_mean(ct_narrow(ct_select(x, 0, 1), 0, 2, 2), CT_DIMS(0), false);
    call.result = CT_LM_EMBED, call.prompt_tokens = 2;
    ct_tensor *y = run_lm(lm, ids, call);
    ck_assert(apart(ct_select(y, 0, 0), first) < 1e-12 &&
              apart(ct_select(y, 0, 1), second) < 1e-12);
    call.prompt_tokens = INT64_MAX; /* nothing is left */
    ck_assert(ct_item(ct_max(ct_abs(run_lm(lm, ids, call)), CT_ALL, false)) == 0);
}
END_TEST

typedef struct {
    ct_module *lm;
    ct_tensor *ids, *mask;
} embedding;

static ct_tensor *embed_input(ct_tensor *const *in, int n, void *arg) {
    const embedding *e = arg;
    (void)in, (void)n;
    return embed(e->lm, e->ids, (ct_lm_call){.key_mask = e->mask});
}

START_TEST(gradients) {
    put_file("1_Pooling/config.json", ALL_POOLINGS);
    put_file("2_Dense/config.json", "{\"in_features\": 96, \"out_features\": 5, \"bias\": false}");
    ct_tensor *w = ct_randn(context, CT_F32, CT_SHAPE(5, 96));
    ck_assert(ct_tensors_save(context, in_folder("m/2_Dense/model.safetensors"),
                              &(ct_named){"linear.weight", w}, 1, (ct_save_opts){0}));
    const bool mask[] = {true, true, true, false, true, false, false, false};
    ct_module *lm = open_m(f64);
    embedding e = {lm, some_ids(2, 4), ct_from_bool(context, CT_SHAPE(2, 4), mask)};
    ct_tensor *const in[] = {ct_module_get(lm, "2_Dense.linear.weight"),
                             ct_module_get(lm, "encoder.layer.1.output.dense.bias")};
    const ct_gradcheck_result result = ct_gradcheck(embed_input, &e, in, 2, (ct_gradcheck_opts){0});
    ck_assert_msg(result.verdict == CT_VERDICT_OK, "%s", ct_error_message(context));
}
END_TEST

/* ---- prompts, lengths ---- */

#define PROMPTS "config_sentence_transformers.json"

START_TEST(prompts) {
    static const char *const wrong[][2] = {
        {"{\"prompts\": {\"query\": 3}}", "\"query\" is 3"},
        {"{\"prompts\": [\"a\"]}", "\"prompts\" is [...]"},
        {"{\"prompts\": {\"a\": \"b\"}, \"default_prompt_name\": \"c\"}",
         "\"default_prompt_name\" is \"c\""},
        {"[]", "is not a JSON object"}};
    put_file(PROMPTS, "{\"prompts\": {\"query\": \"q: \\u00e9\", \"document\": \"\"}, "
                      "\"default_prompt_name\": \"document\"}");
    ct_module *lm = open_m((ct_lm_opts){0}), *copy = ct_module_clone(lm);
    ct_module_free(lm);
    ck_assert_str_eq(ct_lm_prompt(copy, "query"), "q: \xC3\xA9");
    ck_assert_str_eq(ct_lm_prompt(copy, NULL), "");
    ck_assert_ptr_null(ct_lm_prompt(copy, "passage"));
    ck_assert_int_eq(ct_error(context), CT_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_file(PROMPTS, wrong[i][0]);
        lm = open_m((ct_lm_opts){0});
        ck_refused(ct_lm_prompt(lm, "query"), CT_ERR_FORMAT, "lm_prompt: ", wrong[i][1]);
        run_lm(lm, some_ids(1, 3), (ct_lm_call){.result = CT_LM_EMBED}); /* needs no prompt */
        ct_module_free(lm);
    }
}
END_TEST

START_TEST(lengths) {
    static const struct {
        const char *name, *text;
        int64_t want;
    } cases[] = {{"sentence_bert_config.json", "{\"max_seq_length\": 9}", 9},
                 {"sentence_bert_config.json", "{\"max_seq_length\": 99}", 32}, /* the table's */
                 {"sentence_bert_config.json", "{\"max_seq_length\": null}", 32},
                 {"sentence_roberta_config.json", "{\"max_seq_length\": 8}", 8},
                 {"tokenizer_config.json", "{\"model_max_length\": 12}", 12},
                 {"tokenizer_config.json", "{\"model_max_length\": 1e30}", 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[100];
        snprintf(path, sizeof path, "m/%s", cases[i].name);
        put_file(cases[i].name, cases[i].text);
        ct_module *lm = open_m((ct_lm_opts){0});
        ck_assert_int_eq(ct_lm_about(lm).max_length, cases[i].want);
        ct_module_free(lm);
        remove(in_folder(path));
    }
}
END_TEST

/* ---- saves ---- */

/* A save over the folder itself and into others: shards, another format of floats. */
START_TEST(saves) {
    ct_module *lm = open_m((ct_lm_opts){0});
    ct_tensor *ids = some_ids(2, 5), *weight = ct_module_get(lm, "2_Dense.linear.weight");
    ck_assert(ct_requires_grad(weight) && ct_init_normal(weight, 0, 1));
    ct_tensor *want = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_EMBED});
    static const struct {
        const char *to;
        ct_save_opts opts;
        double most;
    } cases[] = {{"m", {0}, 0},
                 {"new", {0}, 0},
                 {"shards", {.shard_bytes = 2000}, 0},
                 {"new", {.floats = CT_FILE_BF16}, 0.1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(ct_lm_save(lm, in_folder(cases[i].to), cases[i].opts), "%s",
                      ct_error_message(context));
        ct_module *again = ct_lm_open(context, in_folder(cases[i].to), (ct_lm_opts){0});
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        const double off = apart(want, run_lm(again, ids, (ct_lm_call){.result = CT_LM_EMBED}));
        ck_assert_msg(off <= cases[i].most && (off > 0) == (cases[i].most > 0), "%g", off);
        ct_module_free(again);
    }
}
END_TEST

/* Whether the folder's vector is the mean of the tokens, without any module. */
static bool is_plain(const char *name) {
    ct_module *lm = ct_lm_open(context, in_folder(name), (ct_lm_opts){0});
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    ct_tensor *ids = some_ids(2, 5);
    ct_tensor *vector = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_EMBED}),
              *mean = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_MEAN});
    const bool is = ct_numel(vector) == ct_numel(mean) && apart(vector, mean) == 0 &&
                    !ct_lm_prompt(lm, NULL) && ct_lm_about(lm).max_length != 3;
    ck_assert(!ct_error(context));
    ct_module_free(lm);
    return is;
}

static bool has_file(const char *name) { return read_text(in_folder(name)) != NULL; }

/* A folder that was another embedding model's has nothing of it afterwards. */
START_TEST(saves_over_others) {
    static const char *const old[] = {"m/modules.json",
                                      "m/1_Pooling/config.json",
                                      "m/2_Dense/config.json",
                                      "m/2_Dense/model.safetensors",
                                      "m/config_sentence_transformers.json",
                                      "m/sentence_bert_config.json"};
    ct_module *plain = rough_lm(BERT("BertModel"), (ct_lm_opts){0}), *pooled;
    ck_assert(ct_lm_save(plain, in_folder("plain"), (ct_save_opts){0}) && is_plain("plain"));
    put_file("config_sentence_transformers.json",
             "{\"prompts\": {\"q\": \"ask: \"}, \"default_prompt_name\": \"q\"}");
    put_file("sentence_bert_config.json", "{\"max_seq_length\": 3}");
    put_file("README.md", "mine");
    write_text(in_folder("m/2_Dense/notes.txt"), "mine");
    ck_assert(ct_lm_save(open_m((ct_lm_opts){0}), in_folder("again"), (ct_save_opts){0}));
    for (int opened = 0; opened < 2; opened++) {
        ct_module *lm = opened ? ct_lm_open(context, in_folder("plain"), (ct_lm_opts){0}) : plain;
        if (opened)
            ck_assert(ct_lm_save(open_m((ct_lm_opts){0}), in_folder("m"), (ct_save_opts){0}));
        ck_assert(!is_plain("again") && ct_lm_save(lm, in_folder("m"), (ct_save_opts){0}));
        for (size_t i = 0; i < sizeof old / sizeof *old; i++)
            ck_assert_msg(!has_file(old[i]), "%s", old[i]);
        ck_assert(has_file("m/README.md") && has_file("m/2_Dense/notes.txt") && is_plain("m"));
        if (opened) break;
        pooled = ct_lm_open(context, in_folder("again"), (ct_lm_opts){0});
        ck_assert(pooled && ct_lm_save(pooled, in_folder("m"), (ct_save_opts){0}));
        for (size_t i = 0; i < sizeof old / sizeof *old; i++)
            ck_assert_msg(has_file(old[i]), "%s", old[i]);
    }
    /* one with fewer modules, over itself */
    write_text(in_folder("again/modules.json"), "[" BEGIN "]");
    pooled = ct_lm_open(context, in_folder("again"), (ct_lm_opts){0});
    ck_assert(pooled && ct_lm_save(pooled, in_folder("again"), (ct_save_opts){0}));
    ck_assert(has_file("again/1_Pooling/config.json") && has_file("again/modules.json"));
}
END_TEST

/* What an older model said of generation, and of a chat beside another tokenizer, is gone too. */
START_TEST(saves_over_other_options) {
    ct_module *lm = open_m((ct_lm_opts){0});
    ck_assert(!mkdir(in_folder("o"), 0700));
    write_text(in_folder("o/generation_config.json"), "{\"eos_token_id\": 5}");
    write_text(in_folder("o/chat_template.jinja"), "x");
    ck_assert(ct_lm_save(lm, in_folder("o"), (ct_save_opts){0}));
    ck_assert(!has_file("o/generation_config.json") && has_file("o/chat_template.jinja"));
    put_file("tokenizer.json", "{}");
    ck_assert(ct_lm_save(lm, in_folder("o"), (ct_save_opts){0}));
    ck_assert(has_file("o/tokenizer.json") && !has_file("o/chat_template.jinja"));
}
END_TEST

/* GGUF files have one pooling, and a folder that is saved from one has it too. */
START_TEST(pooling_in_gguf) {
    static const char *const modes[] = {"mean", "cls", "lasttoken"};
    put_file("modules.json", "[" BEGIN "]");
    for (int i = 0; i < 3; i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"pooling_mode\": \"%s\"}", modes[i]);
        put_file("1_Pooling/config.json", text);
        ct_module *lm = open_m((ct_lm_opts){0});
        ct_tensor *ids = some_ids(2, 5),
                  *want = run_lm(lm, ids, (ct_lm_call){.result = CT_LM_EMBED});
        ck_assert_msg(ct_lm_save(lm, in_folder("p.gguf"), (ct_save_opts){.floats = CT_FILE_F32}),
                      "%s", ct_error_message(context));
        ct_module *file = ct_lm_open(context, in_folder("p.gguf"), (ct_lm_opts){0});
        ck_assert(file && ct_lm_save(file, in_folder("g"), (ct_save_opts){0}));
        ct_module *again = ct_lm_open(context, in_folder("g"), (ct_lm_opts){0});
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        /* readers compute GELU in its tanh form */
        ct_tensor *of_file = run_lm(file, ids, (ct_lm_call){.result = CT_LM_EMBED});
        ck_assert(apart(of_file, run_lm(again, ids, (ct_lm_call){.result = CT_LM_EMBED})) == 0);
        ck_assert(apart(of_file, want) < 0.05);
        remove_tree(in_folder("g"));
    }
    put_file("1_Pooling/config.json", "{\"pooling_mode\": \"max\"}");
    ck_refused(ct_lm_save(open_m((ct_lm_opts){0}), in_folder("p.gguf"), (ct_save_opts){0}),
               CT_ERR_ARGUMENT, "pooling_mode", "GGUF");
}
END_TEST

/* A link in the place of a module's folder would lead a save out of the model's. */
START_TEST(link_below) {
    ct_module *lm = open_m((ct_lm_opts){0});
    ck_assert(!mkdir(in_folder("n"), 0700) && !mkdir(in_folder("other"), 0700));
    ck_assert(!symlink(in_folder("other"), in_folder("n/2_Dense")));
    ck_refused(ct_lm_save(lm, in_folder("n"), (ct_save_opts){0}), CT_ERR_IO, "n/2_Dense",
               "is not a folder");
    ck_assert_ptr_null(read_text(in_folder("other/model.safetensors")));
    ck_assert_ptr_null(read_text(in_folder("n/config.json")));
}
END_TEST

int main(void) {
    return run_cases("sentence",
                     CASES({.name = "sentence",
                            .before = begin_sentence,
                            .after = end_with_folders,
                            .tests = TESTS(TEST(refused), TEST(refused_files), TEST(refused_calls),
                                           TEST(without_modules), TEST(padding),
                                           TEST(prompts_left_out), TEST(gradients), TEST(prompts),
                                           TEST(lengths), TEST(saves), TEST(saves_over_others),
                                           TEST(saves_over_other_options), TEST(pooling_in_gguf))},
                           {.name = "links",
                            .tags = "posix",
                            .before = begin_sentence,
                            .after = end_with_folders,
                            .tests = TESTS(TEST(link_below))}));
}
