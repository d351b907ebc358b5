/* ct_tokenizer_train: its options, and the tokenizer that it opens. test_text_merges.c compares the
 * merges with the tokenizers package's. */
#include "tests/support/files.h"

#include <cotangent/tokenizer.h>

enum { BYTES = 256, LONGEST = 500 };

static const char sample[] = "It's 2024: they've paid 12345 or 1234 dollars. IT'S so; don't.\n"
                             "\n\n  the  theme\tthen\r\nthere\r\n\r\n the end   \n"
                             "日本語 日本 日本語を 本語 é è ééé naïve\n";
static const char other[] =
    "They're in 日本, the 2035 of theirs\n\n   \n\n'the end' \xF0\x9F\x91\xA9";

static const char *paths[1];

static ct_tokenizer *train_on(const char *text, ct_tokenizer_opts opts) {
    static char path[512];
    strcpy(path, in_folder("0.txt"));
    write_all(path, text, strlen(text));
    paths[0] = path;
    return ct_tokenizer_train(context, paths, 1, opts);
}

static void must(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

static void ck_token(const ct_tokenizer *tokenizer, int64_t id, const char *text) {
    const char *token = ct_token(tokenizer, id);
    ck_assert_msg(token && !strcmp(token, text), "id %d is '%s' and not '%s'", (int)id,
                  token ? token : "none", text);
    ck_assert_int_eq(ct_token_id(tokenizer, text), id);
}

/* ---- the result ---- */

/* The ids of special tokens, which are found in a text; each has one id. */
START_TEST(special_tokens) {
    static const char *const special[] = {"<s>", "</s>", "<s>"};
    ct_tokenizer *tokenizer =
        train_on("xyz xyz</s>xyz", (ct_tokenizer_opts){.special = special, .n_special = 3});
    must(tokenizer);
    ck_token(tokenizer, 0, "<s>");
    ck_token(tokenizer, 1, "</s>");
    ck_token(tokenizer, 2, "!");
    ck_token(tokenizer, 2 + BYTES, "xy");
    int64_t ids[8];
    ck_assert_int_eq(ct_encode(tokenizer, "xyz<s>xyz", 9, (ct_encode_opts){0}, ids, NULL, 8), 3);
    ck_assert(ids[0] == ids[2] && ids[1] == 0);
    char text[20];
    ck_assert_int_eq(ct_decode(tokenizer, ids, 3, false, text, sizeof text), 6);
    ck_assert_str_eq(text, "xyzxyz");
}
END_TEST

/* A byte order mark at the beginning of a file is not learned. */
START_TEST(byte_order_marks) {
    ct_tokenizer *tokenizer = train_on("\xef\xbb\xbfxy\n\xef\xbb\xbfxy xy", (ct_tokenizer_opts){0}),
                 *same = train_on("xy\n\xef\xbb\xbfxy xy", (ct_tokenizer_opts){0});
    must(tokenizer && same);
    const int64_t n = ct_tokenizer_size(tokenizer);
    ck_assert_int_eq(ct_tokenizer_size(same), n);
    for (int64_t id = 0; id < n; id++)
        ck_assert_str_eq(ct_token(tokenizer, id), ct_token(same, id));
}
END_TEST

/* With 300 ids learned from `sample`, the text `other` has as many tokens as in the package, and
 * decoding them gives the text. */
START_TEST(ids_of_each_split) {
    static const int64_t counts[] = {39, 40, 38, 40};
    for (int split = 0; split <= CT_SPLIT_NONE; split++) {
        ct_tokenizer *tokenizer = train_on(
            sample, (ct_tokenizer_opts){.vocab_size = 300, .split = (ct_tokenizer_split)split});
        must(tokenizer);
        int64_t ids[LONGEST];
        char text[LONGEST];
        const int64_t n =
            ct_encode(tokenizer, other, sizeof other - 1, (ct_encode_opts){0}, ids, NULL, LONGEST);
        ck_assert_int_eq(n, counts[split]);
        ck_assert_int_eq(ct_decode(tokenizer, ids, n, false, text, LONGEST),
                         (int64_t)sizeof other - 1);
        ck_assert_str_eq(text, other);
    }
}
END_TEST

/* A saved tokenizer has the same ids when it is opened again. */
START_TEST(saved_and_opened) {
    static const char *const special[] = {"<|endoftext|>"};
    const ct_tokenizer_opts opts = {
        .vocab_size = 290, .split = CT_SPLIT_LLAMA3, .special = special, .n_special = 1};
    ct_tokenizer *trained = train_on(sample, opts);
    must(trained);
    const char *path = in_folder("tokenizer.json");
    must(ct_tokenizer_save(trained, path));
    ct_tokenizer *opened = ct_tokenizer_open(context, path);
    must(opened);
    ck_assert_int_eq(ct_tokenizer_size(opened), 290);
    for (int64_t id = 0; id < 290; id++) ck_token(opened, id, ct_token(trained, id));
    int64_t a[LONGEST], b[LONGEST];
    const int64_t n =
        ct_encode(trained, other, sizeof other - 1, (ct_encode_opts){0}, a, NULL, LONGEST);
    ck_assert_int_eq(
        ct_encode(opened, other, sizeof other - 1, (ct_encode_opts){0}, b, NULL, LONGEST), n);
    ck_assert(!memcmp(a, b, (size_t)n * sizeof *a));
}
END_TEST

/* ---- errors ---- */

START_TEST(refused_options) {
    static const char *const empty[] = {"a", ""}, *const null[] = {NULL}, *const bad[] = {"\xff"},
                             *const lines[] = {"a\nb"};
    const ct_tokenizer_opts right = {.vocab_size = 300};
    static const struct {
        ct_tokenizer_opts opts;
        const char *says;
    } cases_[] = {
        {{.vocab_size = 255}, "a vocabulary of 255, and not of at least 256 (256 bytes and 0"},
        {{.vocab_size = -1}, "a vocabulary of -1"},
        {{.vocab_size = INT32_MAX}, "a vocabulary of 2147483647"},
        {{.vocab_size = 256, .special = empty, .n_special = 1}, "of at least 257"},
        {{.min_frequency = -1}, "min_frequency is -1"},
        {{.split = (ct_tokenizer_split)4}, "unknown split 4"},
        {{.n_special = 1}, "1 special tokens, but special is NULL"},
        {{.special = empty, .n_special = -1}, "-1 special tokens"},
        {{.special = empty, .n_special = 2}, "special token 1 is empty"},
        {{.special = null, .n_special = 1}, "special token 0 is NULL"},
        {{.special = bad, .n_special = 1}, "special token 0 is not UTF-8"},
        {{.special = lines, .n_special = 1}, "special token 0 has a line end before its last"},
    };
    train_on("a b", (ct_tokenizer_opts){0});
    const char *path = paths[0];
    const int64_t live = ct_memory(context).live;
    for (size_t i = 0; i < sizeof cases_ / sizeof *cases_; i++)
        ck_refused(ct_tokenizer_train(context, paths, 1, cases_[i].opts), CT_ERR_ARGUMENT,
                   "tokenizer_train", cases_[i].says);
    ck_refused(ct_tokenizer_train(context, NULL, 1, right), CT_ERR_ARGUMENT, "tokenizer_train",
               "no files");
    ck_refused(ct_tokenizer_train(context, paths, 0, right), CT_ERR_ARGUMENT, "tokenizer_train",
               "no files");
    const char *files[] = {path, in_folder("missing")};
    ck_refused(ct_tokenizer_train(context, files, 2, right), CT_ERR_IO, files[1], "cannot open");
    files[1] = folder;
    ck_refused(ct_tokenizer_train(context, files, 2, right), CT_ERR_IO, files[1], "is a folder");
    files[1] = NULL;
    ck_refused(ct_tokenizer_train(context, files, 2, right), CT_ERR_ARGUMENT, "tokenizer_train",
               "path 1 of 2 is NULL");
    ck_assert(!ct_tokenizer_train(NULL, paths, 1, right));
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

static bool stop(void *arg, double done) {
    *(double *)arg = done;
    return done < 1;
}

/* progress hears of the end, and may refuse even then. */
START_TEST(progress) {
    double done = 0;
    const ct_tokenizer_opts opts = {.progress = stop, .arg = &done};
    ck_refused(train_on(sample, opts), CT_ERR_ARGUMENT, "tokenizer_train",
               "progress returned false");
    ck_assert(done == 1);
}
END_TEST

/* While an error is pending nothing is trained. */
START_TEST(pending_error) {
    train_on("a b", (ct_tokenizer_opts){0});
    ct_fail(context, CT_ERR_ARGUMENT, "an error");
    ck_assert(!ct_tokenizer_train(context, paths, 1, (ct_tokenizer_opts){0}));
    ck_assert_str_eq(ct_error_message(context), "an error");
}
END_TEST

int main(void) {
    return run_tests("text train", setup, teardown,
                     TESTS(TEST(special_tokens), TEST(byte_order_marks), TEST(ids_of_each_split),
                           TEST(saved_and_opened), TEST(refused_options), TEST(progress),
                           TEST(pending_error)));
}
