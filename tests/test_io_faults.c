/* The n-th call into the operating system fails, for every n: a save or load says so, leaves the
 * old file and the module as they were, no temporary file, no open file, no memory, and the context
 * goes on after ct_error_clear. Link with -Wl,--wrap for each of the calls below, and for
 * cti_take_any, which every cti_take is here, and cti_take_zeroed. */
#include "suite.h"
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

#include "../src/core/context.h"

/* ---- the calls ---- */

/* SHORT: one byte at a time; SHRINK: the file is cut before a read */
typedef enum { NONE, FAIL, INTERRUPT, SHORT, SHRINK } fault_mode;
static struct {
    fault_mode mode;
    int64_t calls, at;  /* which call fails; it did when calls >= at */
    bool memory;        /* cti_take fails, not the system */
    const char *failed; /* what did */
    int interrupts;
} fault;

static char folder[64], path[128], link_path[128], stale_path[128];

/* What happens while a save goes on, once: before data is written, before a lock is set. */
static void (*before_write)(int fd), (*before_lock)(int fd, int command);
static int no_locks; /* 1: none of a description; 2: none at all */

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
    void (*hook)(int) = before_write;
    before_write = NULL;
    if (hook) hook(fd);
    if (fails("write") || interrupted()) return -1;
    return __real_write(fd, data, fault.mode == SHORT && size > 1 ? 1 : size);
}

int __real_openat(int at, const char *name, int flags, ...);
int __wrap_openat(int at, const char *name, int flags, ...);
int __wrap_openat(int at, const char *name, int flags, ...) { /* never to create */
    return fails("openat") || interrupted() ? -1 : __real_openat(at, name, flags);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) { /* to lock only */
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

#define WRAP(call, arguments, names) /* the others are never interrupted */                        \
    int __real_##call arguments;                                                                   \
    int __wrap_##call arguments;                                                                   \
    int __wrap_##call arguments { return fails(#call) ? -1 : __real_##call names; }
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { /* what takes long is left out */
    (void)fd;
    return fails("fsync") || interrupted() ? -1 : 0;
}
WRAP(rename, (const char *from, const char *to), (from, to))
WRAP(unlink, (const char *name), (name))
WRAP(unlinkat, (int at, const char *name, int flags), (at, name, flags))
WRAP(fstatat, (int at, const char *name, struct stat *about, int flags), (at, name, about, flags))
WRAP(fchmod, (int fd, mode_t mode), (fd, mode))
static bool no_owners; /* none can be given */
int __real_fchown(int fd, uid_t owner, gid_t group);
int __wrap_fchown(int fd, uid_t owner, gid_t group);
int __wrap_fchown(int fd, uid_t owner, gid_t group) {
    if (no_owners) errno = EPERM;
    return no_owners || fails("fchown") ? -1 : __real_fchown(fd, owner, group);
}
WRAP(fstat, (int fd, struct stat *about), (fd, about))
WRAP(lstat, (const char *name, struct stat *about), (name, about))
WRAP(stat, (const char *name, struct stat *about), (name, about))

char *__real_realpath(const char *name, char *out);
char *__wrap_realpath(const char *name, char *out);
char *__wrap_realpath(const char *name, char *out) {
    return fails("realpath") ? NULL : __real_realpath(name, out);
}

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
void *__wrap_cti_take_any(ct_context *c, size_t size) {
    return refused(c) ? NULL : __real_cti_take_any(c, size);
}
void *__wrap_cti_take_zeroed(ct_context *c, size_t size) {
    return refused(c) ? NULL : __real_cti_take_zeroed(c, size);
}

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

static bool equal(const content *a, const content *b) {
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

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
    snprintf(stale_path, sizeof stale_path, "%s/.cotangent-0123456789abcdef.tmp", folder);
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    context->pool.plain = false; /* nothing is taken without a call */
    module = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    optim = ct_adamw_new(module, (ct_adamw_opts){.lr = 0.01});
    checkpoint = (ct_checkpoint){module, optim, 0};
    train(2);
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

static void teardown(void) {
    fault.mode = NONE;
    no_locks = 0;
    ct_context_free(context);
    unlink(path);
    unlink(link_path);
    unlink(stale_path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- the operations: save, load, metadata, checkpoint ---- */

static bool save(void) {
    return ct_save(module, path, (const char *const[]){"key", "value", NULL});
}
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
    {"save", save, save, true},
    {"save through a link", save, save_link, true},
    {"save, nothing there", NULL, save, true},
    {"load", save, load, false},
    {"load_metadata", save, load_metadata, false},
    {"checkpoint_save", save_all, save_all, true},
    {"checkpoint_load", save_all, load_all, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static content old_file, old_state, now;

static void touch(const char *name) {
    FILE *file = fopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    fputs("something", file);
    fclose(file);
}

static struct stat about(const char *name) {
    struct stat about;
    ck_assert_msg(lstat(name, &about) == 0, "%s: %s", name, strerror(errno));
    return about;
}

static mode_t mode_of(const char *name) { return about(name).st_mode & 07777; }

/* From this state, with that file there: of a mode that no umask gives, and of another owner and
 * group where we may do that. */
static void begin(int i) {
    fault.mode = NONE;
    unlink(path);
    if (operations[i].prepare) {
        ck_assert_msg(operations[i].prepare(), "%s", ct_error_message(context));
        read_file(&old_file);
        ck_assert(chown(path, 2, 3) == 0 || geteuid() != 0);
        ck_assert_int_eq(chmod(path, 0661), 0);
    }
    train(1);
    snapshot(&old_state);
}

static void sweep(int i, bool memory) {
    int64_t failures = 0;
    for (int64_t at = 1;; at++) {
        begin(i);
        unlink(stale_path);
        int64_t live = ct_memory(context).live;
        int files = count_entries(folder), fds = count_entries("/proc/self/fd");
        if (operations[i].writes) touch(stale_path);
        fault.calls = 0, fault.at = at, fault.memory = memory, fault.failed = NULL,
        fault.mode = FAIL;
        bool done = operations[i].run();
        fault.mode = NONE;
        const char *failed = fault.failed, *message = ct_error_message(context);
#define CK(condition)                                                                              \
    ck_assert_msg(condition, "%s, fault %lld (%s): %s: %s", operations[i].name, (long long)at,     \
                  failed ? failed : "none", #condition, message)
        const bool swept = unlink(stale_path) != 0;
        CK(done == (ct_error(context) == CT_OK));
        CK(ct_memory(context).live == live);
        CK(count_entries("/proc/self/fd") == fds);
        if (!failed) {
            CK(done);
            CK(swept);
            if (operations[i].writes && operations[i].prepare) {
                CK(mode_of(path) == 0661);
                CK(geteuid() != 0 || (about(path).st_uid == 2 && about(path).st_gid == 3));
            }
            break;
        }
        failures++;
        /* a save does without */
        static const char *const helpful[] = {"openat", "fstatat", "unlinkat", "fcntl", "fchown"};
        /* of a file that was read */
        bool harmless = !strcmp(failed, "close") && (done || !operations[i].writes);
        for (int h = 0; h < 5; h++) harmless |= !strcmp(failed, helpful[h]);
        /* another temporary file was made */
        if (!strcmp(failed, "fstat") && operations[i].writes) harmless |= done;
        if (operations[i].writes && operations[i].prepare) CK((mode_of(path) & ~0661u) == 0);
        /* the folder's fsync: the new file is there */
        bool after = strstr(message, "written, but") != NULL;
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

/* ---- temporary files ---- */

static int temporary_files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += !strncmp(entry->d_name, ".cotangent-", 11);
    closedir(dir);
    return n;
}

/* Saves into the same folder, under another name, from another context. */
static bool save_beside(void) {
    char name[160];
    snprintf(name, sizeof name, "%s.beside", path);
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *linear = ct_mlp_new(other, (ct_mlp_opts){.dim = 2, .hidden = 3});
    const bool done = ct_save(linear, name, NULL) && ct_load(linear, name, (ct_load_opts){0});
    ct_context_free(other);
    return unlink(name) == 0 && done;
}

static int save_in_child(void (*hook)(int fd)) {
    const pid_t child = fork();
    if (child == 0) {
        before_write = hook;
        _exit(save() ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void die(int fd) {
    __real_write(fd, "half", 4);
    kill(getpid(), SIGKILL);
}

/* Saves that were killed leave their files; the next one in the folder removes them, whoever writes
 * what. */
START_TEST(killed_saves) {
    for (int n = 0; n < 20; n++) {
        ck_assert(WIFSIGNALED(save_in_child(die)));
        ck_assert_int_eq(temporary_files(), 1);
    }
    ck_assert(save_beside());
    ck_assert_int_eq(temporary_files(), 0);
    /* with a file there that is replaced, and may not even be read */
    ck_assert(WIFSIGNALED(save_in_child(die)));
    ck_assert(save() && chmod(path, 0200) == 0 && WIFSIGNALED(save_in_child(die)) && save());
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* Another thread of this process, and another process, save while this save goes on. */
static void save_meanwhile(int fd) {
    ck_assert_int_eq(temporary_files(), 1);
    ck_assert(save_beside());
    ck_assert_int_eq(temporary_files(), 1);
    const pid_t child = fork();
    if (child == 0) {
        __real_close(fd);
        _exit(save_beside() ? 0 : 1);
    }
    int status = 1;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    ck_assert_int_eq(temporary_files(), 1);
}

/* With locks of the description, of the process, and none. */
START_TEST(live_saves_stay) {
    for (int replaces = 0; replaces < 2; replaces++) {
        if (!replaces) unlink(path);
        no_locks = _i;
        before_write = save_meanwhile;
        ck_assert_msg(save(), "%s", ct_error_message(context));
        ck_assert(!before_write && load());
        ck_assert_int_eq(temporary_files(), 0);
    }
    /* without locks nobody knows that it is dead */
    ck_assert(WIFSIGNALED(save_in_child(die)) && save());
    ck_assert_int_eq(temporary_files(), _i == 2);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, ".cotangent-", 11)) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}
END_TEST

/* ---- races: what another save does between two calls of this one ---- */

static void remove_temporary(int fd, int command) {
    (void)fd, (void)command;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, ".cotangent-", 11))
            ck_assert_int_eq(__real_unlinkat(dirfd(dir), entry->d_name, 0), 0);
    closedir(dir);
}

static int held = -1;

/* Locks it as who found it would, and still has it when the writer asks. */
static void hold_temporary(int fd, int command) {
    (void)fd;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, ".cotangent-", 11))
            held = __real_openat(dirfd(dir), entry->d_name, O_RDONLY);
    closedir(dir);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    ck_assert(held >= 0 && __real_fcntl(held, command, &lock) == 0);
}

/* Between making the file and locking it: the writer makes another. */
START_TEST(lost_before_it_was_locked) {
    before_lock = remove_temporary;
    ck_assert_msg(save(), "%s", ct_error_message(context));
    before_lock = hold_temporary;
    ck_assert_msg(save(), "%s", ct_error_message(context));
    ck_assert_int_eq(__real_close(held), 0);
    ck_assert(!before_lock && load());
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* The writer gave the file its name, and another has made one of the name that was listed. */
static void rename_stale(int fd, int command) {
    (void)fd, (void)command;
    char name[160];
    snprintf(name, sizeof name, "%s.renamed", path);
    ck_assert_int_eq(__real_rename(stale_path, name), 0);
    touch(stale_path);
}
static void then_rename_stale(int fd, int command) { /* the first lock is the writer's own */
    (void)fd, (void)command;
    before_lock = rename_stale;
}

START_TEST(renamed_before_it_was_locked) {
    touch(stale_path);
    before_lock = then_rename_stale;
    ck_assert(save() && !before_lock);
    char name[160];
    snprintf(name, sizeof name, "%s.renamed", path);
    ck_assert(S_ISREG(about(name).st_mode) && S_ISREG(about(stale_path).st_mode));
    ck_assert_int_eq(unlink(name), 0);
    ck_assert(save()); /* which removes what is still there */
    ck_assert_int_eq(temporary_files(), 0);
}
END_TEST

/* ---- who may read it ---- */

static mode_t seen;
static void see_mode(int fd) {
    struct stat made;
    ck_assert_int_eq(__real_fstat(fd, &made), 0);
    seen = made.st_mode & 07777;
}

/* A target keeps its mode, and the file beside it is never open to more than that; a new file gets
 * what the umask leaves. */
START_TEST(modes_are_kept) {
    static const mode_t modes[] = {0600, 0644, 0640, 0664, 0666,  0400,  0444,
                                   0755, 0200, 0604, 0066, 04755, 02775, 01644};
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++) {
        ck_assert(save() && chmod(path, modes[i]) == 0);
        const mode_t mask = umask(i % 2 ? 0 : 077);
        before_write = see_mode;
        ck_assert_msg(save(), "%s", ct_error_message(context));
        umask(mask);
        ck_assert_uint_eq(mode_of(path), modes[i] & 0777);
        ck_assert_uint_eq(seen & ~(modes[i] & 0600), 0);
        unlink(path);
    }
    for (int i = 0; i < 3; i++) {
        const mode_t masks[] = {022, 077, 0}, mask = umask(masks[i]);
        before_write = see_mode;
        ck_assert(save());
        umask(mask);
        ck_assert_uint_eq(mode_of(path), 0666 & ~masks[i]);
        ck_assert_uint_eq(seen, 0666 & ~masks[i]);
        unlink(path);
    }
}
END_TEST

static void narrow(int fd) {
    (void)fd;
    ck_assert_int_eq(chmod(path, 0600), 0);
}
static void take_away(int fd) {
    (void)fd;
    ck_assert_int_eq(unlink(path), 0);
}
static void put_there(int fd) {
    (void)fd;
    touch(path);
    ck_assert_int_eq(chmod(path, 0600), 0);
}

/* What is there when it is replaced counts; what is not there any more, as it was. */
START_TEST(mode_changes_during_the_save) {
    ck_assert(save() && chmod(path, 0666) == 0);
    before_write = narrow;
    ck_assert(save());
    ck_assert_uint_eq(mode_of(path), 0600);
    before_write = take_away;
    ck_assert(save());
    ck_assert_uint_eq(mode_of(path), 0600);
    unlink(path);
    before_write = put_there;
    ck_assert(save());
    ck_assert_uint_eq(mode_of(path), 0600);
}
END_TEST

/* Where the owner or group cannot be kept, nobody gains by it. Only who may give files away can see
 * this. */
START_TEST(owners) {
    if (geteuid() != 0) return;
    static const struct {
        mode_t mode, without[3]; /* the owner, the group, both */
    } cases[] = {{0644, {0644, 0644, 0644}}, {0640, {0640, 0600, 0600}}, {0664, {0664, 0644, 0644}},
                 {0660, {0660, 0600, 0600}}, {0604, {0604, 0600, 0600}}, {0466, {0444, 0466, 0444}},
                 {0064, {0000, 0044, 0000}}, {0777, {0777, 0777, 0777}}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        for (int lost = 0; lost < 4; lost++) {
            unlink(path);
            ck_assert(save() &&
                      chown(path, lost & 1 ? 7 : geteuid(), lost & 2 ? 8 : getegid()) == 0);
            ck_assert_int_eq(chmod(path, cases[i].mode), 0);
            ck_assert(save()); /* all can be kept */
            ck_assert_uint_eq(mode_of(path), cases[i].mode);
            ck_assert(about(path).st_uid == (lost & 1 ? 7 : geteuid()) &&
                      about(path).st_gid == (lost & 2 ? 8 : getegid()));
            no_owners = true;
            ck_assert(save());
            no_owners = false;
            ck_assert_uint_eq(mode_of(path), lost ? cases[i].without[lost - 1] : cases[i].mode);
            ck_assert(about(path).st_uid == geteuid() && about(path).st_gid == getegid());
        }
}
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
        ck_assert_msg(done, "%s, %s: %s", operations[_i].name,
                      mode == SHORT ? "short" : "interrupted", ct_error_message(context));
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
    tcase_add_test(faults, killed_saves);
    tcase_add_loop_test(faults, live_saves_stay, 0, 3);
    tcase_add_test(faults, lost_before_it_was_locked);
    tcase_add_test(faults, renamed_before_it_was_locked);
    tcase_add_test(faults, modes_are_kept);
    tcase_add_test(faults, mode_changes_during_the_save);
    tcase_add_test(faults, owners);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
