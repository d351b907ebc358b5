/* Batches of texts and of rows of ids. The rows of pairs and of max_length are from the
 * tokenizers package 0.23.3 with its strategy "longest_first". */
#include "src/os/os.h"
#include "text_files.h"

/* Checks a row of a tensor of i64: the digits of `expected` are its numbers. */
static void ck_digits(ct_tensor *tensor, int64_t row, const char *expected) {
    const int64_t T = ct_shape_of(tensor).dim[1];
    ck_assert_int_eq(T, (int64_t)strlen(expected));
    for (int64_t t = 0; t < T; t++)
        ck_assert_msg(ct_data_i64(tensor)[row * T + t] == expected[t] - '0',
                      "place %d is %d and not %c", (int)t, (int)ct_data_i64(tensor)[row * T + t],
                      expected[t]);
}

static void must(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

START_TEST(equal_to_the_package) {
    static const struct {
        const char *first, *second;
        int64_t most;
        const char *ids, *types;
    } cases[] = {
        {"ab a b", NULL, 0, "3620214", "0000000"},
        {"ab a b", NULL, 2, "34", "00"},
        {"ab a b", NULL, 3, "364", "000"},
        {"ab a b", NULL, 6, "362024", "000000"},
        {"ab a b", NULL, 7, "3620214", "0000000"},
        {"", NULL, 0, "34", "00"},
        {"ab a b", "b a", 0, "36202141204", "00000001111"},
        {"ab a b", "b a", 3, "344", "001"},
        {"ab a b", "b a", 4, "3644", "0001"},
        {"ab a b", "b a", 5, "36414", "00011"},
        {"ab a b", "b a", 6, "362414", "000011"},
        {"ab a b", "b a", 7, "3624124", "0000111"},
        {"ab a b", "b a", 8, "36204124", "00000111"},
        {"ab a b", "b a", 9, "362041204", "000001111"},
        {"b", "ab a b aab", 4, "3464", "0011"},
        {"b", "ab a b aab", 5, "31464", "00011"},
        {"b", "ab a b aab", 8, "31462024", "00011111"},
        {"ab a b aab", "b", 8, "36202414", "00000011"},
        {"bbbbb", "aaaaa", 4, "3404", "0011"},
        {"bbbbb", "aaaaa", 7, "3114004", "0000111"},
        {"bbbbb", "aaaaa", 8, "31140004", "00001111"},
        {"", "aaaaa", 6, "340004", "001111"},
    };
    ct_tokenizer *tokenizer = open_small(context, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_batch batch =
            ct_encode_batch(tokenizer, &cases[i].first, cases[i].second ? &cases[i].second : NULL,
                            1, (ct_batch_opts){.max_length = cases[i].most});
        must(batch.ids);
        ck_digits(batch.ids, 0, cases[i].ids);
        ck_digits(batch.types, 0, cases[i].types);
        ck_assert_ptr_null(batch.targets);
    }
    const char *first = "ab a[SEP]", *second = "b";
    const ct_encode_opts plain = {.no_special = true};
    ct_batch batch =
        ct_encode_batch(tokenizer, &first, &second, 1, (ct_batch_opts){.encode = plain});
    ck_digits(batch.ids, 0, "62041");
    ck_digits(batch.types, 0, "00001");
    batch = ct_encode_batch(tokenizer, &first, NULL, 1,
                            (ct_batch_opts){.encode.plain = true, .encode.no_special = true});
    ck_digits(batch.ids, 0, "620"); /* the model has no token for the characters of [SEP] */
}
END_TEST

/* Without its tokens a template still has the order and the types of the texts. */
START_TEST(templates_without_tokens) {
    static const char b_of_pair[] = "{'Sequence':{'id':'B','type_id':1}}",
                      changed[] = "{'Sequence':{'id':'A','type_id':3}}";
    char text[sizeof small_begin + sizeof small_end];
    const int size = snprintf(text, sizeof text, "%s%s", small_begin, small_end);
    char *at = strstr(text, b_of_pair), *a = strstr(strstr(text, "'pair'"), "'id':'A'");
    memcpy(at, changed, sizeof changed - 1);
    a[6] = 'B';
    for (int i = 0; i < size; i++)
        if (text[i] == '\'') text[i] = '"';
    const char *path = in_folder("small.json"), *first = "ab", *second = "b b";
    write_all(path, text, (size_t)size);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    must(tokenizer);
    for (int no_special = 0; no_special < 2; no_special++) {
        const ct_batch_opts opts = {.encode.no_special = no_special};
        const ct_batch batch = ct_encode_batch(tokenizer, &first, &second, 1, opts);
        must(batch.ids);
        ck_digits(batch.ids, 0, no_special ? "1216" : "3121464");
        ck_digits(batch.types, 0, no_special ? "0003" : "0000031");
    }
}
END_TEST

/* Padding on either side, in every tensor. */
START_TEST(padding) {
    static const char *const texts[] = {"ab", "", "a b a"};
    ct_tokenizer *tokenizer = open_small(context, "");
    for (int left = 0; left < 2; left++) {
        const ct_scope scope = ct_scope_open(context);
        const ct_batch batch = ct_encode_batch(tokenizer, texts, NULL, 3,
                                               (ct_batch_opts){.pad_left = left, .pad_id = 5});
        must(batch.ids);
        static const char *const ids[2][3] = {{"3645555", "3455555", "3021204"},
                                              {"5555364", "5555534", "3021204"}};
        static const int64_t lengths[] = {3, 2, 7};
        for (int64_t i = 0; i < 3; i++) {
            ck_digits(batch.ids, i, ids[left][i]);
            ck_digits(batch.types, i, "0000000");
            for (int64_t t = 0; t < 7; t++)
                ck_assert(ct_data_bool(batch.mask)[7 * i + t] ==
                          (left ? t >= 7 - lengths[i] : t < lengths[i]));
        }
        ck_assert(!ct_requires_grad(batch.ids));
        ct_scope_close(scope);
    }
}
END_TEST

/* Many rows are the same on one thread and on several, and the same as by ct_encode. */
START_TEST(threads) {
    enum { ROWS = 500, MOST = 40 };
    static char text[ROWS][MOST + 1];
    static const char *texts[ROWS];
    ct_context *four = ct_context_new((ct_context_opts){.threads = 4});
    ct_tokenizer *one = open_small(context, ""), *many = open_small(four, "");
    uint32_t state = 1;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < i % MOST; k++) {
            state = state * 1664525 + 1013904223;
            text[i][k] = "ab "[(state >> 24) % 3];
        }
        texts[i] = text[i];
    }
    const ct_batch_opts opts = {.pad_id = 5};
    const ct_batch a = ct_encode_batch(one, texts, texts, ROWS, opts),
                   b = ct_encode_batch(many, texts, texts, ROWS, opts);
    must(a.ids);
    ck_assert_msg(b.ids != NULL, "%s", ct_error_message(four));
    const int64_t T = ct_shape_of(a.ids).dim[1];
    ck_assert_int_eq(T, ct_shape_of(b.ids).dim[1]);
    ck_assert(!memcmp(ct_data_i64(a.ids), ct_data_i64(b.ids), ROWS * (size_t)T * 8));
    ck_assert(!memcmp(ct_data_i64(a.types), ct_data_i64(b.types), ROWS * (size_t)T * 8));
    for (int i = 0; i < ROWS; i++) {
        int64_t ids[MOST + 2];
        const int64_t n =
            ct_encode(one, texts[i], strlen(texts[i]), (ct_encode_opts){0}, ids, NULL, MOST + 2);
        ck_assert(!memcmp(ct_data_i64(a.ids) + i * T, ids, (size_t)n * 8));
        ck_assert_int_eq(ct_data_i64(a.types)[i * T + n - 1], 0);
        ck_assert_int_eq(ct_data_bool(a.mask)[i * T + 2 * n - 2], true);
        ck_assert(2 * n - 1 == T || !ct_data_bool(a.mask)[i * T + 2 * n - 1]);
    }
    ct_context_free(four);
}
END_TEST

START_TEST(rows_of_ids) {
    static const int64_t ids[] = {1, 2, 3, 4, 5, 6}, targets[] = {2, 3, -100, 5, 6, 7},
                         lengths[] = {3, 0, 1, 2};
    ct_batch batch = ct_batch_of(context, ids, targets, lengths, 4, (ct_batch_opts){.pad_id = 9});
    must(batch.ids);
    static const char *const rows[] = {"123", "999", "499", "569"};
    static const int64_t expected[4][3] = {
        {2, 3, -100}, {-100, -100, -100}, {5, -100, -100}, {6, 7, -100}};
    for (int64_t i = 0; i < 4; i++) {
        ck_digits(batch.ids, i, rows[i]);
        ck_digits(batch.types, i, "000");
        for (int64_t t = 0; t < 3; t++) {
            ck_assert_int_eq(ct_data_i64(batch.targets)[3 * i + t], expected[i][t]);
            ck_assert(ct_data_bool(batch.mask)[3 * i + t] == (t < lengths[i]));
        }
    }
    const ct_batch_opts left = {.pad_left = true, .max_length = 2};
    batch = ct_batch_of(context, ids, NULL, lengths, 4, left);
    static const char *const cut[] = {"12", "00", "04", "56"};
    for (int64_t i = 0; i < 4; i++) ck_digits(batch.ids, i, cut[i]);
    ck_assert_ptr_null(batch.targets);
    static const int64_t zeros[2] = {0};
    batch = ct_batch_of(context, ids, NULL, zeros, 2, (ct_batch_opts){0});
    must(batch.ids);
    ck_assert(ct_shape_of(batch.ids).dim[0] == 2 && ct_shape_of(batch.ids).dim[1] == 0);
}
END_TEST

static void ck_no_batch(ct_batch batch, ct_status status, const char *op, const char *says) {
    ck_assert(!batch.ids && !batch.mask && !batch.types && !batch.targets);
    ck_refused(NULL, status, op, says);
}

/* A text that needs an unknown token which the vocabulary lacks. */
START_TEST(no_unknown_token) {
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<unk>\","
                               "\"vocab\":{\"a\":0,\"<|im_start|>\":1,\"<|im_end|>\":2}}}";
    const char *path = in_folder("words.json"), *texts[] = {"a", "b"};
    write_all(path, json, sizeof json - 1);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    must(tokenizer);
    const char *says = "does not have the model's unk_token";
    must(ct_encode_batch(tokenizer, texts, NULL, 1, (ct_batch_opts){0}).ids);
    ck_refused(ct_encode_batch(tokenizer, texts, NULL, 2, (ct_batch_opts){0}).ids, CT_ERR_FORMAT,
               "encode_batch", says);
    const char *out = in_folder("words.bin");
    ck_refused(ct_encode_files(tokenizer, &path, 1, out, (ct_corpus_opts){.end_id = -1}) < 0
                   ? NULL
                   : "encoded",
               CT_ERR_FORMAT, "encode_files", says);
}
END_TEST

/* ---- several threads and one const tokenizer ---- */

enum { CHATTERS = 4, CHATS = 50 };
typedef struct {
    const ct_tokenizer *tokenizer;
    ct_message message;
    const char *template;
    const char *text_says, *encode_says; /* NULL: the call is not refused */
    cti_thread thread;
    const char *fault; /* what went wrong */
} chatter;

static const char *one_chat(const chatter *c) {
    char error[200] = "";
    int64_t ids[40];
    const ct_chat_opts opts = {
        .chat_template = c->template, .error = error, .error_room = sizeof error};
    int64_t n = ct_chat_text(c->tokenizer, &c->message, 1, opts, NULL, 0);
    if ((n == -1) != (c->text_says != NULL)) return "the result of ct_chat_text";
    if (c->text_says && strcmp(error, c->text_says) != 0) return "the message of ct_chat_text";
    n = ct_chat_encode(c->tokenizer, &c->message, 1, opts, ids, NULL, 40);
    if (n != -1) return "the result of ct_chat_encode";
    if (strcmp(error, c->encode_says) != 0) return "the message of ct_chat_encode";
    if (ct_encode(c->tokenizer, "a", 1, (ct_encode_opts){0}, ids, NULL, 40) != 1 ||
        ct_encode(c->tokenizer, "b", 1, (ct_encode_opts){0}, ids, NULL, 40) != -1)
        return "ct_encode";
    return ct_token_role(c->tokenizer, "no such role") == -1 && ct_token_id(c->tokenizer, "a") == 0
               ? NULL
               : "a token";
}

static void chatter_run(void *arg) {
    chatter *c = arg;
    for (int i = 0; i < CHATS && !c->fault; i++) c->fault = one_chat(c);
}

/* Each thread is refused, by a sentence of its own, while the context works. */
START_TEST(refusals_on_threads) {
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<unk>\","
                               "\"vocab\":{\"a\":0,\"<|im_start|>\":1,\"<|im_end|>\":2}}}";
    const char *path = in_folder("words.json");
    write_all(path, json, sizeof json - 1);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    must(tokenizer);
    chatter chatters[CHATTERS] = {
        {.template = "chatml",
         .message = {.role = "user", .content = "b"},
         .encode_says = "chat_encode: a text has a part without a token, and the vocabulary does "
                        "not have the model's unk_token (or memory is short)"},
        {.template = "gemma",
         .message = {.role = "system", .content = "a"},
         .text_says = "chat_text: line 1, column 84 of the chat template: a chat of Gemma has no "
                      "system message",
         .encode_says = "chat_encode: line 1, column 84 of the chat template: a chat of Gemma has "
                        "no system message"},
        {.template = "{% for %}",
         .message = {.role = "user", .content = "a"},
         .text_says = "chat_text: line 1, column 8 of the chat template: unexpected 'end of "
                      "statement block'",
         .encode_says = "chat_encode: line 1, column 8 of the chat template: unexpected 'end of "
                        "statement block'"},
        {.message = {.role = "user", .content = "a"},
         .text_says = "chat_text: the tokenizer has no chat template: name one, as chatml, llama3, "
                      "gemma, zephyr",
         .encode_says = "chat_encode: the tokenizer has no chat template: name one, as chatml, "
                        "llama3, gemma, zephyr"},
    };
    for (int i = 0; i < CHATTERS; i++) {
        chatters[i].tokenizer = tokenizer;
        ck_assert(cti_thread_start(&chatters[i].thread, chatter_run, &chatters[i]));
    }
    for (int i = 0; i < CHATS; i++) {
        const ct_scope scope = ct_scope_open(context);
        ct_add(ct_full(context, CT_F32, CT_SHAPE(3), 1), ct_full(context, CT_F32, CT_SHAPE(3), 2));
        ct_scope_close(scope);
    }
    for (int i = 0; i < CHATTERS; i++) {
        cti_thread_join(&chatters[i].thread);
        ck_assert_msg(!chatters[i].fault, "thread %d: %s", i, chatters[i].fault);
    }
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}
END_TEST

START_TEST(refused) {
    static const char *const texts[] = {"a", NULL};
    static const int64_t ids[] = {1}, wrong[] = {-1};
    ct_tokenizer *tokenizer = open_small(context, "");
    const ct_batch_opts right = {0};
    ck_no_batch(ct_encode_batch(tokenizer, NULL, NULL, 1, right), CT_ERR_ARGUMENT, "encode_batch",
                "texts is NULL");
    ck_no_batch(ct_encode_batch(tokenizer, texts, NULL, 2, right), CT_ERR_ARGUMENT, "encode_batch",
                "texts[1] is NULL");
    ck_no_batch(ct_encode_batch(tokenizer, texts, texts + 1, 1, right), CT_ERR_ARGUMENT,
                "encode_batch", "seconds[0] is NULL");
    ck_no_batch(ct_encode_batch(tokenizer, texts, NULL, 0, right), CT_ERR_ARGUMENT, "encode_batch",
                "0 rows");
    ck_no_batch(ct_encode_batch(tokenizer, texts, NULL, 1, (ct_batch_opts){.max_length = -1}),
                CT_ERR_ARGUMENT, "encode_batch", "max_length is -1");
    ck_no_batch(ct_encode_batch(tokenizer, texts, NULL, 1, (ct_batch_opts){.max_length = 1}),
                CT_ERR_ARGUMENT, "encode_batch", "max_length is 1, and the tokens around");
    ck_no_batch(ct_encode_batch(tokenizer, texts, texts, 1, (ct_batch_opts){.max_length = 2}),
                CT_ERR_ARGUMENT, "encode_batch", "max_length is 2, and the tokens around");
    ck_no_batch(ct_batch_of(context, NULL, NULL, ids, 1, right), CT_ERR_ARGUMENT, "batch_of",
                "ids is NULL");
    ck_no_batch(ct_batch_of(context, ids, NULL, NULL, 1, right), CT_ERR_ARGUMENT, "batch_of",
                "lengths is NULL");
    ck_no_batch(ct_batch_of(context, ids, NULL, wrong, 1, right), CT_ERR_ARGUMENT, "batch_of",
                "the length of row 0 is -1");
    ck_no_batch(ct_batch_of(context, ids, NULL, ids, -1, right), CT_ERR_ARGUMENT, "batch_of",
                "-1 rows");
    ck_no_batch(ct_batch_of(context, ids, NULL, ids, INT64_MAX / 2, right), CT_ERR_MEMORY,
                "batch_of", "memory");
    ck_assert(!ct_encode_batch(NULL, texts, NULL, 1, right).ids);
    ck_assert(!ct_batch_of(NULL, ids, NULL, ids, 1, right).ids);
    ct_tokenizer_close(tokenizer);
    ck_no_batch(ct_encode_batch(tokenizer, texts, NULL, 1, right), CT_ERR_ARGUMENT,
                "ct_encode_batch", "has ended");
}
END_TEST

int main(void) {
    return run_cases(
        "text batch",
        CASES({.name = "batches",
               .before = setup,
               .after = teardown,
               .tests =
                   TESTS(TEST(equal_to_the_package), TEST(templates_without_tokens), TEST(padding),
                         TEST(threads), TEST(rows_of_ids), TEST(no_unknown_token), TEST(refused))},
              {.name = "threads",
               .tags = "threads",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(refusals_on_threads))}));
}
