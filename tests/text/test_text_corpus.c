/* ct_encode_files: the ids of documents, the header, separators at the ends of blocks, and files
 * that stay what they were. */
#include "text_files.h"

enum { READ = 1 << 20, HEADER = 1024 }; /* READ: the bytes that are read at once */

static void must(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

static uint32_t number_at(FILE *file, int bytes) {
    uint32_t number = 0;
    for (int b = 0; b < bytes; b++) number |= (uint32_t)getc(file) << 8 * b;
    return number;
}

/* Checks the header, and that the digits of `expected` are the ids. */
static void ck_ids(const char *path, int bytes, const char *expected) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    const size_t n = strlen(expected);
    ck_assert_uint_eq(number_at(file, 4), bytes == 2 ? 20240520 : 20240801);
    ck_assert_uint_eq(number_at(file, 4), bytes == 2 ? 1 : 7);
    ck_assert_uint_eq(number_at(file, 4), n);
    for (int i = 3; i < 256; i++) ck_assert_uint_eq(number_at(file, 4), 0);
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = number_at(file, bytes);
        ck_assert_msg(id == (uint32_t)(expected[i] - '0'), "id %zu is %u and not %c", i, id,
                      expected[i]);
    }
    ck_assert_int_eq(getc(file), EOF);
    fclose(file);
}

static const char *put_document(int i, const char *text) {
    char name[16];
    snprintf(name, sizeof name, "%d.txt", i);
    const char *path = in_folder(name);
    write_all(path, text, strlen(text));
    return path;
}

START_TEST(documents) {
    static const struct {
        const char *files[2], *separator;
        int64_t end_id;
        bool no_special;
        const char *ids;
    } cases[] = {
        {{"ab a", "b"}, NULL, -1, true, "6201"},
        {{"ab a", "b"}, NULL, 0, true, "620010"},
        {{"ab a", "b"}, NULL, 4, true, "620414"},
        {{"ab a", "b"}, NULL, -1, false, "36204314"},
        {{"ab--a", "b--"}, "--", 4, true, "640414"},
        {{"----ab----a--", "--"}, "--", 4, true, "6404"}, /* empty documents */
        {{"ab-a", "--b"}, "---", 5, true, "60515"},       /* a file ends a document */
        {{"a---b", ""}, "--", 5, true, "0515"},           /* "-" has no token */
        {{"abab", "ab"}, "b", 5, true, "050505"},
        {{"aXXXYb", "a"}, "XXY", 5, true, "051505"}, /* "X" has no token */
        {{"\xef\xbb\xbf"
          "ab",
          "\xef\xbb\xbf--a\xef\xbb\xbf"},
         "--",
         5,
         true,
         "6505"}, /* a byte order mark at the beginning is no text */
        {{"\xef\xbb\xbf", "a"}, NULL, 5, true, "05"},
    };
    ct_tokenizer *tokenizer = open_small(context, "");
    char path[512];
    strcpy(path, in_folder("ids.bin"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *files[] = {put_document(0, cases[i].files[0]),
                               put_document(1, cases[i].files[1])};
        const ct_corpus_opts opts = {.separator = cases[i].separator,
                                     .end_id = cases[i].end_id,
                                     .encode.no_special = cases[i].no_special};
        const int64_t n = ct_encode_files(tokenizer, files, 2, path, opts);
        must(n >= 0);
        ck_assert_int_eq(n, (int64_t)strlen(cases[i].ids));
        ck_ids(path, 2, cases[i].ids);
    }
    ct_tokens *tokens = ct_tokens_open(context, (const char *[]){path}, 1, (ct_tokens_opts){0});
    must(tokens);
}
END_TEST

/* A separator at every place around the end of a block. */
START_TEST(separators_in_two_blocks) {
    ct_tokenizer *tokenizer = open_small(context, "");
    char *text = malloc(READ + 10), out[512];
    strcpy(out, in_folder("ids.bin"));
    for (int at = READ - 5; at <= READ + 1; at++) {
        memset(text, '.', READ + 10); /* no token */
        memcpy(text + at, "a<->b", 5);
        memcpy(text + READ / 2, "<-", 2);
        const char *path = in_folder("0.txt");
        write_all(path, text, READ + 10);
        const ct_corpus_opts opts = {.separator = "<->", .end_id = 4, .encode.no_special = true};
        must(ct_encode_files(tokenizer, &path, 1, out, opts) == 4);
        ck_ids(out, 2, "0414");
    }
    free(text);
}
END_TEST

enum { LARGE_SIZE = 2 << 20, LARGE_FILES = 4 };

/* Writes a file of documents of random lengths below `most`, with a separator behind each, into
 * text[LARGE_SIZE], and appends their ids to `want`, at *n. */
static void make_documents(const ct_tokenizer *tokenizer, const ct_corpus_opts *opts, uint32_t most,
                           char *text, int64_t *want, int64_t *n) {
    uint32_t random = most;
    size_t at = 0;
    while (at < LARGE_SIZE) {
        random = random * 1664525 + 1013904223;
        size_t end = at + (random >> 4) % most;
        if (end > LARGE_SIZE - 2) end = LARGE_SIZE - 2;
        for (size_t i = at; i < end; i++)
            text[i] = "ab b"[(random = random * 1664525 + 1013904223) >> 24 & 3];
        if (end > at) {
            *n += ct_encode(tokenizer, text + at, end - at, opts->encode, want + *n, NULL,
                            (int64_t)(end - at));
            want[(*n)++] = opts->end_id;
        }
        memcpy(text + end, "--", 2);
        at = end + 2;
    }
}

/* More documents than fit into the buffer, small and large ones, and separators only: the ids are
 * those of the documents one by one, for any number of threads. */
START_TEST(many_documents) {
    static const uint32_t most[LARGE_FILES] = {20, 60000, 1, 10 << 20};
    static const char *const names[LARGE_FILES] = {"0.txt", "1.txt", "2.txt", "3.txt"};
    char *text = malloc(LARGE_SIZE), out[512], path[LARGE_FILES][512], json[512];
    int64_t *want = malloc(LARGE_FILES * LARGE_SIZE * sizeof *want), n = 0;
    unsigned char(*got)[2] = malloc(LARGE_FILES * LARGE_SIZE * sizeof *got);
    const char *paths[LARGE_FILES];
    ct_tokenizer *tokenizer = open_small(context, "");
    const ct_corpus_opts opts = {.separator = "--", .end_id = 5, .encode.no_special = true};
    for (int f = 0; f < LARGE_FILES; f++) {
        make_documents(tokenizer, &opts, most[f], text, want, &n);
        paths[f] = strcpy(path[f], in_folder(names[f]));
        write_all(paths[f], text, LARGE_SIZE);
    }
    strcpy(out, in_folder("ids.bin"));
    strcpy(json, in_folder("small.json"));
    for (int threads = 1; threads <= 3; threads += 2) {
        ct_context *other = ct_context_new((ct_context_opts){.threads = threads});
        ct_tokenizer *one = ct_tokenizer_open(other, json);
        ck_assert_int_eq(ct_encode_files(one, paths, LARGE_FILES, out, opts), n);
        ct_context_free(other);
        FILE *file = fopen(out, "rb");
        ck_assert(file && !fseek(file, HEADER, SEEK_SET));
        const size_t read = fread(got, 2, (size_t)n + 1, file);
        ck_assert_int_eq(read, n);
        for (int64_t i = 0; i < n; i++)
            if (got[i][0] != want[i] || got[i][1]) ck_abort_msg("id %lld", (long long)i);
        fclose(file);
    }
    free(text);
    free(want);
    free(got);
}
END_TEST

/* A vocabulary of more than 65536 ids, and more ids than a half of the bytes. */
START_TEST(wide_ids) {
    ct_tokenizer *tokenizer = open_small(context, ",'z':65536");
    char text[1001], ids[1001], out[512];
    strcpy(out, in_folder("ids.bin"));
    memset(text, 'b', 1000);
    memset(ids, '1', 1000);
    text[1000] = ids[1000] = 0;
    const char *path = put_document(0, text);
    const ct_corpus_opts opts = {.end_id = -1, .encode.no_special = true};
    must(ct_encode_files(tokenizer, &path, 1, out, opts) == 1000);
    ck_ids(out, 4, ids);
    ct_tokenizer *narrow = open_small(context, ",'z':65535");
    must(ct_encode_files(narrow, &path, 1, out, opts) == 1000);
    ck_ids(out, 2, ids);
}
END_TEST

static void ck_none(int64_t n, ct_status status, const char *op, const char *says) {
    ck_assert_int_eq(n, -1);
    ck_refused(NULL, status, op, says);
}

/* After an error there is only the old file. */
START_TEST(refused) {
    ct_tokenizer *tokenizer = open_small(context, "");
    char out[512], missing[512];
    strcpy(out, in_folder("ids.bin"));
    strcpy(missing, in_folder("missing"));
    write_all(out, "old", 3);
    const char *files[] = {put_document(0, "ab"), missing, NULL};
    const ct_corpus_opts right = {.end_id = -1};
    const int before = files_in_folder();
    ck_none(ct_encode_files(tokenizer, files, 2, out, right), CT_ERR_IO, missing, "cannot open");
    ck_none(ct_encode_files(tokenizer, files + 2, 1, out, right), CT_ERR_ARGUMENT, "encode_files",
            "path 0 of 1 is NULL");
    ck_none(ct_encode_files(tokenizer, files, 0, out, right), CT_ERR_ARGUMENT, "encode_files",
            "no files");
    ck_none(ct_encode_files(tokenizer, NULL, 1, out, right), CT_ERR_ARGUMENT, "encode_files",
            "no files");
    ck_none(ct_encode_files(tokenizer, files, 1, NULL, right), CT_ERR_ARGUMENT, "encode_files",
            "out is NULL");
    ck_none(ct_encode_files(tokenizer, files, 1, out, (ct_corpus_opts){.end_id = 7}),
            CT_ERR_ARGUMENT, "encode_files", "the end_id 7 is neither -1 nor an id");
    ck_none(ct_encode_files(tokenizer, files, 1, out, (ct_corpus_opts){.end_id = -2}),
            CT_ERR_ARGUMENT, "encode_files", "the end_id -2");
    ck_none(ct_encode_files(tokenizer, files, 1, folder, right), CT_ERR_IO, folder, "is a folder");
    ck_assert_int_eq(ct_encode_files(NULL, files, 1, out, right), -1);
    ck_assert_int_eq(files_in_folder(), before);
    FILE *file = fopen(out, "rb");
    char old[4] = "";
    ck_assert(fread(old, 1, 4, file) == 3 && !memcmp(old, "old", 3));
    fclose(file);
    ct_tokenizer_close(tokenizer);
    ck_none(ct_encode_files(tokenizer, files, 1, out, right), CT_ERR_ARGUMENT, "ct_encode_files",
            "has ended");
}
END_TEST

int main(void) {
    return run_tests("text corpus", setup, teardown,
                     TESTS(TEST(documents), TEST(separators_in_two_blocks), TEST(many_documents),
                           TEST(wide_ids), TEST(refused)));
}
