/* Tokenizers if memory is short: each allocation of an open, an encode, a decode, a token_add and a
 * save fails once. */
#include <cotangent/cotangent.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ext/text/tokenizer.h"
#include "tests/support/suite.h"
#include "tokenizer_files.h"

static int64_t left = -1; /* the number of allocations until one fails; negative: none does */

static bool fails(void) { return left >= 0 && left-- == 0; }

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_cti_take_any(ct_context *context, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_cti_take_any(ct_context *context, size_t size);

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *block, size_t size) {
    return fails() ? NULL : __real_realloc(block, size);
}
void *__wrap_cti_take_any(ct_context *context, size_t size) {
    if (!fails()) return __real_cti_take_any(context, size);
    ct_fail(context, CT_ERR_MEMORY, "a failure on purpose");
    return NULL;
}

static const char *const files[] = {bpe_json, llama_json, bert_json};
enum { FILES = 3, MOST_TURNS = 10000 };
static ct_context *context;
static char *text;

static ct_tokenizer *open_file(int i) {
    free(text);
    text = unquoted(files[i]);
    return cti_tokenizer_of(context, "file.json", cti_text_of(text));
}

static void start(void) { context = ct_context_new((ct_context_opts){0}); }
static void stop(void) {
    free(text);
    text = NULL;
    ct_context_free(context);
}

START_TEST(open_faults) {
    for (int i = 0; i < FILES; i++) {
        ct_tokenizer_close(open_file(i));
        const int64_t live = ct_memory(context).live;
        for (int64_t turn = 0;; turn++) {
            ck_assert(turn < MOST_TURNS);
            left = turn;
            ct_tokenizer *tokenizer = cti_tokenizer_of(context, "file.json", cti_text_of(text));
            const bool failed = left < 0;
            left = -1;
            ck_assert_msg(!tokenizer == failed, "file %d, allocation %d: %s", i, (int)turn,
                          ct_error_message(context));
            ck_assert_int_eq(ct_error(context), failed ? CT_ERR_MEMORY : CT_OK);
            ct_error_clear(context);
            ct_tokenizer_close(tokenizer);
            ck_assert_int_eq(ct_memory(context).live, live);
            if (!failed) break;
        }
    }
}
END_TEST

static void put_file(const char *dir, const char *name, const char *content) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = content ? fopen(path, "wb") : NULL;
    if (content) ck_assert(file && fputs(content, file) >= 0 && !fclose(file));
    else remove(path);
}

/* A folder with all files that are read, which add tokens. */
START_TEST(folder_faults) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "added_tokens.json",
                                        "config.json"};
    char dir[] = "/tmp/cotangent-text-XXXXXX";
    ck_assert(mkdtemp(dir) != NULL);
    free(text);
    text = unquoted(bpe_json);
    const char *const contents[] = {
        text,
        "{\"eos_token\": {\"content\": \"<e>\"}, \"x_token\": \"<x>\", \"chat_template\": \"t\", "
        "\"extra_special_tokens\": [\"<y>\"]}",
        "{\"pad_token\": \"<p>\"}", "{\"<p>\": 90, \"<q>\": 91}", "{\"model_type\": \"gpt2\"}"};
    for (int i = 0; i < 5; i++) put_file(dir, names[i], contents[i]);
    ct_tokenizer_close(ct_tokenizer_open(context, dir)); /* the context has its memory now */
    for (int64_t turn = 0;; turn++) {
        ck_assert(turn < MOST_TURNS);
        left = turn;
        ct_tokenizer *tokenizer = ct_tokenizer_open(context, dir);
        const bool failed = left < 0;
        left = -1;
        ck_assert_msg(!tokenizer == failed, "allocation %d: %s", (int)turn,
                      ct_error_message(context));
        ck_assert_int_eq(ct_error(context), failed ? CT_ERR_MEMORY : CT_OK);
        ct_error_clear(context);
        if (tokenizer) ck_assert(ct_token_role(tokenizer, "pad_token") >= 0);
        ct_tokenizer_close(tokenizer);
        if (!failed) break;
    }
    for (int i = 0; i < 5; i++) put_file(dir, names[i], NULL);
    ck_assert(!rmdir(dir));
}
END_TEST

static const char hard[] = "hello <mask> wor caf\xc3\xa9, \xff\xe4\xb8 ab [SEP] do not";

START_TEST(encode_faults) {
    int64_t ids[2][MOST], offsets[2 * MOST];
    for (int i = 0; i < FILES; i++) {
        ct_tokenizer *tokenizer = open_file(i);
        const int64_t n =
            ct_encode(tokenizer, hard, sizeof hard - 1, (ct_encode_opts){0}, ids[0], NULL, MOST);
        ck_assert(n > 2 && n <= MOST);
        for (int64_t turn = 0;; turn++) {
            ck_assert(turn < MOST_TURNS);
            left = turn;
            const int64_t m = ct_encode(tokenizer, hard, sizeof hard - 1, (ct_encode_opts){0},
                                        ids[1], offsets, MOST);
            const bool failed = left < 0;
            left = -1;
            /* a cache of pieces may do without its memory */
            ck_assert(m == n || (failed && m == -1));
            if (m == n) ck_assert(!memcmp(ids[0], ids[1], (size_t)n * sizeof **ids));
            ck_assert_int_eq(ct_error(context), CT_OK);
            if (!failed) break;
        }
        ct_tokenizer_close(tokenizer);
    }
}
END_TEST

/* The ids 2 to 9 as a stream; -1 if a call fails. A failed call is not repeated. */
static int64_t stream_some(const ct_tokenizer *tokenizer, char *out) {
    ct_decode_state state = {0};
    char piece[64];
    int64_t size = 0;
    for (int64_t id = 2; id <= 10; id++) {
        const ct_decode_state before = state;
        const int64_t more =
            ct_decode_next(tokenizer, &state, id < 10 ? id : -1, piece, sizeof piece);
        if (more < 0) {
            ck_assert(!memcmp(&before, &state, sizeof state));
            return -1;
        }
        memcpy(out + size, piece, (size_t)more);
        size += more;
    }
    return size;
}

START_TEST(decode_faults) {
    static const int64_t ids[] = {2, 3, 4, 5, 6, 7, 8, 9};
    char whole[256], again[256];
    for (int i = 0; i < FILES; i++) {
        ct_tokenizer *tokenizer = open_file(i);
        const int64_t n = ct_decode(tokenizer, ids, 8, false, whole, sizeof whole);
        for (int streams = 0; streams < 2; streams++) {
            for (int64_t turn = 0;; turn++) {
                ck_assert(turn < MOST_TURNS);
                left = turn;
                const int64_t m = streams
                                      ? stream_some(tokenizer, again)
                                      : ct_decode(tokenizer, ids, 8, false, again, sizeof again);
                const bool failed = left < 0;
                left = -1;
                ck_assert(failed ? m == -1 : m >= 0);
                if (!failed && !streams) ck_assert(m == n && !memcmp(whole, again, (size_t)n));
                if (!failed) break;
            }
        }
        ct_tokenizer_close(tokenizer);
    }
}
END_TEST

START_TEST(add_and_save_faults) {
    char path[64] = "/tmp/cotangent-tokenizer-XXXXXX", file[80];
    ck_assert(mkdtemp(path));
    snprintf(file, sizeof file, "%s/a.json", path);
    for (int64_t turn = 0;; turn++) {
        ck_assert(turn < MOST_TURNS);
        ct_tokenizer *tokenizer = open_file(2);
        left = turn;
        const bool done = ct_token_add(tokenizer, "<new>", "pad_token") >= 0 &&
                          ct_tokenizer_save(tokenizer, file);
        const bool failed = left < 0;
        left = -1;
        ck_assert(done != failed);
        ck_assert_int_eq(ct_error(context), failed ? CT_ERR_MEMORY : CT_OK);
        ct_error_clear(context);
        ct_tokenizer_close(tokenizer);
        if (!failed) break;
    }
    ck_assert(!remove(file) && !rmdir(path));
}
END_TEST

/* Each allocation of ct_encode_files; the old file stays after an error. */
START_TEST(corpus_faults) {
    char dir[] = "/tmp/cotangent-text-XXXXXX", in[200], out[200];
    ck_assert(mkdtemp(dir) != NULL);
    snprintf(in, sizeof in, "%s/in.txt", dir);
    snprintf(out, sizeof out, "%s/out.bin", dir);
    put_file(dir, "in.txt", "hello--world hello<mask>--\xff--");
    const char *const paths[] = {in, in};
    const ct_corpus_opts opts = {.separator = "--", .end_id = 0};
    ct_tokenizer *tokenizer = open_file(0);
    const int64_t want = ct_encode_files(tokenizer, paths, 2, out, opts);
    ck_assert_int_gt(want, 12);
    put_file(dir, "out.bin", "old");
    for (int64_t turn = 0;; turn++) {
        ck_assert(turn < MOST_TURNS);
        left = turn;
        const int64_t n = ct_encode_files(tokenizer, paths, 2, out, opts);
        const bool failed = left < 0;
        left = -1;
        ck_assert_int_eq(n, failed ? -1 : want);
        ck_assert_int_eq(ct_error(context), failed ? CT_ERR_MEMORY : CT_OK);
        ct_error_clear(context);
        if (!failed) break;
        char old[8] = "";
        FILE *file = fopen(out, "rb");
        ck_assert(file && fread(old, 1, 8, file) == 3 && !strcmp(old, "old"));
        fclose(file);
    }
    ct_tokenizer_close(tokenizer);
    put_file(dir, "in.txt", NULL);
    put_file(dir, "out.bin", NULL);
    ck_assert(!rmdir(dir));
}
END_TEST

START_TEST(chat_faults) {
    static const ct_message messages[] = {{.role = "system", .content = "do not"},
                                          {.role = "user", .content = "caf\xc3\xa9 \xff"},
                                          {.json = "{\"role\": \"assistant\", \"weight\": 1, "
                                                   "\"content\": \" hello <s> world \"}"}};
    char error[100];
    const ct_chat_opts opts = {
        .kind = CT_CHAT_CHATML, .open = true, .error = error, .error_room = sizeof error};
    int64_t ids[2][8 * MOST], targets[2][8 * MOST];
    for (int i = 0; i < FILES; i++) {
        ct_tokenizer *tokenizer = open_file(i);
        const int64_t n =
            ct_chat_encode(tokenizer, messages, 3, opts, ids[0], targets[0], 8 * MOST);
        ck_assert(n > 20 && n <= 8 * MOST);
        for (int64_t turn = 0;; turn++) {
            ck_assert(turn < MOST_TURNS);
            left = turn;
            const int64_t m =
                ct_chat_encode(tokenizer, messages, 3, opts, ids[1], targets[1], 8 * MOST);
            const bool failed = left < 0;
            left = -1;
            ck_assert(m == n || (failed && m == -1));
            ck_assert_int_eq(ct_error(context), CT_OK);
            ck_assert(m == n || strstr(error, "chat_encode: out of memory") ||
                      strstr(error, "memory is short"));
            if (m == n)
                ck_assert(!memcmp(ids[0], ids[1], (size_t)n * sizeof **ids) &&
                          !memcmp(targets[0], targets[1], (size_t)n * sizeof **targets));
            if (!failed) break;
        }
        ct_tokenizer_close(tokenizer);
    }
}
END_TEST

/* Lines that need a larger buffer and larger arrays of messages one after the other. */
static void write_lines(const char *path, bool array) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    if (array) fprintf(file, "[");
    for (int i = 1; i <= 3; i++) {
        fprintf(file, "{\"messages\": [{\"role\": \"user\", \"content\": \"%0*d\"}", 60000 * i, i);
        for (int k = 0; k < 100 * i; k++)
            fprintf(file, ", {\"role\": \"assistant\", \"content\": \"%d\"}", k);
        fprintf(file, array && i < 3 ? "]},\n" : "]}\n");
    }
    if (array) fprintf(file, "]");
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(line_faults) {
    char path[64] = "/tmp/cotangent-lines-XXXXXX", file[80];
    ck_assert(mkdtemp(path));
    snprintf(file, sizeof file, "%s/a.jsonl", path);
    write_lines(file, _i);
    const int64_t live = ct_memory(context).live;
    for (int64_t turn = 0;; turn++) {
        ck_assert(turn < MOST_TURNS);
        left = turn;
        ct_json_lines *lines = ct_json_lines_open(context, file);
        ct_json_line line;
        int64_t n = 0;
        while (lines && ct_json_lines_next(lines, &line)) n = line.number;
        const bool failed = left < 0;
        left = -1;
        /* the pool may do without memory that it asks for */
        ck_assert(n == 3 || failed);
        ck_assert_int_eq(ct_error(context), n < 3 ? CT_ERR_MEMORY : CT_OK);
        ct_error_clear(context);
        ct_json_lines_close(lines);
        ck_assert_int_eq(ct_memory(context).live, live);
        if (!failed) break;
    }
    ck_assert(!remove(file) && !rmdir(path));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text_faults");
    TCase *tcase = tcase_create("text_faults");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, open_faults);
    tcase_add_test(tcase, folder_faults);
    tcase_add_test(tcase, encode_faults);
    tcase_add_test(tcase, decode_faults);
    tcase_add_test(tcase, add_and_save_faults);
    tcase_add_test(tcase, corpus_faults);
    tcase_add_test(tcase, chat_faults);
    tcase_add_loop_test(tcase, line_faults, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
