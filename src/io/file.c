/* Reading at an offset, and atomic replacement: temporary file, fsync, rename, fsync of the folder. */
#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#endif
#define _XOPEN_SOURCE 700 /* realpath */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cotangent/autograd.h>

#include "../core/context.h"

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

enum { AT_ONCE = 1 << 30 }; /* bytes a call: some systems take no more than 2^31 */

static bool fail(ct_context *context, const char *op, const char *path, const char *what) {
    char words[128];
    if (strerror_r(errno, words, sizeof words) != 0) strcpy(words, "unknown error");
    return ct_fail(context, CT_ERR_IO, "%s: %s: %s: %s", op, path, what, words);
}

/* ---- reading ---- */

bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file) {
    *file = (cti_file){.context = context, .op = op, .path = path};
    do file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO without a writer must not hang us */
    while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0) return fail(context, op, path, "cannot open");
    struct stat about;
    if (fstat(file->fd, &about) != 0) {
        fail(context, op, path, "cannot read its size");
    } else if (!S_ISREG(about.st_mode)) {
        ct_fail(context, CT_ERR_IO, "%s: %s: %s", op, path, S_ISDIR(about.st_mode) ? "is a folder" : "is not an ordinary file");
    } else {
        file->size = about.st_size;
        return true;
    }
    cti_file_close(file);
    return false;
}

bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size) {
    for (size_t got = 0; got < size;) {
        size_t want = size - got < AT_ONCE ? size - got : AT_ONCE;
        ssize_t n = pread(file->fd, (char *)out + got, want, (off_t)(offset + (int64_t)got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(file->context, file->op, file->path, "cannot read");
        if (n == 0) {
            return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: the file ends at byte %lld, while being read", file->op, file->path,
                           (long long)(offset + (int64_t)got));
        }
        got += (size_t)n;
    }
    return true;
}

void cti_file_close(cti_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

/* ---- writing ---- */

/* Where the new content goes. What is there must be an ordinary file: to replace a device or a folder would be no save. */
static bool find_target(cti_file_new *file) {
    size_t length = strlen(file->path);
    file->room = (length < PATH_MAX ? PATH_MAX : length) + 64;
    file->target = cti_take(file->context, file->room);
    file->temporary = cti_take(file->context, file->room);
    if (!file->target || !file->temporary) return false;
    memcpy(file->target, file->path, length + 1);
    struct stat about;
    if (lstat(file->path, &about) != 0) {
        return errno == ENOENT || fail(file->context, file->op, file->path, "cannot write");
    }
    if (S_ISLNK(about.st_mode)) {
        if (!realpath(file->path, file->target)) return fail(file->context, file->op, file->path, "cannot follow the link");
        if (stat(file->target, &about) != 0) return fail(file->context, file->op, file->path, "cannot write");
    }
    if (S_ISREG(about.st_mode)) return true;
    return ct_fail(file->context, CT_ERR_IO, "%s: %s: %s", file->op, file->path,
                   S_ISDIR(about.st_mode) ? "is a folder" : "is not an ordinary file");
}

/* A number that another process cannot foresee well: O_EXCL makes the name safe, this only makes it free. */
static uint64_t noise(const void *here, int attempt) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t x = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 44 ^ (uint64_t)(uintptr_t)here << 3;
    x += (uint64_t)attempt * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u; /* splitmix64's mixing */
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

bool cti_file_new_open(ct_context *context, const char *op, const char *path, cti_file_new *file) {
    *file = (cti_file_new){.context = context, .op = op, .path = path, .fd = -1};
    if (!find_target(file)) {
        cti_file_new_drop(file);
        return false;
    }
    static const char hex[] = "0123456789abcdef", stem[] = ".cotangent-";
    char *name = file->temporary + folder_length(file->target);
    memcpy(file->temporary, file->target, (size_t)(name - file->temporary));
    memcpy(name, stem, sizeof stem - 1);
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t x = noise(file, attempt);
        char *end = name + sizeof stem - 1;
        for (int i = 0; i < 16; i++, x >>= 4) *end++ = hex[x & 15];
        memcpy(end, ".tmp", 5);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) return file->exists = true;
        if (errno != EEXIST && errno != EINTR) break;
    }
    fail(context, op, path, "cannot make a file beside it");
    cti_file_new_drop(file);
    return false;
}

bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        size_t want = size - done < AT_ONCE ? size - done : AT_ONCE;
        ssize_t n = write(file->fd, (const char *)data + done, want);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return fail(file->context, file->op, file->path, "cannot write");
        done += (size_t)n;
    }
    return true;
}

static int sync_to_disk(int fd) {
    int status;
    do status = fsync(fd);
    while (status != 0 && errno == EINTR);
    return status;
}

/* The folder is opened before the rename: what can fail is tried while the old file is still there. Once renamed, the file is the
 * new one, whole; an error then says that it may not survive a loss of power. */
static bool commit(cti_file_new *file) {
    if (sync_to_disk(file->fd) != 0) return fail(file->context, file->op, file->path, "cannot sync");
    int status = close(file->fd);
    file->fd = -1;
    if (status != 0 && errno != EINTR) return fail(file->context, file->op, file->path, "cannot close");
    size_t length = folder_length(file->target);
    char *folder = cti_take(file->context, length + 2);
    if (!folder) return false;
    memcpy(folder, file->target, length);
    memcpy(folder + length, length ? "" : ".", length ? 1 : 2);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cti_give(file->context, folder, length + 2);
    if (fd < 0) return fail(file->context, file->op, file->path, "cannot open its folder");
    bool ok = rename(file->temporary, file->target) == 0;
    if (!ok) {
        fail(file->context, file->op, file->path, "cannot rename to it");
    } else {
        file->exists = false;
        ok = sync_to_disk(fd) == 0 || errno == EINVAL; /* some file systems cannot sync a folder */
        if (!ok) fail(file->context, file->op, file->path, "written, but its folder cannot be synced");
    }
    close(fd);
    return ok;
}

bool cti_file_new_commit(cti_file_new *file) {
    bool ok = commit(file);
    cti_file_new_drop(file);
    return ok;
}

void cti_file_new_drop(cti_file_new *file) {
    if (file->fd >= 0) close(file->fd);
    if (file->exists) unlink(file->temporary);
    cti_give(file->context, file->target, file->room);
    cti_give(file->context, file->temporary, file->room);
    file->target = file->temporary = NULL;
    file->exists = false;
    file->fd = -1;
}
