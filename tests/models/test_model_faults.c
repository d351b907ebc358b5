/* Models without memory: every request of memory is refused once, and every call of the system that
 * a save or an open makes fails once. Nothing is lost, and the next run succeeds. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/remove_tree.h"

#include "tests/support/io_faults.h"

#define GEMMA                                                                                      \
    "{\"model_type\": \"gemma3_text\", \"vocab_size\": 11, \"hidden_size\": 8, "                   \
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "             \
    "\"num_key_value_heads\": 1, \"head_dim\": 4, \"query_pre_attn_scalar\": 4, "                  \
    "\"sliding_window\": 2, "                                                                      \
    "\"tie_word_embeddings\": false}"

static ct_context *c;
static ct_module *lm;
static char place[64];

#define TOKENIZER                                                                                  \
    "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, " \
    "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", "           \
    "\"vocab\": {\"a\": 0, \"b\": 1}, \"unk_token\": \"a\"}}"

static void put_beside(const char *name, const char *text) {
    snprintf(path, sizeof path, "%s/%s", place, name);
    FILE *file = fopen(path, "wb");
    ck_assert(file && fwrite(text, 1, strlen(text), file) == strlen(text) && !fclose(file));
}

#define ITEM(path, type)                                                                           \
    "{\"path\": \"" path "\", \"type\": \"sentence_transformers.models." type "\"}"

/* The files of sentence-transformers, with a Dense. */
static void put_sentence(void) {
    char name[120];
    put_beside("modules.json", "[" ITEM("", "Transformer") ", " ITEM(
                                   "1_Pooling", "Pooling") ", " ITEM("2_Dense", "Dense") "]");
    put_beside("config_sentence_transformers.json", "{\"prompts\": {\"query\": \"q\"}}");
    snprintf(name, sizeof name, "%s/1_Pooling", place);
    ck_assert(!mkdir(name, 0700));
    snprintf(name, sizeof name, "%s/2_Dense", place);
    ck_assert(!mkdir(name, 0700));
    put_beside("1_Pooling/config.json", "{\"pooling_mode\": [\"max\", \"lasttoken\"]}");
    put_beside("2_Dense/config.json",
               "{\"in_features\": 16, \"out_features\": 3, \"bias\": false}");
    snprintf(name, sizeof name, "%s/2_Dense/model.safetensors", place);
    const ct_named weight = {"linear.weight", ct_randn(c, CT_F32, CT_SHAPE(3, 16))};
    ck_assert(ct_tensors_save(c, name, &weight, 1, (ct_save_opts){0}));
}

/* An open model with a Dense and a prompt, a vector of it, and a copy. */
static bool embed_and_save(void *arg) {
    (void)arg;
    ct_scope scope = ct_scope_open(c);
    const int64_t ids[] = {1, 2, 3, 4};
    const bool mask[] = {true, true, true, false};
    ct_module *opened = ct_lm_open(c, place, (ct_lm_opts){0}), *copy = NULL;
    ct_tensor *x = ct_from_i64(c, CT_SHAPE(2, 2), ids);
    const ct_lm_call call = {.key_mask = ct_from_bool(c, CT_SHAPE(2, 2), mask),
                             .result = CT_LM_EMBED};
    bool done = opened && call.key_mask && ct_lm_forward(opened, x, call);
    if (done) copy = ct_module_clone(opened);
    done = copy && ct_lm_save(copy, place, (ct_save_opts){0});
    if (done) ck_assert_str_eq(ct_lm_prompt(copy, "query"), "q");
    ct_module_free(opened);
    ct_module_free(copy);
    ct_scope_close(scope);
    return done;
}

static void begin_lm(void) {
    c = new_with((ct_context_opts){.seed = 1, .threads = 1});
    lm = ct_lm_new(c, GEMMA, (ct_lm_opts){0});
    strcpy(place, "/tmp/cotangent-lm-XXXXXX");
    ck_assert(lm && mkdtemp(place));
    ck_assert(ct_lm_save(lm, place, (ct_save_opts){0}));
    put_beside("tokenizer.json", TOKENIZER);
    put_beside("tokenizer_config.json", "{\"eos_token\": \"b\"}");
    put_beside("chat_template.jinja", "x");
    put_beside("generation_config.json", "{\"max_new_tokens\": 3}");
    put_sentence();
}

static void finish_lm(void) {
    ct_context_free(c);
    remove_tree(place);
}

/* A file that cannot be looked at is no file that is missing: what opens has read every file. */
static bool open_and_free(void *arg) {
    ct_module *opened = ct_lm_open(c, place, (ct_lm_opts){.dtype = *(ct_dtype *)arg});
    if (opened) ck_assert_int_eq(ct_lm_generate_opts(opened).max_new, 3);
    ct_module_free(opened);
    return opened != NULL;
}

/* A model goes into a GGUF file and comes out of it. */
static bool save_gguf(void *arg) {
    const ct_save_opts opts = {.floats = *(ct_file_float *)arg};
    snprintf(path, sizeof path, "%s/m.gguf", place);
    return ct_lm_save(lm, path, opts);
}

static bool open_gguf(void *arg) {
    char file[80];
    snprintf(file, sizeof file, "%s/m.gguf", place);
    ct_module *opened = ct_lm_open(c, file, (ct_lm_opts){.dtype = *(ct_dtype *)arg});
    ct_module_free(opened);
    return opened != NULL;
}

static bool adapt_gguf(void *arg) {
    (void)arg;
    ct_module *copy = ct_module_clone(lm);
    char file[80];
    snprintf(file, sizeof file, "%s/a.gguf", place);
    const bool done = copy && ct_lora_add(copy, "*_proj", (ct_lora_opts){.rank = 2}) == 14 &&
                      ct_lora_save(copy, file) && ct_lora_load(copy, file);
    ct_module_free(copy);
    return done;
}

static bool open_tokenizer(void *arg) {
    (void)arg;
    ct_tokenizer *opened = ct_tokenizer_open(c, place);
    if (opened) {
        char error[200] = "";
        const ct_message message = {.role = "user", .content = "a"};
        const ct_chat_opts opts = {.error = error, .error_room = sizeof error};
        ck_assert_int_eq(ct_token_role(opened, "eos_token"), 1);
        ck_assert_msg(ct_chat_text(opened, &message, 1, opts, NULL, 0) == 1, "%s", error);
    }
    ct_tokenizer_close(opened);
    return opened != NULL;
}

static bool make_and_free(void *arg) {
    ct_module *made = ct_lm_new(c, arg, (ct_lm_opts){0});
    ct_module_free(made);
    return made != NULL;
}

static bool clone_and_free(void *arg) {
    (void)arg;
    ct_module *copy = ct_module_clone(lm);
    const bool done = copy != NULL && ct_lm_resize(copy, 13);
    if (copy && !done) { /* nothing has changed */
        char message[512];
        snprintf(message, sizeof message, "%s", ct_error_message(c));
        ct_error_clear(c);
        ck_assert_int_eq(ct_lm_about(copy).vocab_size, 11);
        ct_fail(c, CT_ERR_MEMORY, "%s", message);
    }
    ct_module_free(copy);
    return done;
}

static bool resize_masked(void *arg) {
    ct_module *made = ct_lm_new(c, arg, (ct_lm_opts){0});
    const bool done = made != NULL && ct_lm_resize(made, 13);
    if (made) {
        const ct_tensor *bias = ct_module_get(made, "cls.predictions.bias");
        ck_assert_int_eq(ct_shape_of(bias).dim[0], done ? 13 : 11);
        ck_assert_ptr_eq(bias, ct_module_get(made, "cls.predictions.decoder.bias"));
    }
    ct_module_free(made);
    return done;
}

static bool save_lm(void *arg) {
    (void)arg;
    return ct_lm_save(lm, place, (ct_save_opts){0});
}

static bool generate(void *arg) {
    (void)arg;
    ct_scope scope = ct_scope_open(c);
    ct_lm_cache *cache = ct_lm_cache_new(lm, 2, 4);
    const int64_t ids[] = {1, 2, 3, 4};
    const bool mask[] = {true, true, true, false};
    ct_tensor *x = ct_from_i64(c, CT_SHAPE(2, 2), ids);
    ct_lm_call call = {.cache = cache, .key_mask = ct_from_bool(c, CT_SHAPE(2, 2), mask)};
    bool done = cache && call.key_mask && ct_lm_forward(lm, x, call);
    done = done && ct_lm_cache_select(cache, (const int64_t[]){1, 0});
    call.key_mask = NULL;
    done = done && ct_lm_forward(lm, ct_narrow(x, 1, 0, 1), call);
    ct_lm_cache_free(cache);
    ct_scope_close(scope);
    return done;
}

static bool train_lm(void *arg) {
    (void)arg;
    ct_scope scope = ct_scope_open(c);
    const int64_t ids[] = {1, 2, 3, 4}, next[] = {2, 3, 4, -100};
    ct_tensor *loss =
        ct_lm_loss(lm, ct_from_i64(c, CT_SHAPE(1, 4), ids), ct_from_i64(c, CT_SHAPE(1, 4), next),
                   (ct_lm_call){0}, (ct_cross_entropy_opts){0});
    const bool done = loss && ct_backward(loss);
    ct_scope_close(scope);
    return done;
}

/* A failed merge may have merged some adapters. */
static bool adapt(void *arg) {
    ct_module *copy = ct_module_clone(lm);
    char adapters[80];
    snprintf(adapters, sizeof adapters, "%s/adapters", place);
    bool done = copy && ct_lora_add(copy, "*_proj", (ct_lora_opts){.rank = 2}) == 14;
    if (arg) done = done && ct_lora_save(copy, adapters);
    done = done && ct_lora_merge(copy);
    if (arg) done = done && ct_lora_load(copy, adapters);
    ct_module_free(copy);
    return done;
}

/* The number of parameters, and how many of them are trained. */
static int64_t parameters_of(const ct_module *tree, int64_t *trained) {
    ct_param param = {0};
    int64_t n = 0;
    *trained = 0;
    for (; ct_module_next(tree, &param); n++) *trained += ct_requires_grad(param.tensor);
    return n;
}

/* Adapters and a saved module are put in place, switched, copied, saved, loaded and taken away.
 * What fails has changed nothing: the next call finds the tree as it was. */
static bool switch_saved(void *arg) {
    static const char *const names[] = {"embed_tokens", "lm_head", "norm"};
    const ct_lora_opts opts = {.rank = 2, .modules_to_save = names, .n_modules_to_save = 3};
    ct_module *copy = ct_module_clone(lm), *twin = NULL;
    int64_t trained, n = copy ? parameters_of(copy, &trained) : 0;
    char adapters[80];
    snprintf(adapters, sizeof adapters, "%s/adapters", place);
    bool done = copy && ct_lora_add(copy, "*_proj", opts) == 14;
    if (copy && !done) {
        int64_t now;
        ck_assert(parameters_of(copy, &now) == n && now == trained);
    }
    if (arg) done = done && ct_lora_save(copy, adapters) && ct_lora_load(copy, adapters);
    done = done && ct_lora_enable(copy, false);
    if (done) done = (twin = ct_module_clone(copy)) != NULL && ct_lora_enable(copy, true);
    const bool added = done;
    done = done && ct_lora_remove(copy);
    if (added) {
        int64_t now;
        ck_assert((parameters_of(copy, &now) == n) == done && (now == trained) == done);
    }
    if (arg && done) {
        done = ct_lora_load(copy, adapters);
        int64_t now;
        if (!done) ck_assert(parameters_of(copy, &now) == n && now == trained);
    }
    done = done && ct_lora_merge(arg ? copy : twin);
    ct_module_free(twin);
    ct_module_free(copy);
    return done;
}

/* The base becomes a classifier, which is copied and gets targets of several labels. */
static bool classify(void *arg) {
    static const char *const names[] = {"a", "b"};
    ct_module *opened = ct_lm_open(c, place,
                                   (ct_lm_opts){.dtype = *(ct_dtype *)arg,
                                                .head = CT_LM_HEAD_SEQUENCE,
                                                .labels = 2,
                                                .label_names = names,
                                                .problem_type = "multi_label_classification"});
    ct_module *copy = opened ? ct_module_clone(opened) : NULL;
    ct_scope scope = ct_scope_open(c);
    const int64_t ids[] = {1, 2, 3, 4};
    ct_tensor *loss = copy ? ct_lm_loss(copy, ct_from_i64(c, CT_SHAPE(2, 2), ids),
                                        ct_zeros(c, CT_F32, CT_SHAPE(2, 2)), (ct_lm_call){0},
                                        (ct_cross_entropy_opts){0})
                           : NULL;
    const bool done = loss && ct_backward(loss);
    if (done) ck_assert_str_eq(ct_lm_about(copy).drawn[0], "score.weight");
    ct_scope_close(scope);
    ct_module_free(copy);
    ct_module_free(opened);
    return done;
}

/* A step that failed is made again, to the same ids. */
static bool generate_ids(void *arg) {
    static int64_t want[2][3][2];
    const bool first = !want[0][0][0];
    ct_scope scope = ct_scope_open(c);
    const int64_t ids[] = {1, 2, 3, 4, 5, 6};
    const bool mask[] = {true, true, true, true, false, false};
    const ct_batch prompts = {.ids = ct_from_i64(c, CT_SHAPE(2, 3), ids),
                              .mask = ct_from_bool(c, CT_SHAPE(2, 3), mask)};
    const ct_generate_opts opts = {.max_new = 3,
                                   .no_eos = true,
                                   .repetition_penalty = 1.5,
                                   .sample = {.temperature = arg ? 2 : 0}};
    ct_generator *generator = prompts.mask ? ct_generate_new(lm, prompts, opts) : NULL;
    bool done = generator != NULL, failed = false;
    for (int step = 0; done && step < 3; step++) {
        int64_t got[2];
        done = ct_generate_next(generator, got);
        if (!done && !failed) { /* the fault strikes once */
            failed = true;
            ct_error_clear(c);
            done = ct_generate_next(generator, got);
        }
        if (first) memcpy(want[arg != NULL][step], got, sizeof got);
        else if (done) ck_assert(!memcmp(want[arg != NULL][step], got, sizeof got));
    }
    ct_generate_free(generator);
    ct_scope_close(scope);
    if (failed) ct_fail(c, CT_ERR_MEMORY, "a step failed, and was made again");
    return done && !failed;
}

START_TEST(without_memory) {
    ct_dtype dtypes[] = {CT_F32, CT_BF16};
    ct_file_float floats = CT_FILE_F16;
    static char text[] = GEMMA;
    static char masked[] =
        "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], "
        "\"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 12, \"max_position_embeddings\": 8}";
    const fault_case cases[] = {
        {.name = "open", .run = open_and_free, .arg = &dtypes[0], .again = open_and_free},
        {.name = "open bf16", .run = open_and_free, .arg = &dtypes[1], .again = open_and_free},
        {.name = "classify", .run = classify, .arg = &dtypes[1], .again = classify},
        {.name = "new", .run = make_and_free, .arg = text, .again = make_and_free},
        {.name = "clone, resize", .run = clone_and_free, .again = clone_and_free},
        {.name = "resize bert", .run = resize_masked, .arg = masked, .again = resize_masked},
        {.name = "adapters", .run = adapt, .again = adapt},
        {.name = "files of adapters", .run = adapt, .again = adapt, .arg = text},
        {.name = "saved modules", .run = switch_saved, .again = switch_saved},
        {.name = "files of saved modules", .run = switch_saved, .again = switch_saved, .arg = text},
        {.name = "embed, save", .run = embed_and_save, .again = embed_and_save},
        /* removes sentence-transformers' files, as lm has none */
        {.name = "save", .run = save_lm, .again = save_lm},
        {.name = "save gguf", .run = save_gguf, .arg = &floats, .again = save_gguf},
        {.name = "open gguf", .run = open_gguf, .arg = &dtypes[0], .again = open_gguf},
        {.name = "adapters in gguf", .run = adapt_gguf, .again = adapt_gguf},
        {.name = "generate", .run = generate, .again = generate},
        {.name = "generator", .run = generate_ids, .again = generate_ids},
        {.name = "tokenizer", .run = open_tokenizer, .again = open_tokenizer},
        {.name = "train", .run = train_lm, .again = train_lm, .grows = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fault_case f = cases[i];
        f.kind = FAULT_TAKE, f.context = &c, f.least = 5, f.sparse = 200;
        fault_sweep(&f);
    }
}
END_TEST

START_TEST(without_files) {
    ct_dtype dtype = CT_F32;
    fault_case f = {.name = "open",
                    .kind = FAULT_CALL,
                    .run = open_and_free,
                    .arg = &dtype,
                    .again = open_and_free,
                    .context = &c,
                    .least = 5};
    fault_sweep(&f);
    f.name = "tokenizer", f.run = open_tokenizer, f.again = open_tokenizer;
    fault_sweep(&f);
    ct_file_float floats = CT_FILE_F16;
    f.name = "save gguf", f.run = save_gguf, f.again = save_gguf, f.arg = &floats;
    fault_sweep(&f);
    f.name = "open gguf", f.run = open_gguf, f.again = open_gguf, f.arg = &dtype;
    fault_sweep(&f);
    f.name = "adapters in gguf", f.run = adapt_gguf, f.again = adapt_gguf;
    fault_sweep(&f);
}
END_TEST

/* The names of the weights say how the module is made; then the values are read, from the same open
 * file. So it is with a Dense. */
START_TEST(header_is_read_once) {
    ct_dtype dtype = CT_F32;
    headers_read = 0;
    ck_assert(open_and_free(&dtype));
    ck_assert_int_eq(headers_read, 2); /* of the model and of its Dense */
}
END_TEST

int main(void) {
    return run_tests("model faults", begin_lm, finish_lm,
                     TESTS(TEST(without_memory), TEST(without_files), TEST(header_is_read_once)));
}
