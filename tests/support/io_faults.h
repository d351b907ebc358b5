/* Helpers of the tests of failing system calls: wrappers that a fault strikes, and a module with an
 * optimiser to save and load. The Makefile links a test that includes this header with --wrap of
 * each of the calls below and of memory_faults.h. */
#ifndef IO_FAULTS_H
#define IO_FAULTS_H

#include "fault_sweep.h"
#include <cotangent/cotangent.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_faults.h"

/* ---- the calls ---- */

/* The behaviour of the calls that no fault strikes. INTERRUPTED: a signal interrupts each call that
 * it can interrupt, every second time. SHORT: reads and writes transfer one byte. */
static enum { WHOLE, INTERRUPTED, SHORT } transfers;

static char folder[64], path[128], link_path[128], stale_path[128];

/* Called once during a save: before the next write, before the next lock. */
static void (*before_write)(int fd), (*before_lock)(int fd, int command);
static int names_taken; /* the number of new files that are refused because their names are taken */
static bool no_reading; /* a file in the folder can be opened for writing only */
static int no_locks;    /* 1: no locks of open file descriptions; 2: no locks at all */

static int headers_read;        /* reads from byte 8 on, where a header of safetensors begins */
static void (*meanwhile)(void); /* the function that FAULT_MEANWHILE runs */

static inline bool fails(const char *call) {
    if (fault_strikes(FAULT_MEANWHILE, call)) {
        fault.kind = FAULT_NONE;
        meanwhile();
    }
    if (fault_strikes(FAULT_KILL, call)) _exit(9);
    if (!fault_strikes(FAULT_CALL, call)) return false;
    errno = fault.error ? fault.error : EIO;
    return true;
}

static inline bool interrupted(const char *call) {
    static bool every_other;
    if (transfers == INTERRUPTED) every_other = !every_other;
    if (!(transfers == INTERRUPTED && !every_other) && !fault_strikes(FAULT_SIGNAL, call))
        return false;
    errno = EINTR;
    return true;
}

int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...) {
    if (fails("open") || interrupted("open")) return -1;
    if (flags & O_EXCL && names_taken > 0) {
        names_taken--;
        errno = EEXIST;
        return -1;
    }
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
    headers_read += offset == 8;
    if (fails("pread") || interrupted("pread")) return -1;
    if (fault_strikes(FAULT_SHRINK, "pread") && truncate(path, offset)) return -1;
    return __real_pread(fd, out, transfers == SHORT && size > 1 ? 1 : size, offset);
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    void (*hook)(int) = before_write;
    before_write = NULL;
    if (hook) hook(fd);
    if (fails("write") || interrupted("write")) return -1;
    return __real_write(fd, data, transfers == SHORT && size > 1 ? 1 : size);
}

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (fails("pwrite") || interrupted("pwrite")) return -1;
    return __real_pwrite(fd, data, transfers == SHORT && size > 1 ? 1 : size, offset);
}

int __real_openat(int at, const char *name, int flags, ...);
int __wrap_openat(int at, const char *name, int flags, ...);
int __wrap_openat(int at, const char *name, int flags, ...) { /* never creates a file */
    if (fails("openat") || interrupted("openat")) return -1;
    if (no_reading && (flags & O_ACCMODE) == O_RDONLY) {
        errno = EACCES;
        return -1;
    }
    return __real_openat(at, name, flags);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) { /* the library calls fcntl only for locks */
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    void (*hook)(int, int) = before_lock;
    before_lock = NULL;
    if (hook) hook(fd, command);
    if (fails("fcntl")) return -1;
    if (no_locks && (no_locks == 2 || command != F_SETLK)) {
        errno = no_locks == 1 ? EINVAL : ENOLCK;
        return -1;
    }
    return __real_fcntl(fd, command, argument);
}

/* A close that fails has closed the file nevertheless. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    bool fail = fails("close"), stop = interrupted("close");
    int status = __real_close(fd);
    if (fail) errno = EIO;
    if (stop) errno = EINTR;
    return fail || stop ? -1 : status;
}

#define WRAP(call, arguments, names) /* a signal never interrupts these calls */                   \
    int __real_##call arguments;                                                                   \
    int __wrap_##call arguments;                                                                   \
    int __wrap_##call arguments { return fails(#call) ? -1 : __real_##call names; }
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { /* does not sync, which would take long */
    (void)fd;
    return fails("fsync") || interrupted("fsync") ? -1 : 0;
}
WRAP(rename, (const char *from, const char *to), (from, to))
WRAP(unlink, (const char *name), (name))
WRAP(unlinkat, (int at, const char *name, int flags), (at, name, flags))
WRAP(fstatat, (int at, const char *name, struct stat *about, int flags), (at, name, about, flags))
WRAP(fchmod, (int fd, mode_t mode), (fd, mode))
static bool no_owners; /* fchown is not permitted */
int __real_fchown(int fd, uid_t owner, gid_t group);
int __wrap_fchown(int fd, uid_t owner, gid_t group);
int __wrap_fchown(int fd, uid_t owner, gid_t group) {
    if (no_owners) errno = EPERM;
    return no_owners || fails("fchown") ? -1 : __real_fchown(fd, owner, group);
}
WRAP(mkdir, (const char *name, mode_t mode), (name, mode))
WRAP(fstat, (int fd, struct stat *about), (fd, about))
WRAP(lstat, (const char *name, struct stat *about), (name, about))
WRAP(stat, (const char *name, struct stat *about), (name, about))

char *__real_realpath(const char *name, char *out);
char *__wrap_realpath(const char *name, char *out);
char *__wrap_realpath(const char *name, char *out) {
    return fails("realpath") ? NULL : __real_realpath(name, out);
}

/* ---- the module and optimiser that are saved ---- */

static ct_context *context;
static ct_module *module;
static ct_optim *optim;
static ct_checkpoint checkpoint;

static inline int count_entries(const char *where) {
    int n = 0;
    DIR *dir = opendir(where);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}
static inline int open_files(void) { return count_entries("/proc/self/fd"); }

typedef struct {
    char bytes[1 << 15];
    size_t size;
} content;

static inline void read_file(content *out) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    fclose(file);
}

static inline bool equal(const content *a, const content *b) {
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

/* Stores the state of the module and the optimiser: the bytes of a checkpoint of them. */
static inline void snapshot(content *out) {
    char name[128];
    snprintf(name, sizeof name, "%s/snapshot", folder);
    ck_assert_msg(ct_checkpoint_save(name, &checkpoint), "%s", ct_error_message(context));
    FILE *file = fopen(name, "rb");
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    fclose(file);
    unlink(name);
}

static inline void train(int steps) {
    for (int i = 0; i < steps; i++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 3));
        ct_optim_zero_grad(optim);
        ck_assert(ct_backward(ct_mse_loss(ct_forward(module, x), x)) && ct_optim_step(optim));
        ct_scope_close(scope);
        checkpoint.step++;
    }
}

static inline void setup(void) {
    strcpy(folder, "/tmp/cotangent-faults-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    ck_assert_int_eq(symlink("file", link_path), 0);
    snprintf(stale_path, sizeof stale_path, "%s/.cotangent-0123456789abcdef.tmp", folder);
    context = new_with((ct_context_opts){.seed = 1, .threads = 1});
    module = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    optim = ct_adamw_new(module, (ct_adamw_opts){.lr = 0.01});
    static ct_named named[2];
    static ct_optim *second;
    named[0] = (ct_named){"best", ct_full(context, CT_F64, CT_SCALAR, 0.5)};
    named[1] = (ct_named){"view", ct_transpose(ct_ones(context, CT_F32, CT_SHAPE(2, 3)), 0, 1)};
    second = ct_sgd_new(module, (ct_sgd_opts){.momentum = 0.5});
    checkpoint = (ct_checkpoint){.module = module,
                                 .optim = optim,
                                 .optims = &second,
                                 .n_optims = 1,
                                 .tensors = named,
                                 .n_tensors = 2};
    train(2);
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

static inline void teardown(void) {
    fault_disarm();
    transfers = WHOLE;
    no_locks = 0;
    ct_context_free(context);
    unlink(path);
    unlink(link_path);
    unlink(stale_path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- the operations: save, load, metadata, checkpoint ---- */

static inline bool save(void) {
    return ct_save(module, path,
                   (ct_save_opts){.metadata = (const char *const[]){"key", "value", NULL}});
}
static inline bool save_link(void) { return ct_save(module, link_path, (ct_save_opts){0}); }
static inline bool load(void) { return ct_load(module, path, (ct_load_opts){0}); }
static inline bool load_metadata(void) {
    char out[16];
    return ct_load_metadata(context, path, "key", out, sizeof out);
}
static inline bool save_all(void) { return ct_checkpoint_save(path, &checkpoint); }
static inline bool load_all(void) { return ct_checkpoint_load(path, &checkpoint); }

typedef struct {
    const char *name;
    bool (*prepare)(void), (*run)(void);
    bool writes;
} operation;
static const operation operations[] = {
    {"save", save, save, true},
    {"save through a link", save, save_link, true},
    {"save, nothing there", NULL, save, true},
    {"load", save, load, false},
    {"load_metadata", save, load_metadata, false},
    {"checkpoint_save", save_all, save_all, true},
    {"checkpoint_load", save_all, load_all, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static content old_file, old_state;

static inline void touch(const char *name) {
    FILE *file = fopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    fputs("something", file);
    fclose(file);
}

static inline struct stat about(const char *name) {
    struct stat about;
    ck_assert_msg(lstat(name, &about) == 0, "%s: %s", name, strerror(errno));
    return about;
}

static inline mode_t mode_of(const char *name) { return about(name).st_mode & 07777; }

/* Prepares an operation: trains one step, and makes the old file with an unusual mode and, if we
 * are root, another owner and group. */
static inline void begin(const operation *o) {
    unlink(path);
    if (o->prepare) {
        ck_assert_msg(o->prepare(), "%s", ct_error_message(context));
        read_file(&old_file);
        ck_assert(chown(path, 2, 3) == 0 || geteuid() != 0);
        ck_assert_int_eq(chmod(path, 0661), 0);
    }
    train(1);
    snapshot(&old_state);
}
#endif
