/* os.h on POSIX systems: Linux, macOS and others. The functions that WASI shares are in os_unix.c.
 */
#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS        64 /* files of 2038 and later can be opened */
#endif
#ifndef _GNU_SOURCE /* a project around this one may define it for all its files */
#define _GNU_SOURCE /* sched_getaffinity, madvise, F_OFD_SETLK */
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE /* sysctlbyname, F_FULLFSYNC */
#endif
#include "../kernels/libm.h"
#include "os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#elif defined __linux__
#include <sys/syscall.h>
#endif

/* ---- the machine and the process ---- */

int cti_os_cores(void) {
#ifdef __linux__
    cpu_set_t cores; /* has room for 1,024 cores; on a machine with more the call fails */
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
#endif
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (int)count;
}

#ifdef __APPLE__
static int64_t sysctl_number(const char *name) {
    int64_t value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value > 0 ? value : 0;
}

int64_t cti_os_l2_bytes(void) {
    /* the cache of the fast cores, if the system distinguishes fast and slow cores; several cores
     * share one cache */
    const int64_t bytes = sysctl_number("hw.perflevel0.l2cachesize"),
                  sharing = sysctl_number("hw.perflevel0.cpusperl2");
    if (bytes > 0) return sharing > 0 ? bytes / sharing : bytes;
    return sysctl_number("hw.l2cachesize");
}

int64_t cti_os_l1d_ways(void) { return 0; }
#else
int64_t cti_os_l2_bytes(void) {
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (bytes > 0) return bytes;
#endif
    return 0;
}

int64_t cti_os_l1d_ways(void) {
#ifdef _SC_LEVEL1_DCACHE_ASSOC
    const long ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
    if (ways > 0) return ways;
#endif
    return 0;
}
#endif

void cti_os_sleep(int64_t ns) {
    if (ns == 0) sched_yield();
    else nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

uint64_t cti_os_process(void) { return (uint64_t)getpid(); }

static unsigned fork_count;
static bool forks_counted;
static void count_fork(void) { fork_count++; }
static void count_forks(void) { forks_counted = !pthread_atfork(NULL, NULL, count_fork); }

bool cti_os_count_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    return pthread_once(&once, count_forks) == 0 && forks_counted;
}

unsigned cti_os_forks(void) { return fork_count; }

bool cti_os_saves_avx512_late(void) {
#ifdef __APPLE__
    return true;
#else
    return false;
#endif
}

/* The tiles' registers are 8 KB of state for each thread. Linux saves them only for a process that
 * has requested this; in any other process the first tile instruction raises SIGILL. */
bool cti_os_grants_amx(void) {
#if defined __x86_64__ && defined SYS_arch_prctl
    enum { GET_PERMITTED = 0x1022, REQUEST = 0x1023, TILE_DATA = 18 }; /* <asm/prctl.h> */
    unsigned long features = 0;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0 &&
           syscall(SYS_arch_prctl, GET_PERMITTED, &features) == 0 &&
           (features >> TILE_DATA & 1) != 0;
#else
    return false;
#endif
}

#if defined __GLIBC__ || defined __APPLE__
double cti_libm_tanh(double x) { return tanh(x); }
#else /* the tanh of zig's musl is off by 2.004 ulp at -0.2159 */
double cti_libm_tanh(double x) { return (double)tanhl(x); }
#endif

/* ---- memory ---- */

void *cti_os_alloc(size_t size) {
#if defined MADV_HUGEPAGE
    enum { HUGE_PAGE = 2 << 20 };
    void *pages;
    if (size >= HUGE_PAGE && !posix_memalign(&pages, HUGE_PAGE, size)) {
        madvise(pages, size, MADV_HUGEPAGE); /* a refusal costs speed only */
        return pages;
    }
#endif
    return malloc(size);
}

void cti_os_free(void *block) { free(block); }

bool cti_os_discard(void *memory, size_t size) {
#if defined __linux__ /* elsewhere the pages would stay until the system needs memory */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)memory,
                    first = (begin + page - 1) / page * page, end = (begin + size) / page * page;
    return first < end && madvise((void *)first, end - first, MADV_DONTNEED) == 0;
#else
    (void)memory, (void)size;
    return false;
#endif
}

/* ---- threads ---- */

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(cti_mutex), "a mutex fits");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(cti_mutex), "a mutex is aligned");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(cti_cond), "a condition variable fits");
_Static_assert(_Alignof(pthread_cond_t) <= _Alignof(cti_cond), "a condition variable is aligned");
_Static_assert(sizeof(pthread_t) <= sizeof(void *), "a thread's identifier fits");

static pthread_mutex_t *mutex_of(cti_mutex *mutex) { return (pthread_mutex_t *)mutex->opaque; }
static pthread_cond_t *cond_of(cti_cond *cond) { return (pthread_cond_t *)cond->opaque; }

bool cti_mutex_init(cti_mutex *mutex) { return pthread_mutex_init(mutex_of(mutex), NULL) == 0; }
void cti_mutex_lock(cti_mutex *mutex) { pthread_mutex_lock(mutex_of(mutex)); }
void cti_mutex_unlock(cti_mutex *mutex) { pthread_mutex_unlock(mutex_of(mutex)); }
void cti_mutex_free(cti_mutex *mutex) { pthread_mutex_destroy(mutex_of(mutex)); }

bool cti_cond_init(cti_cond *cond) { return pthread_cond_init(cond_of(cond), NULL) == 0; }
void cti_cond_wait(cti_cond *cond, cti_mutex *mutex) {
    pthread_cond_wait(cond_of(cond), mutex_of(mutex));
}
void cti_cond_signal(cti_cond *cond) { pthread_cond_signal(cond_of(cond)); }
void cti_cond_broadcast(cti_cond *cond) { pthread_cond_broadcast(cond_of(cond)); }
void cti_cond_free(cti_cond *cond) { pthread_cond_destroy(cond_of(cond)); }

static void *begin_pthread(void *arg) {
    const cti_thread *thread = arg;
    thread->work(thread->arg);
    return NULL;
}

/* The thread blocks signals, so that the handlers of the program run in the program's own threads.
 * It does not block the four signals that its own faults raise: if it did, a fault would end the
 * process before the handler of a sanitizer or a crash reporter has run. */
bool cti_thread_start(cti_thread *thread, void (*work)(void *arg), void *arg) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (int i = 0; i < 4; i++) sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    thread->work = work;
    thread->arg = arg;
    pthread_t id;
    const bool ok = pthread_create(&id, NULL, begin_pthread, thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) memcpy(&thread->opaque, &id, sizeof id);
    return ok;
}

void cti_thread_join(const cti_thread *thread) {
    pthread_t id;
    memcpy(&id, &thread->opaque, sizeof id);
    pthread_join(id, NULL);
}

/* The state is 0 before the first call, the number of the process in which a thread is running the
 * function, and -1 when the function has run:
 *
 *     0 --- first call ---> number of the process --- the function has run ---> -1
 *                             |            ^
 *                             `------------' a call in a child of a fork
 *
 * A child of a fork has none of its parent's other threads. If one of these was running the
 * function at the time of the fork, the child runs the function again. */
void cti_once_run(cti_once *once, void (*run)(void)) {
    const intptr_t self = getpid();
    for (intptr_t state = atomic_load(&once->state); state != -1;
         state = atomic_load(&once->state)) {
        if (state == self) {
            sched_yield();
        } else if (atomic_compare_exchange_strong(&once->state, &state, self)) {
            run();
            atomic_store(&once->state, -1);
        }
    }
}

/* ---- paths ---- */

bool cti_os_current_folder(char *out, size_t room) { return getcwd(out, room) != NULL; }

bool cti_os_real_path(const char *path, char *out) {
#ifdef PATH_MAX
    _Static_assert(PATH_MAX <= CTI_OS_PATH, "what realpath writes fits");
#endif
    return realpath(path, out) != NULL;
}

/* ---- files ---- */

bool cti_os_sync(int fd) {
#ifdef F_FULLFSYNC /* on macOS, fsync leaves data in the drive's own cache */
    if (fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
    int status;
    do status = fsync(fd);
    while (status != 0 && errno == EINTR);
    return status == 0;
}

/* The permission bits for the new file. If its owner or group differs from the old file's, a user
 * may belong to another class (owner, group, others) than before. So a class gets a bit only if
 * every class to which its users may have belonged had this bit. */
static mode_t kept_mode(const cti_os_about *old, const struct stat *made) {
    mode_t owner = old->mode >> 6 & 7, group = old->mode >> 3 & 7, others = old->mode & 7;
    if (made->st_gid != old->group) group = others = group & others;
    if (made->st_uid != old->owner) group &= owner, others &= owner;
    return owner << 6 | group << 3 | others;
}

const char *cti_os_keep_access(int fd, const char *path, const cti_os_about *old) {
    (void)path;
    static const char unread[] = "cannot read the mode of the file beside it";
    struct stat made;
    if (fstat(fd, &made) != 0) return unread;
    bool changed = made.st_gid != old->group && fchown(fd, (uid_t)-1, old->group) == 0;
    changed |= made.st_uid != old->owner && fchown(fd, old->owner, (gid_t)-1) == 0;
    if (changed && fstat(fd, &made) != 0) return unread;
    const mode_t mode = kept_mode(old, &made);
    if ((made.st_mode & 07777) == mode || fchmod(fd, mode) == 0) return NULL;
    return "cannot keep its mode";
}

/* ---- locks, and the unlocked files of a folder ---- */

/* Locks the whole file. If another lock is in the way it fails without waiting. */
static bool set_lock(int fd, short type, cti_lock kind) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
#ifdef F_OFD_SETLK
    if (kind == CTI_LOCK_DESCRIPTION) return fcntl(fd, F_OFD_SETLK, &whole) == 0;
#endif
    if (kind == CTI_LOCK_PROCESS) return fcntl(fd, F_SETLK, &whole) == 0;
    errno = EINVAL;
    return false;
}

static bool is_lock_refused(int error) { return error == EAGAIN || error == EACCES; }

bool cti_os_lock(int fd, cti_lock *lock) {
    static const cti_lock kinds[] = {CTI_LOCK_DESCRIPTION, CTI_LOCK_PROCESS};
    for (int i = 0; i < 2; i++) {
        *lock = kinds[i];
        if (set_lock(fd, F_WRLCK, *lock)) return true;
        if (is_lock_refused(errno)) return false;
    }
    *lock = CTI_LOCK_NONE;
    return true;
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether `name` in the folder is still the regular file that is open as fd. */
static bool still_named(int fd, int folder, const char *name) {
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(opened.st_mode) && same_file(&opened, &named);
}

bool cti_os_still_named(int fd, const char *path) { return still_named(fd, AT_FDCWD, path); }

/* A read lock is enough, because the system refuses it too while a writer holds its lock. */
bool cti_os_folder_remove_unlocked(cti_os_folder *folder, const char *name, cti_lock lock) {
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, at = dirfd((DIR *)folder);
    struct stat about;
    if (fstatat(at, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode))
        return false;
    short type = F_RDLCK;
    int fd = openat(at, name, O_RDONLY | flags);
    if (fd < 0 && errno == EACCES) {
        type = F_WRLCK;
        fd = openat(at, name, O_WRONLY | flags);
    }
    if (fd < 0) return false;
    const bool removed =
        set_lock(fd, type, lock) && still_named(fd, at, name) && unlinkat(at, name, 0) == 0;
    close(fd);
    return removed;
}
