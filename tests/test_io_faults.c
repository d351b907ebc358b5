/* The n-th call into the operating system fails, for every n: a save or load says so, leaves the old file and the module as they
 * were, no temporary file, no open file, no memory, and the context goes on after ct_error_clear. Link with -Wl,--wrap for each of
 * the calls below, and for cti_take_any, which every cti_take is here, and cti_take_zeroed. */
#include "suite.h"
#include <cotangent/cotangent.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/core/context.h"

/* ---- the calls ---- */

typedef enum { NONE, FAIL, INTERRUPT, SHORT, SHRINK } fault_mode; /* SHORT: one byte at a time; SHRINK: the file is cut before a read */
static struct {
    fault_mode mode;
    int64_t calls, at;   /* which call fails; it did when calls >= at */
    bool memory;         /* cti_take fails, not the system */
    const char *failed;  /* what did */
    int interrupts;
} fault;

static char folder[64], path[128], link_path[128];

static bool fails(const char *call) {
    if (fault.mode != FAIL || fault.memory || ++fault.calls != fault.at) return false;
    fault.failed = call;
    errno = EIO;
    return true;
}

/* Every other call is interrupted first. */
static bool interrupted(void) {
    if (fault.mode != INTERRUPT || fault.interrupts++ % 2) return false;
    errno = EINTR;
    return true;
}

int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...) {
    if (fails("open") || interrupted()) return -1;
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return __real_open(name, flags, mode);
}

ssize_t __real_pread(int fd, void *out, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t size, off_t offset) {
    if (fails("pread") || interrupted()) return -1;
    if (fault.mode == SHRINK && ++fault.calls == fault.at && truncate(path, offset)) return -1;
    return __real_pread(fd, out, fault.mode == SHORT && size > 1 ? 1 : size, offset);
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    if (fails("write") || interrupted()) return -1;
    return __real_write(fd, data, fault.mode == SHORT && size > 1 ? 1 : size);
}

/* A close that fails has closed. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    bool fail = fails("close"), stop = interrupted();
    int status = __real_close(fd);
    if (fail) errno = EIO;
    if (stop) errno = EINTR;
    return fail || stop ? -1 : status;
}

#define WRAP(call, arguments, names) /* the others are never interrupted */                                                            \
    int __real_##call arguments;                                                                                                       \
    int __wrap_##call arguments;                                                                                                       \
    int __wrap_##call arguments { return fails(#call) ? -1 : __real_##call names; }
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { /* what takes long is left out */
    (void)fd;
    return fails("fsync") || interrupted() ? -1 : 0;
}
WRAP(rename, (const char *from, const char *to), (from, to))
WRAP(unlink, (const char *name), (name))
WRAP(fstat, (int fd, struct stat *about), (fd, about))
WRAP(lstat, (const char *name, struct stat *about), (name, about))
WRAP(stat, (const char *name, struct stat *about), (name, about))

char *__real_realpath(const char *name, char *out);
char *__wrap_realpath(const char *name, char *out);
char *__wrap_realpath(const char *name, char *out) { return fails("realpath") ? NULL : __real_realpath(name, out); }

void *__real_cti_take_any(ct_context *c, size_t size);
void *__wrap_cti_take_any(ct_context *c, size_t size);
void *__real_cti_take_zeroed(ct_context *c, size_t size);
void *__wrap_cti_take_zeroed(ct_context *c, size_t size);

static bool refused(ct_context *c) {
    if (fault.mode != FAIL || !fault.memory || ++fault.calls != fault.at) return false;
    fault.failed = "cti_take";
    ct_fail(c, CT_ERR_MEMORY, "injected: out of memory");
    return true;
}
void *__wrap_cti_take_any(ct_context *c, size_t size) { return refused(c) ? NULL : __real_cti_take_any(c, size); }
void *__wrap_cti_take_zeroed(ct_context *c, size_t size) { return refused(c) ? NULL : __real_cti_take_zeroed(c, size); }

/* ---- what is watched ---- */

static ct_context *context;
static ct_module *module;
static ct_optim *optim;
static ct_checkpoint checkpoint;

static int count_entries(const char *where) {
    int n = 0;
    DIR *dir = opendir(where);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

typedef struct {
    char bytes[1 << 15];
    size_t size;
} content;

static void read_file(content *out) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    fclose(file);
}

static bool equal(const content *a, const content *b) { return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size); }

/* The module's and the optimiser's state as a checkpoint of it has it. */
static void snapshot(content *out) {
    char name[128];
    snprintf(name, sizeof name, "%s/snapshot", folder);
    fault_mode was = fault.mode;
    fault.mode = NONE;
    ck_assert_msg(ct_checkpoint_save(name, &checkpoint), "%s", ct_error_message(context));
    fault.mode = was;
    FILE *file = fopen(name, "rb");
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    fclose(file);
    unlink(name);
}

static void train(int steps) {
    for (int i = 0; i < steps; i++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 3));
        ct_optim_zero_grad(optim);
        ck_assert(ct_backward(ct_mse_loss(ct_forward(module, x), x)) && ct_optim_step(optim));
        ct_scope_close(scope);
        checkpoint.step++;
    }
}

static void setup(void) {
    strcpy(folder, "/tmp/cotangent-faults-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    ck_assert_int_eq(symlink("file", link_path), 0);
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    context->pool.plain = false;   /* nothing is taken without a call */
    module = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    optim = ct_adamw_new(module, (ct_adamw_opts){.lr = 0.01});
    checkpoint = (ct_checkpoint){module, optim, 0};
    train(2);
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

static void teardown(void) {
    fault.mode = NONE;
    ct_context_free(context);
    unlink(path);
    unlink(link_path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- the operations: save, load, metadata, checkpoint ---- */

static bool save(void) { return ct_save(module, path, (const char *const[]){"key", "value", NULL}); }
static bool save_link(void) { return ct_save(module, link_path, NULL); }
static bool load(void) { return ct_load(module, path, (ct_load_opts){0}); }
static bool load_metadata(void) {
    char out[16];
    return ct_load_metadata(context, path, "key", out, sizeof out);
}
static bool save_all(void) { return ct_checkpoint_save(path, &checkpoint); }
static bool load_all(void) { return ct_checkpoint_load(path, &checkpoint); }

static const struct {
    const char *name;
    bool (*prepare)(void), (*run)(void);
    bool writes;
} operations[] = {
    {"save", save, save, true},          {"save through a link", save, save_link, true}, {"save, nothing there", NULL, save, true},
    {"load", save, load, false},         {"load_metadata", save, load_metadata, false},
    {"checkpoint_save", save_all, save_all, true}, {"checkpoint_load", save_all, load_all, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static content old_file, old_state, now;

/* From this state, with that file there. */
static void begin(int i) {
    fault.mode = NONE;
    unlink(path);
    if (operations[i].prepare) {
        ck_assert_msg(operations[i].prepare(), "%s", ct_error_message(context));
        read_file(&old_file);
    }
    train(1);
    snapshot(&old_state);
}

static void sweep(int i, bool memory) {
    int64_t failures = 0;
    for (int64_t at = 1;; at++) {
        begin(i);
        int64_t live = ct_memory(context).live;
        int files = count_entries(folder), fds = count_entries("/proc/self/fd");
        fault.calls = 0, fault.at = at, fault.memory = memory, fault.failed = NULL, fault.mode = FAIL;
        bool done = operations[i].run();
        fault.mode = NONE;
        const char *failed = fault.failed, *message = ct_error_message(context);
#define CK(condition)                                                                                                                      \
    ck_assert_msg(condition, "%s, fault %lld (%s): %s: %s", operations[i].name, (long long)at, failed ? failed : "none", #condition,       \
                  message)
        CK(done == (ct_error(context) == CT_OK));
        CK(ct_memory(context).live == live);
        CK(count_entries("/proc/self/fd") == fds);
        if (!failed) {
            CK(done);
            break;
        }
        failures++;
        bool harmless = !strcmp(failed, "close") && (done || !operations[i].writes); /* of a file that was read */
        bool after = strstr(message, "written, but") != NULL;                       /* the folder's fsync: the new file is there */
        CK(harmless ? done : !done);
        CK(done || ct_error(context) == (memory ? CT_ERR_MEMORY : CT_ERR_IO));
        CK(done || memory || strstr(message, folder) != NULL);
        CK(done || memory || strstr(message, "Input/output error") != NULL);
        if (!done && !after) {
            if (operations[i].prepare) {
                CK(count_entries(folder) == files);
                read_file(&now);
                CK(equal(&now, &old_file));
            } else {
                CK(count_entries(folder) == files);
            }
        }
        ct_error_clear(context);
        snapshot(&now);
        if (operations[i].writes || !done) CK(equal(&now, &old_state));
        ck_assert_msg(operations[i].run(), "%s", ct_error_message(context));
    }
    ck_assert_int_ge(failures, 5);
}

START_TEST(every_call_fails) { sweep(_i, false); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(_i, true); }
END_TEST

/* Interrupted calls are called again, and short reads and writes go on where they stopped. */
START_TEST(interrupted_and_short) {
    begin(_i);
    ck_assert(operations[_i].run());
    read_file(&old_file);
    snapshot(&old_state);
    for (fault_mode mode = INTERRUPT; mode <= SHORT; mode++) {
        fault.interrupts = 0;
        fault.mode = mode;
        bool done = operations[_i].run();
        fault.mode = NONE;
        ck_assert_msg(done, "%s, %s: %s", operations[_i].name, mode == SHORT ? "short" : "interrupted", ct_error_message(context));
        read_file(&now);
        ck_assert(equal(&now, &old_file));
        snapshot(&now);
        ck_assert(equal(&now, &old_state));
    }
}
END_TEST

START_TEST(file_shrinks_while_it_is_read) {
    int64_t at = 1;
    for (;; at++) {
        begin(6);
        fault.calls = 0, fault.at = at, fault.mode = SHRINK;
        bool done = load_all();
        fault.mode = NONE;
        if (fault.calls < at) {
            ck_assert(done);
            break;
        }
        ck_assert(!done && ct_error(context) == CT_ERR_FORMAT);
        ck_assert_ptr_nonnull(strstr(ct_error_message(context), "while being read"));
        ct_error_clear(context);
        snapshot(&now);
        ck_assert(equal(&now, &old_state));
    }
    ck_assert_int_gt(at, 10);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("io faults");
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_loop_test(faults, every_call_fails, 0, OPERATIONS);
    tcase_add_loop_test(faults, every_request_for_memory_fails, 0, OPERATIONS);
    tcase_add_loop_test(faults, interrupted_and_short, 0, OPERATIONS);
    tcase_add_test(faults, file_shrinks_while_it_is_read);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
