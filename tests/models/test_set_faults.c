/* Folders of models, adapters and tokenizers that are saved over older ones. The process is killed
 * before each call into the system, or each call fails once. Before the next open another program
 * sees a whole set or none that it can open; the next open finds the old set or the new one; the
 * next save leaves no file behind. Then several threads and processes save into one folder. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/remove_tree.h"

#include "tests/support/io_faults.h"

#define CONFIG(vocab)                                                                              \
    "{\"model_type\": \"llama\", \"vocab_size\": " #vocab ", \"hidden_size\": 8, "                 \
    "\"intermediate_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}"
#define TOKENIZER(word)                                                                            \
    "{\"version\": \"1.0\", \"added_tokens\": [], \"model\": {\"type\": \"WordLevel\", "           \
    "\"vocab\": {\"a\": 0, \"" word "\": 1}, \"unk_token\": \"a\"}}"

static char top[64];

static const char *in_top(const char *name) {
    static char paths[8][sizeof top + 200]; /* the longest name is of 199 bytes */
    static _Thread_local int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", top, name);
    return paths[turn];
}

/* ---- the files of a folder ---- */

typedef struct {
    int n;
    struct {
        char name[80];
        uint64_t hash;
    } at[24];
    int others; /* files of saves: .cotangent-... */
} listing;

static uint64_t hash_of(const char *name) {
    uint64_t hash = 14695981039346656037u;
    FILE *file = fopen(name, "rb");
    ck_assert_ptr_nonnull(file);
    for (int c; (c = getc(file)) != EOF;) hash = (hash ^ (uint64_t)c) * 1099511628211u;
    fclose(file);
    return hash;
}

static bool is_folder(const char *name) {
    struct stat about;
    return !stat(name, &about) && S_ISDIR(about.st_mode);
}

/* Adds the files of a folder and of those in it; `below` begins their names. */
static void list_add(listing *list, const char *where, const char *below) {
    DIR *dir = opendir(where);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));) {
        char full[300], name[80];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        list->others += !strncmp(e->d_name, ".cotangent", 10);
        if (!strncmp(e->d_name, ".cotangent", 10)) continue;
        snprintf(full, sizeof full, "%.150s/%.80s", where, e->d_name);
        snprintf(name, sizeof name, "%.20s%.50s", below, e->d_name);
        if (is_folder(full)) {
            strcat(name, "/");
            list_add(list, full, name);
            continue;
        }
        strcpy(list->at[list->n].name, name);
        list->at[list->n++].hash = hash_of(full);
    }
    closedir(dir);
}

static listing list_of(const char *where) {
    listing list = {0};
    list_add(&list, in_top(where), "");
    return list;
}

/* Whether the list has this file, with this content unless `hash` is 0. */
static bool has(const listing *list, const char *name, uint64_t hash) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->at[i].name, name)) return !hash || list->at[i].hash == hash;
    return false;
}

static bool is_part(const listing *part, const listing *of) {
    for (int i = 0; i < part->n; i++)
        if (!has(of, part->at[i].name, part->at[i].hash)) return false;
    return true;
}

static bool is_equal(const listing *a, const listing *b) { return a->n == b->n && is_part(a, b); }

/* Makes a folder with hard links to the files of another one, and so the folders in it. */
static void copy_all(const char *from, const char *to) {
    ck_assert_int_eq(mkdir(to, 0777), 0);
    DIR *dir = opendir(from);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char old[300], made[300];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(old, sizeof old, "%.200s/%.80s", from, e->d_name);
        snprintf(made, sizeof made, "%.200s/%.80s", to, e->d_name);
        if (is_folder(old)) copy_all(old, made);
        else ck_assert_int_eq(link(old, made), 0);
    }
    closedir(dir);
}

/* Makes the folder anew from another one, whose files no save changes. */
static void copy(const char *from, const char *to) {
    remove_tree(in_top(to));
    copy_all(in_top(from), in_top(to));
}

static void put(const char *where, const char *name, const char *text) {
    char full[200];
    snprintf(full, sizeof full, "%.100s/%.60s", in_top(where), name);
    FILE *file = fopen(full, "wb");
    ck_assert(file && fputs(text, file) >= 0 && !fclose(file));
}

/* ---- the saves ---- */

static void must(ct_context *c, bool done) { ck_assert_msg(done, "%s", ct_error_message(c)); }

#define ITEM(path, type)                                                                           \
    "{\"path\": \"" path "\", \"type\": \"sentence_transformers.models." type "\"}"

/* Makes the folder of a model one of sentence-transformers, with a Dense. */
static void put_sentence(ct_context *c, const char *set, double alpha) {
    char below[200];
    put(set, "modules.json",
        "[" ITEM("", "Transformer") ", " ITEM("1_Pooling", "Pooling") ", " ITEM("2_Dense",
                                                                                "Dense") "]");
    snprintf(below, sizeof below, "%.100s/1_Pooling", set);
    ck_assert_int_eq(mkdir(in_top(below), 0777), 0);
    put(below, "config.json", alpha > 2 ? "{\"pooling_mode\": \"cls\"}" : "{}");
    snprintf(below, sizeof below, "%.100s/2_Dense", set);
    ck_assert_int_eq(mkdir(in_top(below), 0777), 0);
    put(below, "config.json", "{\"in_features\": 8, \"out_features\": 3, \"bias\": false}");
    snprintf(below, sizeof below, "%.100s/2_Dense/model.safetensors", set);
    const ct_named weight = {"linear.weight", ct_full(c, CT_F32, CT_SHAPE(3, 8), alpha)};
    must(c, ct_tensors_save(c, in_top(below), &weight, 1, (ct_save_opts){0}));
}

/* A model, one with a Dense, an adapter and a tokenizer in the folders lm, embed, adapter and
 * tokenizer of a version. */
static void make(ct_context *c, const char *at, const char *config, double alpha,
                 const char *tokenizer, int64_t shard_bytes) {
    char set[200];
    snprintf(set, sizeof set, "%s.tokenizer", at);
    mkdir(in_top(set), 0777);
    put(set, "tokenizer.json", tokenizer);
    put(set, "tokenizer_config.json", alpha > 2 ? "{\"eos_token\": \"a\"}" : "{}");
    put(set, "chat_template.jinja", alpha > 2 ? "x" : "y");
    snprintf(set, sizeof set, "%s.lm", at);
    ct_module *lm = ct_lm_new(c, config, (ct_lm_opts){0});
    must(c, ct_lm_save(lm, in_top(set), (ct_save_opts){.shard_bytes = shard_bytes}));
    put(set, "tokenizer.json", tokenizer);
    put(set, "generation_config.json", alpha > 2 ? "{\"top_k\": 3}" : "{\"top_k\": 4}");
    snprintf(set, sizeof set, "%s.embed", at);
    must(c, ct_lm_save(lm, in_top(set), (ct_save_opts){.shard_bytes = shard_bytes}));
    put_sentence(c, set, alpha);
    must(c, ct_lora_add(lm, "*.q_proj", (ct_lora_opts){.rank = 1, .alpha = alpha}) == 1);
    snprintf(set, sizeof set, "%s.adapter", at);
    must(c, ct_lora_save(lm, in_top(set)));
    ct_module_free(lm);
}

typedef struct {
    const char *what, *head; /* what: lm, embed, adapter or tokenizer */
    int64_t old_bytes, new_bytes;
} replacing;
static const replacing cases[] = {
    {"lm", "config.json", 0, 0},           {"lm", "config.json", 0, 500},
    {"lm", "config.json", 500, 0},         {"lm", "config.json", 500, 500},
    {"embed", "config.json", 0, 500},      {"adapter", "adapter_config.json", 0, 0},
    {"tokenizer", "tokenizer.json", 0, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Opens what new.* has, and with `at` saves it over the folder t under a fault. */
static bool save_new(ct_context *c, const replacing *r, fault_kind kind, int64_t at) {
    ct_tokenizer *tokenizer = NULL;
    ct_module *lm = NULL;
    if (!strcmp(r->what, "tokenizer")) {
        tokenizer = ct_tokenizer_open(c, in_top("new.tokenizer"));
        must(c, tokenizer);
    } else {
        const bool dense = !strcmp(r->what, "embed");
        lm = ct_lm_open(c, in_top(dense ? "new.embed" : "new.lm"), (ct_lm_opts){0});
        must(c, lm);
    }
    if (!strcmp(r->what, "adapter")) must(c, ct_lora_load(lm, in_top("new.adapter")));
    fault_arm(kind, at);
    const bool done =
        tokenizer ? ct_tokenizer_save(tokenizer, in_top("t"))
        : !strcmp(r->what, "adapter")
            ? ct_lora_save(lm, in_top("t"))
            : ct_lm_save(lm, in_top("t"), (ct_save_opts){.shard_bytes = r->new_bytes});
    fault_disarm();
    return done;
}

static bool open_saved(ct_context *c, const replacing *r) {
    if (!strcmp(r->what, "tokenizer")) return ct_tokenizer_open(c, in_top("t")) != NULL;
    if (!strcmp(r->what, "lm") || !strcmp(r->what, "embed"))
        return ct_lm_open(c, in_top("t"), (ct_lm_opts){0}) != NULL;
    ct_module *lm = ct_lm_open(c, in_top("new.lm"), (ct_lm_opts){0});
    return ct_lora_load(lm, in_top("t"));
}

static bool open_and_report(const replacing *r, char message[300]) {
    ct_context *c = new_with((ct_context_opts){.threads = 1});
    const bool done = open_saved(c, r);
    snprintf(message, 300, "%s", ct_error_message(c));
    ct_error_clear(c);
    ct_context_free(c);
    return done;
}

/* Saves in a child. Returns 0: it has succeeded; 1: it has failed, and said so; 9: it was killed.
 */
static int save_in_child(const replacing *r, fault_kind kind, int64_t at) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        ct_context *c = new_with((ct_context_opts){.threads = 1});
        const bool done = save_new(c, r, kind, at);
        _exit(done != (ct_error(c) == CT_OK) ? 2 : !done);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void begin_top(void) {
    strcpy(top, "/tmp/cotangent-set-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
}
static void end_top(void) { remove_tree(top); }

#define AT(condition, ...)                                                                         \
    ck_assert_msg(condition, "case %d, %s %lld: %s: %s", (int)(r - cases),                         \
                  kind == FAULT_KILL ? "killed at" : "failed at", (long long)at, #condition,       \
                  __VA_ARGS__)

/* One save with a fault. Returns whether there are further calls. */
static bool fault_and_look(const replacing *r, const listing *old, const listing *new,
                           fault_kind kind, int64_t at) {
    char from[40], message[300] = "";
    snprintf(from, sizeof from, "old.%s", r->what);
    copy(from, "t");
    const int end = save_in_child(r, kind, at);
    AT(end == 0 || end == 1 || (end == 9 && kind == FAULT_KILL), "the save");
    const listing seen = list_of("t");
    AT(!has(&seen, r->head, 0) || is_equal(&seen, old) || is_equal(&seen, new), "a mix opens");
    AT(is_part(&seen, old) || is_part(&seen, new), "old and new files");
    AT(end != 0 || is_equal(&seen, new), "done");
    AT(open_and_report(r, message), message);
    const listing opened = list_of("t");
    AT(is_equal(&opened, new) || (end != 0 && is_equal(&opened, old)), "neither old nor new");
    if (at % 8) return end != 0;
    AT(save_in_child(r, FAULT_NONE, 0) == 0, "the next save");
    const listing again = list_of("t");
    AT(is_equal(&again, new) && again.others == 0, "a file stays");
    return end != 0;
}

START_TEST(old_or_new) {
    const replacing *r = &cases[_i / 2];
    const fault_kind kind = _i % 2 ? FAULT_CALL : FAULT_KILL;
    char name[40];
    ct_context *c = new_with((ct_context_opts){.seed = 1, .threads = 1});
    make(c, "old", CONFIG(5), 2, TOKENIZER("b"), r->old_bytes);
    make(c, "new", CONFIG(7), 3, TOKENIZER("c"), 0);
    ct_context_free(c);
    snprintf(name, sizeof name, "old.%s", r->what);
    copy(name, "t");
    const listing old = list_of("t");
    int64_t at = 0;
    AT(save_in_child(r, FAULT_NONE, 0) == 0, "a save without a fault");
    const listing new = list_of("t");
    ck_assert(!is_equal(&old, &new));
    /* calls whose failure changes nothing do not end the test; beyond the last call 30 succeed */
    for (int64_t done = 0; done < (kind == FAULT_KILL ? 1 : 30);)
        done = fault_and_look(r, &old, &new, kind, ++at) ? 0 : done + 1;
    ck_assert_int_gt(at, 40);
}
END_TEST

/* ---- saves at the same time ---- */

enum { SAVES = 25, WRITERS = 3 };
static atomic_int writing;

/* Saves models of 5 + `number` tokens, in which every weight has this value, in turns of forms. */
static void *save_often(void *arg) {
    const int64_t vocab = 5 + *(int *)arg;
    char config[300];
    snprintf(config, sizeof config, "%s%d%s",
             "{\"model_type\": \"llama\", \"vocab_size\": ", (int)vocab,
             ", \"hidden_size\": 8, \"intermediate_size\": 4, \"num_hidden_layers\": 1, "
             "\"num_attention_heads\": 2}");
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *lm = ct_lm_new(c, config, (ct_lm_opts){0});
    for (ct_param p = {0}; ct_module_next(lm, &p);) ct_init_constant(p.tensor, (double)vocab);
    bool done = true;
    for (int i = 0; done && i < SAVES; i++)
        done = ct_lm_save(lm, in_top("t"), (ct_save_opts){.shard_bytes = (i + vocab) % 2 * 500});
    if (!done) fprintf(stderr, "%s\n", ct_error_message(c));
    ct_context_free(c);
    writing--;
    return done ? lm : NULL;
}

/* Whether the folder opens; a model that opens is of one save. */
static bool open_one_save(ct_context *c) {
    ct_module *lm = ct_lm_open(c, in_top("t"), (ct_lm_opts){0});
    if (!lm) return false;
    const double vocab = (double)ct_lm_about(lm).vocab_size;
    for (ct_param p = {0}; ct_module_next(lm, &p);)
        for (int64_t i = 0; i < ct_numel(p.tensor); i++)
            ck_assert((double)ct_data_f32(p.tensor)[i] == vocab);
    ct_module_free(lm);
    return true;
}

START_TEST(at_the_same_time) {
    int numbers[WRITERS], opened = 0;
    no_locks = _i % 2; /* without locks of open file descriptions */
    ct_context *c = new_with((ct_context_opts){.threads = 1});
    for (int i = 0; i < WRITERS; i++) numbers[i] = i;
    writing = 1;
    save_often(&numbers[0]); /* the folder is there from now on */
    pthread_t thread[WRITERS];
    pid_t child[WRITERS];
    writing = WRITERS;
    for (int i = 0; i < WRITERS; i++) {
        if (_i < 2) {
            ck_assert_int_eq(pthread_create(&thread[i], NULL, save_often, &numbers[i]), 0);
            continue;
        }
        fflush(NULL);
        child[i] = fork();
        if (child[i] == 0) _exit(save_often(&numbers[i]) ? 0 : 1);
    }
    for (int left = WRITERS; left > 0;) {
        int status = 1;
        /* more than four saves in a row while it opens: it says so */
        if (open_one_save(c)) opened++;
        else ck_assert_ptr_nonnull(strstr(ct_error_message(c), "it was replaced while"));
        ct_error_clear(c);
        if (_i < 2) left = writing;
        else if (waitpid(-1, &status, WNOHANG) > 0) {
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            left--;
        }
    }
    for (int i = 0; _i < 2 && i < WRITERS; i++) {
        void *result;
        ck_assert_int_eq(pthread_join(thread[i], &result), 0);
        ck_assert_ptr_nonnull(result);
    }
    ck_assert_int_gt(opened, 0); /* a busy machine opens it only once meanwhile */
    ck_assert_msg(open_one_save(c), "%s", ct_error_message(c));
    const listing list = list_of("t");
    ck_assert_int_eq(list.others, 0);
    no_locks = 0;
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_cases("set faults", CASES({.name = "set faults",
                                          .timeout = 120,
                                          .before = begin_top,
                                          .after = end_top,
                                          .tests = TESTS(LOOP(old_or_new, 2 * CASES),
                                                         LOOP(at_the_same_time, 4))}));
}
