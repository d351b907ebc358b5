/* Token files that are not what they should be, at open or later: each is an error with the file
 * and the offset, changes neither x nor y, and holds nothing. */
#include "token_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/time.h>

enum { T = 7, IDS = 10 * T + 1 };

/* ---- headers ---- */

/* A file of a header and `rest` bytes of zeros, cut to `size` bytes unless that is 0. */
static const char *put_with_header(uint32_t magic, uint32_t version, uint32_t count, int rest,
                                   int size) {
    const char *path = in_folder("0.bin");
    FILE *file = fopen(path, "wb");
    put_header(file, magic, version, count);
    for (int i = 0; i < rest; i++) putc(0, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert(!size || truncate(path, size) == 0);
    return path;
}

START_TEST(headers) {
    static const struct {
        uint32_t magic, version, count;
        int rest, size, bytes;
        const char *says; /* NULL: it is right, with so many ids: */
        int64_t ids;
    } cases[] = {
        {MAGIC, 1, 5, 10, 0, 0, NULL, 5},
        {MAGIC, 1, 5, 10, 0, 2, NULL, 5},
        {MAGIC, 7, 5, 20, 0, 0, NULL, 5},
        {LLAMA3, 7, 5, 20, 0, 0, NULL, 5},
        {LLAMA3, 7, 5, 20, 0, 4, NULL, 5},
        {MAGIC, 1, 0, 0, 0, 0, NULL, 0},
        {MAGIC, 1, 5, 20, 0, 4, "byte 4: ids of 2 bytes by llm.c's header, of 4 by .bytes", 0},
        {LLAMA3, 7, 5, 20, 0, 2, "byte 4: ids of 4 bytes by llm.c's header, of 2 by .bytes", 0},
        {MAGIC, 2, 5, 10, 0, 0, "byte 4: version 2 of llm.c's header", 0},
        {MAGIC, 0, 5, 10, 0, 2, "byte 4: version 0 of llm.c's header", 0},
        {MAGIC, UINT32_MAX, 5, 10, 0, 0, "version 4294967295 of llm.c's header", 0},
        {MAGIC, 1, 4, 10, 0, 0, "byte 8: llm.c's header says 4 ids of 2 bytes, and 10 bytes", 0},
        {MAGIC, 1, 5, 11, 0, 0, "5 ids of 2 bytes, and 11 bytes follow it", 0},
        {MAGIC, 7, 5, 10, 0, 0, "5 ids of 4 bytes, and 10 bytes follow it", 0},
        {MAGIC, 1, UINT32_MAX, 10, 0, 0, "says 4294967295 ids of 2 bytes", 0},
        {MAGIC, 7, UINT32_MAX, 10, 0, 0, "says 4294967295 ids of 4 bytes", 0},
        {MAGIC, 1, 5, 10, 1023, 0, "ends at byte 1023, inside llm.c's header of 1024", 0},
        {MAGIC, 1, 5, 10, 12, 0, "ends at byte 12, inside llm.c's header", 0},
        {MAGIC, 1, 5, 10, 4, 0, "ends at byte 4, inside llm.c's header", 0},
        {MAGIC, 1, 5, 10, 3, 0, "3 bytes are no whole number of ids of 2 bytes", 0},
        {MAGIC, 1, 5, 10, 2, 0, NULL, 1},
        {MAGIC + 1, 1, 5, 10, 0, 0, NULL, 512 + 5}, /* no header: ids of 2 bytes */
        {MAGIC + 1, 1, 5, 12, 0, 4, NULL, 256 + 3},
        {MAGIC + 1, 1, 5, 11, 0, 0, "cut at byte 1034", 0},
        {MAGIC + 1, 1, 5, 10, 0, 4, "no whole number of ids of 4 bytes: the last one is cut", 0},
        {MAGIC, 1, 5, 10, -1, 0, NULL, 0}, /* an empty file */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *path = put_with_header(cases[k].magic, cases[k].version, cases[k].count,
                                           cases[k].rest, cases[k].size < 0 ? 1 : cases[k].size);
        if (cases[k].size < 0) ck_assert_int_eq(truncate(path, 0), 0);
        const int64_t live = ct_memory(context).live;
        ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){.bytes = cases[k].bytes});
        if (cases[k].says) ck_refused(tokens, CT_ERR_FORMAT, path, cases[k].says);
        else must(tokens);
        ck_assert_int_eq(ct_tokens_count(tokens), cases[k].ids);
        ct_tokens_close(tokens);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

/* Bytes written by hand, as numpy writes them on any machine. */
START_TEST(little_endian) {
    static const unsigned char ids[] = {0x01, 0x02, 0x00, 0x00, 0xff, 0xfe, 0xfd, 0xfc};
    const char *path = in_folder("0.bin");
    ct_tensor *x = NULL, *y = NULL;
    write_all(path, (const char *)ids, sizeof ids);
    ct_tokens *two = open_ids(context, 1, (ct_tokens_opts){0});
    must(two && ct_tokens_batch(two, 1, 0, 1, 3, &x, &y));
    ck_assert(ct_data_i64(x)[0] == 0x0201 && ct_data_i64(x)[2] == 0xfeff);
    ck_assert(ct_data_i64(y)[0] == 0 && ct_data_i64(y)[2] == 0xfcfd);
    ct_tokens *four = open_ids(context, 1, (ct_tokens_opts){.bytes = 4});
    must(four && ct_tokens_batch(four, 1, 0, 1, 1, &x, &y));
    ck_assert(ct_data_i64(x)[0] == 0x0201 && ct_data_i64(y)[0] == INT64_C(0xfcfdfeff));
}
END_TEST

/* ---- ids ---- */

/* An id outside the vocabulary in the first place of a window, in another, and as the last
 * target. */
START_TEST(vocabulary) {
    static const int64_t at[] = {0, 3, T};
    for (int version = 0; version <= 7; version += version ? 6 : 1)
        for (int k = 0; k < 3; k++) {
            const int bytes = version == 7 ? 4 : 2;
            const int64_t data = version ? 1024 : 0;
            const char *path = put_ids(0, T + 1, bytes, (uint32_t)version);
            FILE *file = fopen(path, "r+b");
            fseek(file, (long)(data + at[k] * bytes), SEEK_SET);
            put_number(file, bytes == 4 ? 0xfffffff0 : 50257, bytes);
            fclose(file);
            char says[100];
            snprintf(says, sizeof says, "byte %d: id %s is not in the vocabulary of 50257",
                     (int)(data + at[k] * bytes), bytes == 4 ? "4294967280" : "50257");
            ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){.vocabulary = 50257});
            must(tokens);
            ck_batch_refused(tokens, 0, 1, T, CT_ERR_FORMAT, path, says);
            ct_tokens_close(tokens);
            tokens = open_ids(context, 1, (ct_tokens_opts){.vocabulary = 50258});
            ct_tensor *x = NULL, *y = NULL;
            if (bytes == 2) must(ct_tokens_batch(tokens, 1, 0, 1, T, &x, &y));
            else ck_batch_refused(tokens, 0, 1, T, CT_ERR_FORMAT, path, "vocabulary of 50258");
            ct_tokens_close(tokens);
            tokens = open_ids(context, 1, (ct_tokens_opts){0}); /* any id */
            must(ct_tokens_batch(tokens, 1, 0, 1, T, &x, &y));
            ct_tokens_close(tokens);
        }
}
END_TEST

/* ---- files that change ---- */

static const char *changed;

static void cut(void) { ck_assert_int_eq(truncate(changed, 2 * IDS - 2), 0); }
static void cut_to_nothing(void) { ck_assert_int_eq(truncate(changed, 0), 0); }
static void grow(void) { ck_assert_int_eq(truncate(changed, 2 * IDS + 2), 0); }
static void vanish(void) { ck_assert_int_eq(unlink(changed), 0); }
static void move_away(void) { ck_assert_int_eq(rename(changed, in_folder("other")), 0); }
static void replace(void) {
    char bytes[2 * IDS];
    write_all(in_folder("new"), bytes, read_all(changed, bytes, sizeof bytes));
    ck_assert_int_eq(rename(in_folder("new"), changed), 0);
}
static void become_folder(void) {
    vanish();
    ck_assert_int_eq(mkdir(changed, 0700), 0);
}
static void become_fifo(void) { /* opening it would block, or end in errors of its own */
    vanish();
    ck_assert_int_eq(mkfifo(changed, 0600), 0);
}
static void become_link_to_nothing(void) {
    vanish();
    ck_assert_int_eq(symlink("nowhere", changed), 0);
}
static void write_into(void) { /* the same size */
    FILE *file = fopen(changed, "r+b");
    ck_assert(putc(1, file) == 1 && fclose(file) == 0);
}
static void touch(void) { /* a second later than it was */
    const struct timeval later[2] = {{.tv_sec = 1000000001}, {.tv_sec = 1000000001}};
    ck_assert_int_eq(utimes(changed, later), 0);
}

static const struct {
    void (*change)(void);
    ct_status status;
    const char *says;
} changes[] = {
    {cut, CT_ERR_FORMAT, "had 142 bytes when it was opened and has 140 now"},
    {cut_to_nothing, CT_ERR_FORMAT, "ends at byte"},
    {grow, CT_ERR_FORMAT, "had 142 bytes when it was opened and has 144 now"},
    {vanish, CT_ERR_IO, "cannot find it any more"},
    {move_away, CT_ERR_IO, "cannot find it any more"},
    {replace, CT_ERR_IO, "has been replaced"},
    {become_folder, CT_ERR_IO, "has been replaced"},
    {become_fifo, CT_ERR_IO, "has been replaced"},
    {become_link_to_nothing, CT_ERR_IO, "cannot find it any more"},
    {write_into, CT_ERR_IO, "has been written to"},
    {touch, CT_ERR_IO, "has been written to"},
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* Whether the file is open; one of 65 has been closed again. */
START_TEST(files_that_change) {
    const int k = _i % CHANGES, files = _i < CHANGES ? 1 : 65;
    for (int f = files; f-- > 0;) changed = put_ids(f, f ? 0 : IDS, 2, 0);
    /* a write just now may leave the time of modification as it is */
    const struct timeval past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimes(changed, past), 0);
    ct_tokens *tokens = open_ids(context, files, (ct_tokens_opts){.vocabulary = 4096});
    must(tokens);
    ct_tensor *x = NULL, *y = NULL;
    if (files == 1) must(ct_tokens_batch(tokens, 1, 0, 3, T, &x, &y));
    changes[k].change();
    char offset[40];
    /* before it is opened again, all that is wrong is found by its path */
    const bool opened = files == 1;
    const char *says = changes[k].change == cut_to_nothing && !opened
                           ? "had 142 bytes when it was opened and has 0 now"
                           : changes[k].says;
    snprintf(offset, sizeof offset, "byte ");
    for (int64_t index = 0; index < 20; index++) { /* every window says so, until ... */
        ct_tensor *const before = ct_zeros(context, CT_F32, CT_SCALAR);
        x = y = before;
        const bool done = ct_tokens_batch(tokens, 1, index, 1, T, &x, &y);
        ck_assert(x == before && y == before);
        ck_assert_msg(!done && strstr(ct_error_message(context), offset), "%s",
                      ct_error_message(context));
        if (changes[k].change == cut && strstr(ct_error_message(context), "while being read"))
            ct_error_clear(context); /* the last window */
        else ck_refused(done, changes[k].status, changed, says);
    }
    if (changes[k].change == move_away) { /* ... it is back */
        ck_assert_int_eq(rename(in_folder("other"), changed), 0);
        must(ct_tokens_batch(tokens, 1, 0, 3, T, &x, &y));
    }
    ct_tokens_close(tokens);
    ck_assert(remove(changed) == 0 || errno == ENOENT);
}
END_TEST

/* ---- arguments ---- */

START_TEST(refused_at_open) {
    const char *path = put_ids(0, IDS, 2, 0), *two[] = {path, NULL};
    const int64_t live = ct_memory(context).live;
    const ct_tokens_opts none = {0};
    ck_refused(ct_tokens_open(context, NULL, 1, none), CT_ERR_ARGUMENT, "tokens_open", "is NULL");
    ck_refused(ct_tokens_open(context, two, 0, none), CT_ERR_ARGUMENT, "tokens_open", "0 files");
    ck_refused(ct_tokens_open(context, two, -1, none), CT_ERR_ARGUMENT, "tokens_open", "-1 files");
    ck_refused(ct_tokens_open(context, two, 2, none), CT_ERR_ARGUMENT, "path 1 of 2", "is NULL");
    static const int bytes[] = {-2, 1, 3, 16};
    for (int k = 0; k < 4; k++)
        ck_refused(ct_tokens_open(context, two, 1, (ct_tokens_opts){.bytes = bytes[k]}),
                   CT_ERR_ARGUMENT, "tokens_open", "and not of 2, 4 or 8");
    ck_refused(ct_tokens_open(context, two, 1, (ct_tokens_opts){.vocabulary = -1}), CT_ERR_ARGUMENT,
               "tokens_open", "a vocabulary of -1");
    two[1] = in_folder("missing");
    ck_refused(ct_tokens_open(context, two, 2, none), CT_ERR_IO, two[1], "No such file");
    two[1] = "";
    ck_refused(ct_tokens_open(context, two, 2, none), CT_ERR_IO, "", "No such file");
    ck_refused(ct_tokens_open(context, (const char *[]){folder}, 1, none), CT_ERR_IO, folder,
               "is a folder");
    ck_refused(ct_tokens_open(context, (const char *[]){"/dev/null"}, 1, none), CT_ERR_IO,
               "/dev/null", "is not an ordinary file");
    two[1] = in_folder("fifo");
    ck_assert_int_eq(mkfifo(two[1], 0600), 0);
    ck_refused(ct_tokens_open(context, two, 2, none), CT_ERR_IO, two[1], "not an ordinary file");
    ck_assert(!ct_tokens_open(NULL, two, 1, none));
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

START_TEST(refused_batches) {
    const char *path = put_ids(0, T, 2, 0);
    put_ids(1, IDS, 2, 0);
    ct_tokens *tokens = open_ids(context, 2, (ct_tokens_opts){0});
    must(tokens);
    static const struct {
        int64_t index, B, T;
        ct_status status;
        const char *says;
    } cases[] = {
        {0, 0, T, CT_ERR_ARGUMENT, "a batch (0, 7), and not at least (1, 1)"},
        {0, 3, 0, CT_ERR_ARGUMENT, "a batch (3, 0)"},
        {0, -1, T, CT_ERR_ARGUMENT, "a batch (-1, 7)"},
        {0, 1, INT64_MIN, CT_ERR_ARGUMENT, "and not at least (1, 1)"},
        {-1, 3, T, CT_ERR_ARGUMENT, "the index is -1"},
        {INT64_MAX, 2, T, CT_ERR_ARGUMENT, "batch 9223372036854775807 of 2 windows is too far"},
        {INT64_MAX / 3, 3, T, CT_ERR_ARGUMENT, "a window's number overflows"},
        {1, INT64_MAX, T, CT_ERR_ARGUMENT, "a window's number overflows"},
        {0, INT64_MAX, T, CT_ERR_MEMORY, "overflows"},
        {0, INT64_C(1) << 59, 64, CT_ERR_MEMORY, "overflows"},
        {0, 3, INT64_MAX, CT_ERR_ARGUMENT, "has 71 ids, and a window of T = 9223372036854775807"},
        {0, 3, IDS, CT_ERR_ARGUMENT, "the longest of 2 files has 71 ids, and a window of T = 71"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        ck_batch_refused(tokens, cases[k].index, cases[k].B, cases[k].T, cases[k].status, "tokens_",
                         cases[k].says);
    ct_tensor *x = NULL, *y = NULL;
    must(ct_tokens_batch(tokens, 1, 0, 1, IDS - 1, &x, &y));
    x = NULL;
    ck_refused(ct_tokens_batch(tokens, 1, 0, 3, T, NULL, &y), CT_ERR_ARGUMENT, "batch",
               "x is NULL");
    ck_refused(ct_tokens_batch(tokens, 1, 0, 3, T, &x, NULL), CT_ERR_ARGUMENT, "batch",
               "y is NULL");
    ck_assert(!ct_tokens_batch(NULL, 1, 0, 3, T, &x, &y) && ct_error(context) == CT_OK && !x);
    ck_assert(ct_tokens_windows(NULL, 3) == 0 && ct_tokens_count(NULL) == 0);
    ck_refused(ct_tokens_windows(tokens, 0), CT_ERR_ARGUMENT, "tokens_windows", "T is 0");
    ck_assert_int_eq(ct_tokens_windows(tokens, INT64_MAX), 0);
    ck_assert_int_eq(ct_tokens_windows(tokens, T), 10);
    /* while an error is pending: no batch, but sizes and close */
    ck_assert(!ct_randn(context, CT_I64, CT_SCALAR));
    ck_assert(!ct_tokens_batch(tokens, 1, 0, 3, T, &x, &y) && !x);
    ck_assert_int_eq(ct_tokens_count(tokens), IDS + T);
    ck_assert(!ct_tokens_open(context, &path, 1, (ct_tokens_opts){0}));
    ct_tokens_close(tokens);
    ct_error_clear(context);
}
END_TEST

static int ended;
static void count_an_end(void *arg) {
    (void)arg;
    ended++;
}

/* The program may add a function whose argument is the files. Closing the files does not remove it.
 * And removing the program's functions of this argument does not remove the hook by which the
 * context closes the files. */
START_TEST(functions_for_the_end) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    const char *path = put_with_header(MAGIC, 1, 5, 10, 0);
    ct_tokens *tokens = ct_tokens_open(c, &path, 1, (ct_tokens_opts){0});
    ck_assert_ptr_nonnull(tokens);
    ended = 0;
    ck_assert(ct_context_on_free(c, count_an_end, tokens));
    ct_tokens_close(tokens);
    tokens = ct_tokens_open(c, &path, 1, (ct_tokens_opts){0});
    ck_assert(ct_context_on_free(c, NULL, tokens)); /* nothing of the program's */
    ct_context_free(c);
    ck_assert_int_eq(ended, 1);
}
END_TEST

START_TEST(after_close) {
    for (int debug = 0; debug < 2; debug++) {
        put_ids(0, IDS, 2, 0);
        ct_context *outer = context;
        context = ct_context_new((ct_context_opts){.threads = 1, .debug = debug});
        ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){0});
        must(tokens);
        ct_tokens_close(tokens);
        ct_tokens_close(tokens);
        const char *name = debug ? "0.bin has ended" : "files has ended";
        ck_batch_refused(tokens, 0, 3, T, CT_ERR_ARGUMENT, "ct_tokens_batch", name);
        ck_refused(ct_tokens_count(tokens), CT_ERR_ARGUMENT, "ct_tokens_count", name);
        ck_refused(ct_tokens_windows(tokens, T), CT_ERR_ARGUMENT, "ct_tokens_windows", name);
        ct_tokens *again = open_ids(context, 1, (ct_tokens_opts){0});
        ck_batch_refused(tokens, 0, 3, T, CT_ERR_ARGUMENT, "ct_tokens_batch", name);
        must(again);
        ct_context_free(context); /* with one open */
        context = outer;
    }
}
END_TEST

/* A relative path names the same file after the program has gone elsewhere. */
START_TEST(relative_paths) {
    put_ids(0, IDS, 2, 0);
    for (int f = 1; f < 65; f++) put_ids(f, 0, 2, 0);
    const int here = open(".", O_RDONLY);
    ck_assert_int_eq(chdir(folder), 0);
    static char names[65][16];
    const char *paths[65];
    for (int f = 0; f < 65; f++) {
        snprintf(names[f], sizeof names[f], f % 2 ? "./%d.bin" : "%d.bin", f);
        paths[f] = names[f];
    }
    ct_tokens *one = ct_tokens_open(context, paths, 1, (ct_tokens_opts){0}),
              *closed = ct_tokens_open(context, paths, 65, (ct_tokens_opts){0});
    ck_assert(fchdir(here) == 0 && close(here) == 0);
    must(one && closed);
    ct_tensor *x[2], *y;
    must(ct_tokens_batch(one, 1, 0, 3, T, &x[0], &y));
    must(ct_tokens_batch(closed, 1, 0, 3, T, &x[1], &y));
    ck_assert(!memcmp(ct_data_i64(x[0]), ct_data_i64(x[1]), 3 * T * 8));
    /* in a folder that has been removed */
    const int back = open(".", O_RDONLY);
    const char *gone = in_folder("gone");
    ck_assert(mkdir(gone, 0700) == 0 && chdir(gone) == 0 && rmdir(gone) == 0);
    ck_refused(ct_tokens_open(context, paths, 1, (ct_tokens_opts){0}), CT_ERR_IO, "0.bin",
               "No such file");
    ck_assert(fchdir(back) == 0 && close(back) == 0);
}
END_TEST

int main(void) {
    return run_cases("token files",
                     CASES({.name = "files",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(headers), TEST(little_endian), TEST(vocabulary),
                                           TEST(refused_batches), TEST(after_close),
                                           TEST(functions_for_the_end))},
                           {.name = "links, FIFOs and modes",
                            .tags = "posix",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(LOOP(files_that_change, 2 * CHANGES),
                                           TEST(refused_at_open), TEST(relative_paths))}));
}
