#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#endif
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A name is the stem, TAG hex digits that all names of one process share, DIGITS - TAG random ones,
 * and an end. */
static const char stem[] = ".cotangent-", locked_end[] = ".tmp", unlocked_end[] = ".part";
enum { STEM = sizeof stem - 1, TAG = 8, DIGITS = 16 };
_Static_assert(STEM + DIGITS + sizeof unlocked_end <= CTI_TEMPORARY_NAME &&
                   STEM + DIGITS + sizeof locked_end <= CTI_TEMPORARY_NAME,
               "every name fits");

enum {
    ATTEMPTS = 100,  /* at a name that is free */
    ENTRIES = 10000, /* of a folder that one save reads, */
    REMOVALS = 1000  /* and that it removes */
};

/* ---- names ---- */

static uint64_t mix(uint64_t x) { /* of splitmix64 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static void write_hex(char *out, uint64_t x, int digits) {
    for (int i = 0; i < digits; i++) out[i] = "0123456789abcdef"[x >> 4 * i & 15];
}

/* A hash of the process. If two processes have the same tag, each leaves the other's dead files to
 * a third. */
static void write_tag(char out[TAG]) {
    static const char here;
    write_hex(out, mix((uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&here), TAG);
}

/* Need not be unpredictable: O_EXCL refuses a name that exists. */
static uint64_t random_digits(const void *here, int attempt) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t x =
        (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)(uintptr_t)here << 3;
    return mix(x + (uint64_t)attempt * 0x9E3779B97F4A7C15u);
}

static bool is_temporary(const char *name) {
    if (strlen(name) != STEM + DIGITS + sizeof locked_end - 1 || memcmp(name, stem, STEM))
        return false;
    return strspn(name + STEM, "0123456789abcdef") == DIGITS &&
           !strcmp(name + STEM + DIGITS, locked_end);
}

/* ---- locks ---- */

/* Locks the whole file, or fails at once. */
static bool set_lock(int fd, short type, cti_lock kind) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
#ifdef F_OFD_SETLK
    if (kind == CTI_LOCK_DESCRIPTION) return fcntl(fd, F_OFD_SETLK, &whole) == 0;
#endif
    if (kind == CTI_LOCK_PROCESS) return fcntl(fd, F_SETLK, &whole) == 0;
    errno = EINVAL;
    return false;
}

static bool is_held(int error) { return error == EAGAIN || error == EACCES; }

/* Locks a new file by the best kind of lock that the file system has; *lock is that kind. False:
 * another process holds a lock. */
static bool lock_new(int fd, cti_lock *lock) {
    static const cti_lock kinds[] = {CTI_LOCK_DESCRIPTION, CTI_LOCK_PROCESS};
    for (int i = 0; i < 2; i++) {
        *lock = kinds[i];
        if (set_lock(fd, F_WRLCK, *lock)) return true;
        if (is_held(errno)) return false;
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

/* ---- creating ---- */

static int open_new(const char *path, mode_t mode) {
    int fd;
    do fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Between open and lock another save may take the file for a dead writer's and lock or remove it;
 * then this tries again with another name. */
int cti_temporary_open(char *path, size_t folder, mode_t mode, cti_lock *lock) {
    char *name = path + folder;
    bool locks = true;
    memcpy(name, stem, STEM);
    write_tag(name + STEM);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        write_hex(name + STEM + TAG, random_digits(&mode, attempt), DIGITS - TAG);
        strcpy(name + STEM + DIGITS, locks ? locked_end : unlocked_end);
        int fd = open_new(path, mode);
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) continue;
        *lock = CTI_LOCK_NONE;
        if (!locks) return fd;
        const bool held = lock_new(fd, lock);
        if (held && *lock != CTI_LOCK_NONE && still_named(fd, AT_FDCWD, path)) return fd;
        if (held && *lock == CTI_LOCK_NONE) locks = false;
        unlink(path);
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* ---- removing those of dead writers ---- */

/* A read lock is enough: it too is refused while a writer holds its lock. */
static bool remove_if_dead(int folder, const char *name, cti_lock lock) {
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat about;
    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode))
        return false;
    short type = F_RDLCK;
    int fd = openat(folder, name, O_RDONLY | flags);
    if (fd < 0 && errno == EACCES) {
        type = F_WRLCK;
        fd = openat(folder, name, O_WRONLY | flags);
    }
    if (fd < 0) return false;
    bool removed =
        set_lock(fd, type, lock) && still_named(fd, folder, name) && unlinkat(folder, name, 0) == 0;
    close(fd);
    return removed;
}

void cti_temporary_remove_dead(char *path, size_t folder, cti_lock lock) {
    char *name = path + folder, own[CTI_TEMPORARY_NAME];
    if (lock == CTI_LOCK_NONE) return;
    strcpy(own, name);
    *name = 0;
    DIR *list = opendir(folder ? path : ".");
    strcpy(name, own);
    if (!list) return;
    /* Closing a descriptor of a file ends this process's CTI_LOCK_PROCESS on it, perhaps that of a
     * save in another thread. So with that kind all files with this process's tag are skipped. */
    const size_t skip = lock == CTI_LOCK_PROCESS ? STEM + TAG : sizeof own;
    int removed = 0;
    for (int i = 0; i < ENTRIES && removed < REMOVALS; i++) {
        const struct dirent *entry = readdir(list);
        if (!entry) break;
        if (is_temporary(entry->d_name) && strncmp(entry->d_name, own, skip))
            removed += remove_if_dead(dirfd(list), entry->d_name, lock);
    }
    closedir(list);
}
