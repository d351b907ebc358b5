/* Tests of the functions of src/os/os.h, whose implementation differs between systems. They cover
 * file names beyond ASCII, files of more than 2 GiB, files that contain arbitrary bytes, and files
 * that are replaced while they are open. */
#include "tests/support/files.h"

#include <errno.h>

#include "src/os/os.h"

static int64_t size_of(const char *path) {
    cti_os_about about;
    ck_assert_msg(cti_os_about_path(path, &about), "%s", path);
    ck_assert_int_eq(about.kind, CTI_OS_FILE);
    return about.size;
}

static bool is_listed(const char *name) {
    cti_os_folder *list = cti_os_folder_open(folder);
    ck_assert_ptr_nonnull(list);
    bool found = false;
    for (const char *at = cti_os_folder_next(list); at; at = cti_os_folder_next(list))
        found |= strcmp(at, name) == 0;
    cti_os_folder_close(list);
    return found;
}

static void make(const char *path, const char *text) {
    const int fd = cti_os_create(path, 0666);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(cti_os_write(fd, text, strlen(text)), (int64_t)strlen(text));
    cti_os_close(fd);
}

static void ck_reads(int fd, const char *text) {
    char found[64] = "";
    ck_assert_int_eq(cti_os_read_at(fd, 0, found, sizeof found - 1), (int64_t)strlen(text));
    ck_assert_str_eq(found, text);
}

/* ---- names ---- */

#define SIZE                                                                                       \
    "gr\xC3\xB6\xC3\x9F"                                                                           \
    "e.safetensors"

START_TEST(names_beyond_ascii) {
    static const char *const names[] = {SIZE, "\xE6\xA8\xA1\xE5\x9E\x8B.safetensors",
                                        "\xF0\x9F\x8D\xB0.safetensors", "a b.safetensors"};
    ct_module *from = two_numbers(), *to = two_numbers();
    ct_data_f32(ct_module_get(from, "w"))[0] = 11;
    for (int i = 0; i < 4; i++) {
        const char *path = in_folder(names[i]);
        for (int again = 0; again < 2; again++)
            ck_assert_msg(ct_save(from, path, (ct_save_opts){0}), "%s", ct_error_message(context));
        ct_data_f32(ct_module_get(to, "w"))[0] = 0;
        ck_assert_msg(ct_load(to, path, (ct_load_opts){0}), "%s", ct_error_message(context));
        ck_assert(same(from, to) && is_listed(names[i]));
        ck_assert_int_eq(files_in_folder(), 1);
        ck_assert(cti_os_remove(path) && !is_listed(names[i]));
    }
    ck_refused(ct_load(to, in_folder(SIZE), (ct_load_opts){0}), CT_ERR_IO, SIZE, "No such file");
    /* The name of a sharded model's folder is not ASCII either. */
    char set[128];
    snprintf(set, sizeof set,
             "%s/m\xC3\xA4"
             "dchen",
             folder);
    ck_assert_msg(ct_save(from, set, (ct_save_opts){.shard_bytes = 4}), "%s",
                  ct_error_message(context));
    ck_assert(ct_load(to, set, (ct_load_opts){0}));
    char path[512];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", set,
                 i ? "model.safetensors.index.json" : "model-00001-of-00001.safetensors");
        ck_assert_msg(cti_os_remove(path), "%s", path);
    }
    ck_assert_int_eq(rmdir(set), 0);
}
END_TEST

/* The path has more than 260 characters, the limit of MAX_PATH in older Windows programs. */
START_TEST(long_paths) {
    char path[1024];
    size_t length = (size_t)snprintf(path, sizeof path, "%s", folder), ends[8];
    for (int i = 0; i < 8; i++) {
        ends[i] = length;
        length += (size_t)snprintf(path + length, sizeof path - length, "/%060d", i);
        ck_assert_msg(cti_os_make_folder(path), "%s: %s", path, strerror(errno));
    }
    snprintf(path + length, sizeof path - length, "/file");
    ct_module *module = two_numbers();
    ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
    ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
    ck_assert_msg(ct_load(module, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    ck_assert(cti_os_remove(path));
    path[length] = 0;
    for (int i = 8; i-- > 0; path[ends[i]] = 0) {
        ck_assert_msg(rmdir(path) == 0, "%s: %s", path, strerror(errno));
    }
}
END_TEST

/* A save to a symbolic link writes to the path that cti_os_real_path returns for the link. On
 * Windows that path begins with the prefix \\?\, so saves and loads must accept the prefix. */
START_TEST(real_paths) {
    char path[CTI_OS_PATH + 64];
    ck_assert(cti_os_real_path(folder, path));
    ct_module *module = two_numbers();
    ck_assert_msg(ct_save(module, path, (ct_save_opts){.shard_bytes = 4}), "%s",
                  ct_error_message(context));
    ck_assert_msg(ct_load(module, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    strcat(path, "/file");
    ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
    ck_assert_msg(ct_load(module, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    ck_assert(is_listed("file"));
}
END_TEST

START_TEST(parts_of_paths) {
    ck_assert_uint_eq(cti_os_folder_length("a/b/file"), 4);
    ck_assert_uint_eq(cti_os_folder_length("file"), 0);
    ck_assert_uint_eq(cti_os_folder_length("/file"), 1);
    ck_assert(cti_os_is_absolute("/a") && !cti_os_is_absolute("a/b") && !cti_os_is_absolute(""));
    char here[CTI_OS_PATH], small[1]; /* even "/" needs 2 bytes with its NUL */
    ck_assert(cti_os_current_folder(here, sizeof here) && cti_os_is_absolute(here));
    ck_assert(!cti_os_current_folder(small, sizeof small) && errno == ERANGE);
    char real[CTI_OS_PATH];
    make(in_folder("file"), "x");
    ck_assert(cti_os_real_path(in_folder("file"), real) && cti_os_is_absolute(real));
    ck_assert_int_eq(size_of(real), 1);
    ck_assert(!cti_os_real_path(in_folder("none"), real) && errno == ENOENT);
    char words[64];
    cti_os_error(words, sizeof words);
    ck_assert_str_eq(words, "No such file or directory");
    cti_os_error(words, 8);
    ck_assert_str_eq(words, "No such");
}
END_TEST

/* On Windows C: means the current folder of drive C, and C:/ means the root of the drive. */
START_TEST(current_folder_of_a_drive) {
    char here[CTI_OS_PATH], path[] = "C:.cotangent-test";
    ck_assert(cti_os_current_folder(here, sizeof here));
    if (here[1] != ':') return;
    path[0] = here[0];
    ck_assert_uint_eq(cti_os_folder_length(path), 2);
    ck_assert(cti_os_is_absolute(path));
    make(path, "x");
    path[2] = '\0';
    cti_os_folder *list = cti_os_folder_open(path);
    path[2] = '.';
    ck_assert_ptr_nonnull(list);
    bool found = false;
    for (const char *at = cti_os_folder_next(list); at; at = cti_os_folder_next(list))
        found |= strcmp(at, path + 2) == 0;
    cti_os_folder_close(list);
    ck_assert(cti_os_remove(path) && found);
}
END_TEST

/* ---- contents ---- */

START_TEST(any_bytes) {
    char bytes[1024], found[1024];
    for (int i = 0; i < 1024; i++) bytes[i] = (char)(i % 3 ? i : "\r\n\x1A\n"[i / 3 % 4]);
    const int fd = cti_os_create(in_folder("bytes"), 0600);
    ck_assert_int_eq(cti_os_write(fd, bytes, 1000), 1000);
    /* write_at overwrites existing bytes and does not move the file position, so the next write
     * still appends. */
    ck_assert_int_eq(cti_os_write_at(fd, 10, "0123456789", 10), 10);
    ck_assert_int_eq(cti_os_write(fd, bytes + 1000, 24), 24);
    ck_assert(cti_os_sync(fd));
    cti_os_close(fd);
    memcpy(bytes + 10, "0123456789", 10);
    ck_assert_int_eq(size_of(in_folder("bytes")), 1024);
    const int read = cti_os_open(in_folder("bytes"));
    ck_assert_int_eq(cti_os_read_at(read, 0, found, 1024), 1024);
    ck_assert_mem_eq(bytes, found, 1024);
    ck_assert_int_eq(cti_os_read_at(read, 1000, found, 1024), 24);
    ck_assert_int_eq(cti_os_read_at(read, 1024, found, 1), 0);
    cti_os_close(read);
    ck_assert(cti_os_create(in_folder("bytes"), 0600) == -1 && errno == EEXIST);
}
END_TEST

START_TEST(over_2_gib) {
    const char *path = in_folder("large");
    const int64_t places[] = {INT64_C(0x7FFFFFFE), INT64_C(0xFFFFFFFE), INT64_C(0x123456789)};
    const int fd = cti_os_create(path, 0600);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(cti_os_write_at(fd, places[i], "abcd", 4), 4);
    cti_os_close(fd);
    ck_assert_int_eq(size_of(path), places[2] + 4);
    const int read = cti_os_open(path);
    for (int i = 0; i < 3; i++) {
        char found[6] = "";
        ck_assert_int_eq(cti_os_read_at(read, places[i] - 1, found, 5), 5);
        ck_assert(found[0] == 0 && strcmp(found + 1, "abcd") == 0);
    }
    cti_os_close(read);
}
END_TEST

/* ---- replacing ---- */

START_TEST(replaced_while_open) {
    make(in_folder("old"), "the old one");
    make(in_folder("new"), "another");
    const int old = cti_os_open(in_folder("old"));
    ck_reads(old, "the old one");
    cti_os_about before, after;
    ck_assert(cti_os_about_file(old, &before));
    ck_assert_msg(cti_os_rename(in_folder("new"), in_folder("old")), "%s", strerror(errno));
    ck_reads(old, "the old one");
    const int now = cti_os_open(in_folder("old"));
    ck_reads(now, "another");
    ck_assert(cti_os_about_file(now, &after));
    ck_assert(before.device != after.device || before.number != after.number);
    ck_assert(cti_os_still_named(now, in_folder("old")) &&
              !cti_os_still_named(old, in_folder("old")));
    cti_os_close(now);
    cti_os_close(old);
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

/* A save replaces a file that a reader has open; the reader continues to read the old file. */
START_TEST(saved_while_read) {
    ct_module *module = two_numbers();
    const char *path = in_folder(SIZE);
    ck_assert(ct_save(module, path, (ct_save_opts){0}));
    ct_safetensors *reader = ct_safetensors_open(context, path);
    ck_assert_ptr_nonnull(reader);
    ct_data_f32(ct_module_get(module, "w"))[0] = 11;
    ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
    ct_tensor *old = ct_safetensors_read(reader, "w");
    ck_assert_msg(old && ct_data_f32(old)[0] == 5, "%s", ct_error_message(context));
    ct_safetensors_close(reader);
    ct_data_f32(ct_module_get(module, "w"))[0] = 0;
    ck_assert(ct_load(module, path, (ct_load_opts){0}));
    ck_assert(ct_data_f32(ct_module_get(module, "w"))[0] == 11);
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

/* Four saves replace a file while readers hold it open: each reader still reads the file that it
 * opened. A file that a killed program has left in the same folder remains untouched. */
START_TEST(saved_while_several_read) {
    enum { READERS = 4 };
    ct_module *module = two_numbers();
    const char *path = in_folder("file");
    ct_safetensors *reader[READERS];
    make(in_folder("file.replaced"), "left by a killed program");
    for (int i = 0; i <= READERS; i++) {
        ct_data_f32(ct_module_get(module, "w"))[0] = (float)i;
        ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "save %d: %s", i,
                      ct_error_message(context));
        if (i < READERS) ck_assert_ptr_nonnull(reader[i] = ct_safetensors_open(context, path));
    }
    for (int i = 0; i < READERS; i++) {
        ct_tensor *old = ct_safetensors_read(reader[i], "w");
        ck_assert_msg(old && ct_data_f32(old)[0] == (float)i, "%s", ct_error_message(context));
        ct_safetensors_close(reader[i]);
    }
    ck_assert_int_eq(size_of(in_folder("file.replaced")), 24);
    ck_assert_int_eq(files_in_folder(), 2);
}
END_TEST

START_TEST(locked_files_stay) {
    static const char dead[] = ".cotangent-0000000000000001.tmp",
                      alive[] = ".cotangent-0000000000000002.tmp";
    make(in_folder(dead), "half");
    const int fd = cti_os_create(in_folder(alive), 0600);
    cti_lock lock;
    ck_assert(cti_os_lock(fd, &lock));
    if (lock == CTI_LOCK_DESCRIPTION) {
        ck_assert(ct_save(two_numbers(), in_folder("file"), (ct_save_opts){0}));
        ck_assert(!is_listed(dead) && is_listed(alive));
    }
    cti_os_close(fd);
    ck_assert(ct_save(two_numbers(), in_folder("file"), (ct_save_opts){0}));
    ck_assert(!is_listed(alive) && is_listed("file"));
}
END_TEST

START_TEST(refusals) {
    cti_os_about about;
    ck_assert(cti_os_open(in_folder("none")) == -1 && errno == ENOENT);
    ck_assert(!cti_os_about_path(in_folder("none"), &about) && errno == ENOENT);
    ck_assert(!cti_os_about_link(in_folder("none"), &about) && errno == ENOENT);
    ck_assert(!cti_os_remove(in_folder("none")) && errno == ENOENT);
    ck_assert(!cti_os_rename(in_folder("none"), in_folder("other")) && errno == ENOENT);
    ck_assert(!cti_os_make_folder(folder) && errno == EEXIST);
    make(in_folder("file"), "x");
    ck_assert(cti_os_open_folder(in_folder("file")) == -1 && errno == ENOTDIR);
    ck_assert(cti_os_about_path(folder, &about) && about.kind == CTI_OS_FOLDER);
    ck_assert(!cti_os_rename(in_folder("file"), folder));
    ck_assert_ptr_null(cti_os_folder_open(in_folder("none")));
    ck_refused(ct_load(two_numbers(), folder, (ct_load_opts){0}), CT_ERR_IO, folder, "folder");
    ck_refused(ct_save(two_numbers(), folder, (ct_save_opts){0}), CT_ERR_IO, folder, "is a folder");
    ck_refused(ct_save(two_numbers(), in_folder("none/file"), (ct_save_opts){0}), CT_ERR_IO,
               "none/file", "No such file");
    const int fd = cti_os_open_folder(folder);
    ck_assert(fd >= 0 && (cti_os_sync(fd) || errno == EINVAL));
    cti_os_close(fd);
}
END_TEST

/* ---- the rest ---- */

START_TEST(text_in_memory) {
    for (int n = 0; n < 100000; n = n * 10 + 1) {
        cti_os_text out;
        ck_assert(cti_os_text_open(&out));
        for (int i = 0; i < n; i++) fputs("line\n", out.file);
        ck_assert(cti_os_text_close(&out));
        ck_assert_uint_eq(out.size, 5 * (size_t)n);
        ck_assert_uint_eq(strlen(out.text), out.size);
        if (n) ck_assert_str_eq(out.text + out.size - 5, "line\n");
        free(out.text);
    }
}
END_TEST

START_TEST(the_machine) {
    ck_assert_int_ge(cti_os_cores(), 1);
    ck_assert_int_ge(cti_os_l2_bytes(), 0);
    ck_assert_int_ge(cti_os_l1d_ways(), 0);
    const int64_t start = cti_os_now();
    int64_t now = start;
    while (now < start + 2000000) {
        const int64_t next = cti_os_now();
        ck_assert_int_ge(next, now);
        now = next;
    }
    ck_assert(cti_os_entropy() != cti_os_entropy() || cti_os_entropy() != cti_os_entropy());
    char *block = cti_os_alloc(5 << 20);
    ck_assert_ptr_nonnull(block);
    memset(block, 1, 5 << 20);
    cti_os_free(block);
}
END_TEST

enum { THREADS = 8, ROUNDS = 2000 };
static struct {
    cti_mutex mutex;
    cti_cond turned;
    cti_once once;
    int turn, count, ran;
} shared;

static void run_once(void) { shared.ran++; }

/* Threads take turns: thread i waits until thread i - 1 has finished its turn. */
static void take_turns(void *arg) {
    const int self = (int)(intptr_t)arg;
    cti_once_run(&shared.once, run_once);
    for (int i = 0; i < ROUNDS; i++) {
        cti_mutex_lock(&shared.mutex);
        while (shared.turn != self) cti_cond_wait(&shared.turned, &shared.mutex);
        shared.turn = (self + 1) % THREADS;
        shared.count++;
        cti_cond_broadcast(&shared.turned);
        cti_mutex_unlock(&shared.mutex);
    }
}

START_TEST(threads) {
    cti_thread thread[THREADS];
    memset(&shared, 0, sizeof shared);
    ck_assert(cti_mutex_init(&shared.mutex) && cti_cond_init(&shared.turned));
    for (int i = 0; i < THREADS; i++)
        ck_assert(cti_thread_start(&thread[i], take_turns, (void *)(intptr_t)i));
    for (int i = 0; i < THREADS; i++) cti_thread_join(&thread[i]);
    ck_assert_int_eq(shared.count, THREADS * ROUNDS);
    ck_assert_int_eq(shared.ran, 1);
    cti_cond_free(&shared.turned);
    cti_mutex_free(&shared.mutex);
}
END_TEST

int main(void) {
    return run_cases(
        "os", CASES({.name = "files",
                     .before = setup,
                     .after = teardown,
                     .tests = TESTS(TEST(names_beyond_ascii), TEST(long_paths), TEST(real_paths),
                                    TEST(parts_of_paths), TEST(current_folder_of_a_drive),
                                    TEST(any_bytes), TEST(over_2_gib), TEST(replaced_while_open),
                                    TEST(saved_while_read), TEST(saved_while_several_read),
                                    TEST(refusals))},
                    {.name = "locks",
                     .tags = "locks",
                     .before = setup,
                     .after = teardown,
                     .tests = TESTS(TEST(locked_files_stay))},
                    {.name = "machine, text and threads",
                     .tests = TESTS(TEST(text_in_memory), TEST(the_machine))},
                    {.name = "parallel", .tags = "threads", .tests = TESTS(TEST(threads))}));
}
