/* Writing files: tensors are read back to the same bits, a target is replaced whole or not
 * at all, and temporary files that a killed save has left are removed. */
#include <pthread.h>
#include <sys/stat.h>

#include "tests/support/files.h"
#include "tests/support/suite.h"

/* ---- round trips ---- */

static ct_module *zoo(void) {
    ct_module *zoo = ct_module_new(context, "Zoo"), *child = ct_module_new(context, "Cage");
    ct_module_add_param(zoo, "odd", ct_randn(context, CT_F32, CT_SHAPE(3, 1, 7)));
    ct_module_add_param(zoo, "scalar", ct_randn(context, CT_F32, CT_SCALAR));
    ct_module_add_param(zoo, "none", ct_randn(context, CT_F32, CT_SHAPE(0, 5)));
    ct_module_add_param(zoo, "wide", ct_randn(context, CT_F64, CT_SHAPE(5)));
    ct_module_add_param(zoo, "\"q\\\t\xc3\xa9", ct_randn(context, CT_F32, CT_SHAPE(2)));
    ct_module_add_param(zoo, "large", ct_randn(context, CT_F32, CT_SHAPE(300, 301)));
    ct_module_add_child(zoo, "child", child);
    ct_module_add_param(child, "own", ct_randn(context, CT_F64, CT_SHAPE(1, 1, 1, 1, 1, 1, 1, 2)));
    ct_module_add_param(child, "tied", ct_module_get(zoo, "odd"));
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
    return zoo;
}

START_TEST(round_trip) {
    ct_module *from = zoo(), *to = zoo();
    float *odd = ct_data_f32(ct_module_get(from, "odd"));
    /* NaNs, -inf, -0, denormals */
    uint32_t bits[] = {0x7fc12345, 0x7f800001, 0xff800000, 0x80000000, 0x00000001, 0x807fffff};
    memcpy(odd, bits, sizeof bits);
    ck_assert(!same(from, to));
    const char *path = in_folder("zoo.safetensors");
    const char *const pairs[] = {"name", "\"zo\xc3\xb6\"\n\x7f", "", "", NULL};
    ck_assert_msg(ct_save(from, path, (ct_save_opts){.metadata = pairs}), "%s",
                  ct_error_message(context));
    ck_assert_int_eq(files_in_folder(), 1);
    ck_assert_msg(ct_load(to, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    ck_assert(same(from, to));
    char value[32];
    ck_assert(ct_load_metadata(context, path, "name", value, sizeof value));
    ck_assert_str_eq(value, pairs[1]);
    ck_assert(ct_load_metadata(context, path, "", value, sizeof value) && !*value);

    /* a header padded to 8 bytes, metadata first, then the largest elements: all are aligned */
    unsigned char head[40];
    FILE *file = fopen(path, "rb");
    ck_assert_uint_eq(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    ck_assert_int_eq(head[0] % 8, 0);
    ck_assert_int_eq(memcmp(head + 8, "{\"__metadata__\":{\"name\":", 24), 0);

    /* a module without parameters is a file too */
    ct_module *nothing = ct_module_new(context, "Nothing");
    ck_assert(ct_save(nothing, path, (ct_save_opts){0}) &&
              ct_load(nothing, path, (ct_load_opts){0}));
}
END_TEST

/* ---- saving ---- */

START_TEST(save_refuses) {
    ct_module *module = two_numbers(), *bad = ct_module_new(context, "M");
    const char *path = in_folder("file");
    const char *const odd[] = {"a", "1", "b", NULL}, *const twice[] = {"a", "1", "b", "2",
                                                                       "a", "3", NULL},
                      *const latin[] = {"a", "\xe9", NULL};
    ck_refused(ct_save(module, path, (ct_save_opts){.metadata = odd}), CT_ERR_ARGUMENT, path,
               "without a value");
    ck_refused(ct_save(module, path, (ct_save_opts){.metadata = twice}), CT_ERR_ARGUMENT, path,
               "\"a\" is there twice");
    ck_refused(ct_save(module, path, (ct_save_opts){.metadata = latin}), CT_ERR_ARGUMENT, path,
               "not UTF-8 at byte 0");
    ct_module_add_param(bad, "\xe9", ct_zeros(context, CT_F32, CT_SHAPE(1)));
    ck_refused(ct_save(bad, path, (ct_save_opts){0}), CT_ERR_ARGUMENT, path, "not UTF-8");
    bad = ct_module_new(context, "M");
    ct_module_add_param(bad, "__metadata__", ct_zeros(context, CT_F32, CT_SHAPE(1)));
    ck_refused(ct_save(bad, path, (ct_save_opts){0}), CT_ERR_ARGUMENT, path, "__metadata__");
    ck_assert_int_eq(files_in_folder(), 0);
}
END_TEST

START_TEST(while_an_error_is_pending) {
    ct_module *module = two_numbers();
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){.momentum = 0.5});
    const char *path = in_folder("file");
    ct_checkpoint checkpoint = {.module = module, .optim = optim, .step = 3};
    ct_add(ct_module_get(module, "w"), ct_zeros(context, CT_F32, CT_SHAPE(3)));
    char first[256];
    snprintf(first, sizeof first, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_error(context), CT_ERR_SHAPE);
    ck_assert(
        ct_save(module, path, (ct_save_opts){.metadata = (const char *const[]){"a", "b", NULL}}));
    char value[2] = "";
    ck_assert(ct_load_metadata(context, path, "a", value, sizeof value) && *value == 'b');
    ck_assert(ct_checkpoint_save(in_folder("checkpoint"), &checkpoint));
    ck_assert(!ct_save(module, in_folder("none/file"), (ct_save_opts){0}));
    ck_assert(!ct_load(module, path, (ct_load_opts){0}));
    ck_assert(!ct_checkpoint_load(in_folder("checkpoint"), &checkpoint));
    ck_assert_str_eq(ct_error_message(context), first);
    ct_error_clear(context);
    ck_assert(ct_load(module, path, (ct_load_opts){0}));
    ck_assert(ct_checkpoint_load(in_folder("checkpoint"), &checkpoint));
}
END_TEST

START_TEST(target) {
    ct_module *module = two_numbers();
    const char *path = in_folder("file"), *link = in_folder("link");
    struct stat about;
    mode_t mask = umask(027);
    ck_assert(ct_save(module, path, (ct_save_opts){0}));
    umask(mask);
    ck_assert(stat(path, &about) == 0 && (about.st_mode & 0777) == 0640);

    /* a link stays a link, and its target is replaced */
    ck_assert_int_eq(symlink("file", link), 0);
    ct_data_f32(ct_module_get(module, "w"))[0] = 11;
    ck_assert_msg(ct_save(module, link, (ct_save_opts){0}), "%s", ct_error_message(context));
    ck_assert(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
    ct_data_f32(ct_module_get(module, "w"))[0] = 0;
    ck_assert(ct_load(module, path, (ct_load_opts){0}));
    ck_assert(ct_data_f32(ct_module_get(module, "w"))[0] == 11);
    ck_assert_int_eq(files_in_folder(), 2);

    /* a name without a folder is in the working folder; the longest name that the system allows
     * works */
    char here[512], name[256];
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    ck_assert_int_eq(chdir(folder), 0);
    memset(name, 'n', 255);
    name[255] = 0;
    ck_assert_msg(ct_save(module, name, (ct_save_opts){0}) &&
                      ct_load(module, name, (ct_load_opts){0}),
                  "%s", ct_error_message(context));
    ck_assert_int_eq(chdir(here), 0);
    ck_assert_int_eq(files_in_folder(), 3);
}
END_TEST

static void make(const char *name) {
    FILE *file = fopen(in_folder(name), "wb");
    ck_assert_ptr_nonnull(file);
    fputs("half a file", file);
    fclose(file);
}

/* A save removes temporary files of killed saves, and no file with a similar name. */
START_TEST(leftovers) {
    ct_module *module = two_numbers();
    char name[64];
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, ".cotangent-%08x%08x.tmp", i * 7919u, i * 104729u);
        make(name);
    }
    static const char *const others[] = {".cotangent-0123456789abcde.tmp",
                                         ".cotangent-0123456789abcdef0.tmp",
                                         ".cotangent-0123456789abcdeF.tmp",
                                         ".cotangent-0123456789abcdef.tmp~",
                                         ".cotangent-0123456789abcdef",
                                         "cotangent-0123456789abcdef.tmp",
                                         ".cotangent-0123456789abcdef.part",
                                         ".cotangent--123456789abcdef.tmp",
                                         ".cotangent.tmp"};
    enum { OTHERS = sizeof others / sizeof *others };
    for (int i = 0; i < OTHERS; i++) make(others[i]);
    ck_assert_int_eq(mkdir(in_folder(".cotangent-00000000000000aa.tmp"), 0700), 0);
    ck_assert_int_eq(symlink(others[0], in_folder(".cotangent-00000000000000bb.tmp")), 0);
    ck_assert_int_eq(symlink("/dev/null", in_folder(".cotangent-00000000000000cc.tmp")), 0);
    ck_assert_int_eq(mkfifo(in_folder(".cotangent-00000000000000dd.tmp"), 0600), 0);
    ck_assert_int_eq(mkdir(in_folder("elsewhere"), 0700), 0);
    make("elsewhere/.cotangent-0123456789abcdef.tmp");
    ck_assert_msg(ct_save(module, in_folder("file"), (ct_save_opts){0}), "%s",
                  ct_error_message(context));
    ck_assert_int_eq(files_in_folder(), OTHERS + 4 + 1 + 1);
    for (int i = 0; i < OTHERS; i++)
        ck_assert_msg(access(in_folder(others[i]), F_OK) == 0, "%s", others[i]);
    ck_assert_int_eq(access(in_folder("elsewhere/.cotangent-0123456789abcdef.tmp"), F_OK), 0);

    /* in the folder that a link points to, and in the working folder */
    ck_assert_int_eq(symlink("elsewhere/file", in_folder("link")), 0);
    make("elsewhere/file");
    ck_assert(ct_save(module, in_folder("link"), (ct_save_opts){0}));
    ck_assert_int_eq(access(in_folder("elsewhere/.cotangent-0123456789abcdef.tmp"), F_OK), -1);
    char here[512];
    make(".cotangent-0123456789abcdef.tmp");
    ck_assert(getcwd(here, sizeof here) && chdir(folder) == 0);
    ck_assert(ct_save(module, "file", (ct_save_opts){0}));
    ck_assert(chdir(here) == 0 && access(in_folder(".cotangent-0123456789abcdef.tmp"), F_OK) == -1);

    ck_assert(remove(in_folder("elsewhere/file")) == 0 && remove(in_folder("link")) == 0);
}
END_TEST

/* Threads save into one folder and load from it. No save removes another thread's temporary file,
 * and each load finds its file, even if the system cannot replace a file in one step. */
static void *save_often(void *path) {
    ct_context *mine = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *module = ct_mlp_new(mine, (ct_mlp_opts){.dim = 2, .hidden = 3});
    intptr_t done = 0;
    for (int i = 0; i < 60; i++)
        done +=
            ct_save(module, path, (ct_save_opts){0}) && ct_load(module, path, (ct_load_opts){0});
    ct_context_free(mine);
    return (void *)done;
}

START_TEST(threads_save) {
    enum { THREADS = 10, ONE_FILE = 8 };
    pthread_t thread[THREADS];
    static char path[THREADS][128];
    for (int i = 0; i < THREADS; i++) {
        snprintf(path[i], sizeof path[i], "%s/file%d", folder, i / ONE_FILE);
        ck_assert_int_eq(pthread_create(&thread[i], NULL, save_often, path[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *done;
        ck_assert(pthread_join(thread[i], &done) == 0);
        ck_assert_int_eq((intptr_t)done, 60);
    }
    ck_assert_int_eq(files_in_folder(), 2);
}
END_TEST

/* More leftover files than one save removes: each save removes some and ends. */
START_TEST(a_full_folder) {
    char name[64];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, ".cotangent-%016x.tmp", (unsigned)i);
        make(name);
    }
    int before = files_in_folder();
    for (int saves = 0; before > 1; saves++) {
        ck_assert(ct_save(two_numbers(), in_folder("file"), (ct_save_opts){0}));
        const int now = files_in_folder();
        ck_assert(now < before && saves < 5);
        before = now;
    }
}
END_TEST

int main(void) {
    return run_cases("save", CASES({.name = "files",
                                    .before = setup,
                                    .after = teardown,
                                    .tests = TESTS(TEST(round_trip), TEST(save_refuses),
                                                   TEST(while_an_error_is_pending))},
                                   {.name = "full",
                                    .tags = "full-folder",
                                    .before = setup,
                                    .after = teardown,
                                    .tests = TESTS(TEST(a_full_folder))},
                                   {.name = "threads",
                                    .tags = "threads",
                                    .before = setup,
                                    .after = teardown,
                                    .tests = TESTS(TEST(threads_save))},
                                   {.name = "links, FIFOs and modes",
                                    .tags = "posix",
                                    .before = setup,
                                    .after = teardown,
                                    .tests = TESTS(TEST(target), TEST(leftovers))}));
}
