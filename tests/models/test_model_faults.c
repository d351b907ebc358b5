/* Models without memory: every request of memory is refused once, and every call of the system that
 * a save or an open makes fails once. Nothing is lost, and the next run succeeds. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/io_faults.h"

#define GEMMA                                                                                      \
    "{\"model_type\": \"gemma3_text\", \"vocab_size\": 11, \"hidden_size\": 8, "                   \
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "             \
    "\"num_key_value_heads\": 1, \"head_dim\": 4, \"sliding_window\": 2, "                         \
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
}

static void finish_lm(void) {
    ct_context_free(c);
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        "generation_config.json",
                                        "adapters/adapter_config.json",
                                        "adapters/adapter_model.safetensors",
                                        "adapters"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", place, names[i]);
        remove(path);
    }
    ck_assert_int_eq(rmdir(place), 0);
}

/* A file that cannot be looked at is no file that is missing: what opens has read every file. */
static bool open_and_free(void *arg) {
    ct_module *opened = ct_lm_open(c, place, (ct_lm_opts){.dtype = *(ct_dtype *)arg});
    if (opened) ck_assert_int_eq(ct_lm_generate_opts(opened).max_new, 3);
    ct_module_free(opened);
    return opened != NULL;
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
    static char text[] = GEMMA;
    static char masked[] =
        "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], "
        "\"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 12, \"max_position_embeddings\": 8}";
    const fault_case cases[] = {
        {.name = "open", .run = open_and_free, .arg = &dtypes[0], .again = open_and_free},
        {.name = "open bf16", .run = open_and_free, .arg = &dtypes[1], .again = open_and_free},
        {.name = "new", .run = make_and_free, .arg = text, .again = make_and_free},
        {.name = "clone, resize", .run = clone_and_free, .again = clone_and_free},
        {.name = "resize bert", .run = resize_masked, .arg = masked, .again = resize_masked},
        {.name = "adapters", .run = adapt, .again = adapt},
        {.name = "files of adapters", .run = adapt, .again = adapt, .arg = text},
        {.name = "save", .run = save_lm, .again = save_lm},
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
}
END_TEST

/* The names of the weights say how the module is made; then the values are read, from the same open
 * file. */
START_TEST(header_is_read_once) {
    ct_dtype dtype = CT_F32;
    headers_read = 0;
    ck_assert(open_and_free(&dtype));
    ck_assert_int_eq(headers_read, 1);
}
END_TEST

int main(void) {
    return run_tests("model faults", begin_lm, finish_lm,
                     TESTS(TEST(without_memory), TEST(without_files), TEST(header_is_read_once)));
}
