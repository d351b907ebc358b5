/* Paths that are no folder of a model or of a tokenizer: the errors name another file that is
 * there, and the remedy. Small files that are cut anywhere are errors, or have the values of a
 * whole file. */
#include "tests/support/files.h"
#include "tests/support/remove_tree.h"
#include <sys/stat.h>

#define POINTER                                                                                    \
    "version https://git-lfs.github.com/spec/v1\noid sha256:5af571cbf074e6d21a03528d2330792e532"   \
    "ca608f24ac70a143f6b369968ab8c\nsize 269060552\n"
#define CONFIG                                                                                     \
    "{\"model_type\": \"llama\", \"vocab_size\": 7, \"hidden_size\": 4, "                          \
    "\"intermediate_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}"
#define GGUF "GGUF\3"
#define TOKENIZER                                                                                  \
    "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, " \
    "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", "           \
    "\"vocab\": {\"a\": 0, \"b\": 1}, \"unk_token\": \"a\"}}"

static void begin_folders(void) {
    setup();
    ck_assert_int_eq(mkdir(in_folder("m"), 0700), 0);
}

static void end_folders(void) {
    remove_tree(in_folder("m"));
    teardown();
}

/* Writes a file of the folder "m". */
static void put_bytes(const char *name, const char *bytes, size_t size) {
    char path[100];
    snprintf(path, sizeof path, "m/%s", name);
    FILE *file = fopen(in_folder(path), "wb");
    ck_assert(file && fwrite(bytes, 1, size, file) == size && !fclose(file));
}

static void put_text(const char *name, const char *text) { put_bytes(name, text, strlen(text)); }

static bool opens_lm(const char *path) {
    ct_module *lm = ct_lm_open(context, path, (ct_lm_opts){0});
    ct_module_free(lm);
    return lm != NULL;
}

static bool opens_tokenizer(const char *path) {
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    ct_tokenizer_close(tokenizer);
    return tokenizer != NULL;
}

/* A folder, its files (name, text, name, text, ..., NULL), and words of the error. */
typedef struct {
    const char *files[7];
    ct_status status;
    const char *word1, *word2;
} folder_case;

static void each_folder(const folder_case *cases, size_t n, bool (*open)(const char *path)) {
    for (size_t i = 0; i < n; i++) {
        const int64_t live = ct_memory(context).live;
        for (int k = 0; cases[i].files[k]; k += 2)
            put_text(cases[i].files[k], cases[i].files[k + 1]);
        const bool opened = open(in_folder("m"));
        ck_assert_msg(strstr(ct_error_message(context), in_folder("m")), "the folder is not named");
        refused_in(context, opened, cases[i].files[0], cases[i].status, cases[i].word1,
                   cases[i].word2);
        ck_assert_int_eq(ct_memory(context).live, live);
        remove_tree(in_folder("m"));
        ck_assert_int_eq(mkdir(in_folder("m"), 0700), 0);
    }
}

START_TEST(no_folders_of_models) {
    static const char weights[] = "neither model.safetensors nor model.safetensors.index.json";
    static const folder_case cases[] = {
        {{"notes", ""}, CT_ERR_IO, "m: has no config.json", ""},
        {{"x.gguf", GGUF}, CT_ERR_FORMAT, "m/x.gguf: the file ends inside the header", "lm_open"},
        {{"a.pth", "", "b.pth", ""}, CT_ERR_IO, "its a.pth is a pickle", "convert"},
        {{"b.pth", "", "a.pth", ""}, CT_ERR_IO, "no config.json; its a.pth is a pickle", "convert"},
        {{"config.json", CONFIG}, CT_ERR_IO, weights, "lm_open"},
        {{"config.json", CONFIG, "pytorch_model.bin", "PK"},
         CT_ERR_IO,
         "its pytorch_model.bin is a pickle file; convert it to safetensors",
         "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)"},
        {{"config.json", CONFIG, "a.pt", "", "pytorch_model-00001-of-00002.bin", ""},
         CT_ERR_IO,
         weights,
         "its pytorch_model-00001-of-00002.bin is a pickle"},
        {{"config.json", CONFIG, "optimizer.pt", "", "training_args.bin", ""},
         CT_ERR_IO,
         "model.safetensors.index.json",
         "lm_open"},
        {{"config.json", CONFIG, "q8.gguf", GGUF}, CT_ERR_FORMAT, "m/q8.gguf: the file", "lm_open"},
        {{"config.json", CONFIG, "weights.safetensors", ""},
         CT_ERR_IO,
         "its weights.safetensors",
         "must be model.safetensors"},
        {{"config.json", CONFIG, "tf_model.h5", ""}, CT_ERR_IO, "its tf_model.h5", "convert"},
        {{"adapter_config.json", "{}", "adapter_model.safetensors", ""},
         CT_ERR_IO,
         "no config.json; its adapter_config.json is of an adapter",
         "ct_lora_load"},
        {{"config.json", CONFIG, "adapter_config.json", "{}", "x.gguf", GGUF},
         CT_ERR_IO,
         weights,
         "ct_lora_load"},
        {{"config.json", CONFIG, "model.safetensors", POINTER},
         CT_ERR_FORMAT,
         "m/model.safetensors: is a git-lfs pointer (of 269060552 bytes), not a safetensors file",
         "`git lfs pull`"},
        {{"config.json", POINTER, "model.safetensors", POINTER},
         CT_ERR_FORMAT,
         "m/config.json: is a git-lfs pointer (of 269060552 bytes), not a JSON text",
         "`git lfs pull`"},
        {{"config.json", "{}", "model.safetensors", ""},
         CT_ERR_FORMAT,
         "m/config.json: \"model_type\" is absent",
         "the families are"},
        {{"config.json", "{\"model_type\": 3, \"text_config\": 4}", "model.safetensors", ""},
         CT_ERR_FORMAT,
         "\"model_type\" is 3",
         "the families are"},
        {{"config.json", "{\"model_type\": \"a\", \"text_config\": {\"model_type\": \"b\"}}",
          "model.safetensors", ""},
         CT_ERR_FORMAT,
         "\"model_type\" is \"a\"",
         "the families are"},
        {{"config.json",
          "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\"}}",
          "model.safetensors", ""},
         CT_ERR_FORMAT,
         "\"model_type\" is \"gemma3\": a model of several modalities",
         "of the family gemma3_text"},
        {{"config.json", CONFIG, "model.safetensors.index.json",
          "{\"weight_map\": {\"w\": \"model-00002-of-00002.safetensors\"}}"},
         CT_ERR_IO,
         "m/model-00002-of-00002.safetensors: cannot open: No such file",
         "m/model.safetensors.index.json names it"},
        {{"config.json", CONFIG, "model.safetensors.index.json", POINTER},
         CT_ERR_FORMAT,
         "index.json: is a git-lfs pointer (of 269060552 bytes)",
         "`git lfs pull`"},
    };
    each_folder(cases, sizeof cases / sizeof *cases, opens_lm);
    /* the files of a Trainer's state are not weights */
    put_text("optimizer.pt", ""), put_text("rng_state_0.pth", ""),
        put_text("training_args.bin", "");
    const bool opened = opens_lm(in_folder("m"));
    ck_assert_ptr_null(strstr(ct_error_message(context), "pickle"));
    ck_refused(opened, CT_ERR_IO, "m: has no config.json", "lm_open");
    ck_refused(opens_lm(in_folder("none")), CT_ERR_IO, "none: cannot open the folder", "lm_open");
    put_bytes("x.gguf", GGUF "\0\0\0\0\0\0", 11);
    ck_refused(opens_lm(in_folder("m/x.gguf")), CT_ERR_FORMAT, "x.gguf: the file ends inside",
               "lm_open");
    put_text("empty", "");
    ck_refused(opens_lm(in_folder("m/empty")), CT_ERR_IO, "empty: is a file, and", "nor a folder");
}
END_TEST

/* Of several files the one with the smallest name is named, in any order of the folder. */
START_TEST(several_files) {
    for (int i = 0; i < 12; i++) {
        const char name[] = {(char)('a' + i * 7 % 12), '.', 'g', 'g', 'u', 'f', 0};
        put_text(name, "");
    }
    ck_refused(opens_lm(in_folder("m")), CT_ERR_FORMAT, "has a.gguf and b.gguf", "lm_open");
    ck_refused(opens_tokenizer(in_folder("m")), CT_ERR_FORMAT, "has a.gguf and b.gguf", "name one");
}
END_TEST

START_TEST(no_folders_of_tokenizers) {
    static const char by_python[] = "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)";
    static const folder_case cases[] = {
        {{"a.gguf", GGUF, "notes", ""}, CT_ERR_FORMAT, "m/a.gguf", "tokenizer_open"},
        {{"tokenizer.json", TOKENIZER, "tokenizer_config.json", POINTER},
         CT_ERR_FORMAT,
         "m/tokenizer_config.json: is a git-lfs pointer",
         "not a JSON text"},
        {{"tokenizer.json", "version https://git-lfs.github.com/spec/v1\nsize \n"},
         CT_ERR_FORMAT,
         "is a git-lfs pointer, not a JSON text",
         "`git lfs pull`"},
        {{"tokenizer.json",
          "version https://git-lfs.github.com/spec/v1\nsize 1234567890123456789012\n"},
         CT_ERR_FORMAT,
         "is a git-lfs pointer, not a JSON text",
         "`git lfs pull`"},
        {{"notes", ""}, CT_ERR_IO, "m: has no tokenizer.json", "tokenizer_open"},
        {{"vocab.json", "{}", "merges.txt", ""},
         CT_ERR_IO,
         "but vocab.json and merges.txt;",
         by_python},
        {{"vocab.json", "{}"}, CT_ERR_IO, "has no tokenizer.json", "tokenizer_open"},
        {{"tokenizer.model", ""}, CT_ERR_IO, "no tokenizer.json, but tokenizer.model;", by_python},
        {{"vocab.txt", ""}, CT_ERR_IO, "no tokenizer.json, but vocab.txt;", by_python},
        {{"b.gguf", GGUF, "a.gguf", GGUF}, CT_ERR_FORMAT, "has a.gguf and b.gguf", "name one"},
        {{"tokenizer.json", POINTER},
         CT_ERR_FORMAT,
         "m/tokenizer.json: is a git-lfs pointer (of 269060552 bytes), not a JSON text",
         "`git lfs pull`"},
    };
    each_folder(cases, sizeof cases / sizeof *cases, opens_tokenizer);
    put_text("vocab.json", "{}");
    const bool half = opens_tokenizer(in_folder("m"));
    ck_assert_ptr_null(strstr(ct_error_message(context), "merges.txt"));
    ck_refused(half, CT_ERR_IO, "m: has no tokenizer.json", "tokenizer_open");
    ck_refused(opens_tokenizer(in_folder("none")), CT_ERR_IO, "none: cannot open", "No such file");
    put_bytes("x.gguf", GGUF "\0\0\0\0\0\0", 11);
    ck_refused(opens_tokenizer(in_folder("m/x.gguf")), CT_ERR_FORMAT, "x.gguf", "tokenizer_open");
    put_text("tokenizer.model", "\n\x0e\n\5<unk>");
    ck_refused(opens_tokenizer(in_folder("m/tokenizer.model")), CT_ERR_FORMAT,
               "tokenizer.model: is not a tokenizer.json", by_python);
}
END_TEST

/* ---- files that are cut ---- */

#define ROLES      "{\"eos_token\": \"b\", \"chat_template\": \"x\"}"
#define GENERATION "{\"do_sample\": true, \"top_p\": 0.5, \"eos_token_id\": [1, 2]}"
#define ADAPTER                                                                                    \
    "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\": [\"q_proj\"]}"

/* Cuts a file at each byte: an open is CT_ERR_FORMAT that names the file, and leaves no memory. */
static void cut(const char *name, const char *text, bool (*open)(const char *path)) {
    for (size_t n = 0; n < strlen(text); n++) {
        put_bytes(name, text, n);
        const int64_t live = ct_memory(context).live;
        refused_in(context, open(in_folder("m")), name, CT_ERR_FORMAT, name, "byte");
        ck_assert_int_eq(ct_memory(context).live, live);
    }
    put_text(name, text);
    ck_assert_msg(open(in_folder("m")), "%s", ct_error_message(context));
}

static bool adapts(const char *path) {
    ct_module *lm = ct_lm_new(context, CONFIG, (ct_lm_opts){0});
    const bool done = ct_lora_load(lm, path);
    ct_module_free(lm);
    return done;
}

START_TEST(cut_files) {
    ct_module *lm = ct_lm_new(context, CONFIG, (ct_lm_opts){0});
    ck_assert(ct_lm_save(lm, in_folder("m"), (ct_save_opts){.shard_bytes = 200}));
    cut("config.json", CONFIG, opens_lm);
    cut("generation_config.json", GENERATION, opens_lm);
    char index[2000];
    FILE *file = fopen(in_folder("m/model.safetensors.index.json"), "rb");
    size_t size = fread(index, 1, sizeof index - 1, file);
    fclose(file);
    while (size && index[size - 1] != '}') size--; /* a new line at the end may be missing */
    index[size] = 0;
    for (size_t n = 0; n < size; n++) {
        put_bytes("model.safetensors.index.json", index, n);
        ck_refused(opens_lm(in_folder("m")), CT_ERR_FORMAT, "model.safetensors.index.json", "");
    }
    cut("tokenizer.json", TOKENIZER, opens_tokenizer);
    cut("tokenizer_config.json", ROLES, opens_tokenizer);
    ck_assert(ct_lora_add(lm, "*.q_proj", (ct_lora_opts){.rank = 2}) == 1);
    ck_assert(ct_lora_save(lm, in_folder("m")));
    cut("adapter_config.json", ADAPTER, adapts);
}
END_TEST

int main(void) {
    return run_tests("model folders", begin_folders, end_folders,
                     TESTS(TEST(no_folders_of_models), TEST(several_files),
                           TEST(no_folders_of_tokenizers), TEST(cut_files)));
}
