/* Reading at an offset, and atomic replacement: temporary file, fsync, rename, fsync of the
 * folder. */
#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#endif
#define _XOPEN_SOURCE 700 /* realpath, fchown */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cotangent/autograd.h>

#include "../core/context.h"
#include "crc64.h"

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

/* bytes of one read or write; Linux transfers at most 2^31 - 4096, macOS refuses 2^31 */
enum { AT_ONCE = 1 << 30 };

bool cti_file_fail(ct_context *context, const char *op, const char *path, const char *what) {
    char words[128];
    if (strerror_r(errno, words, sizeof words) != 0) strcpy(words, "unknown error");
    return ct_fail(context, CT_ERR_IO, "%s: %s: %s: %s", op, path, what, words);
}

static int open_existing(const char *path, int flags) {
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static bool refuse_kind(ct_context *context, const char *op, const char *path, mode_t mode) {
    return ct_fail(context, CT_ERR_IO, "%s: %s: %s", op, path,
                   S_ISDIR(mode) ? "is a folder" : "is not an ordinary file");
}

/* ---- reading ---- */

bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file) {
    *file = (cti_file){.context = context, .op = op, .path = path};
    /* O_NONBLOCK: opening a FIFO without a writer would block */
    file->fd = open_existing(path, O_NOCTTY | O_NONBLOCK);
    if (file->fd < 0) return cti_file_fail(context, op, path, "cannot open");
    struct stat about;
    if (fstat(file->fd, &about) != 0) {
        cti_file_fail(context, op, path, "cannot read its size");
    } else if (!S_ISREG(about.st_mode)) {
        refuse_kind(context, op, path, about.st_mode);
    } else {
        file->size = about.st_size;
        return true;
    }
    cti_file_close(file);
    return false;
}

bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size) {
    for (size_t got = 0; got < size;) {
        const size_t want = size - got < AT_ONCE ? size - got : AT_ONCE;
        ssize_t n = pread(file->fd, (char *)out + got, want, (off_t)(offset + (int64_t)got));
        if (n < 0 && errno == EINTR) continue;
        const long long at = offset + (int64_t)got;
        if (n < 0) {
            char what[48];
            snprintf(what, sizeof what, "cannot read at byte %lld", at);
            return cti_file_fail(file->context, file->op, file->path, what);
        }
        if (n == 0) {
            return ct_fail(file->context, CT_ERR_FORMAT,
                           "%s: %s: the file ends at byte %lld, while being read", file->op,
                           file->path, at);
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

/* Sets target and old. An existing target must be a regular file: a rename would replace a device
 * by a file. */
static bool find_target(cti_file_new *file) {
    size_t length = strlen(file->path);
    file->capacity = (length < PATH_MAX ? PATH_MAX : length) + CTI_TEMPORARY_NAME;
    file->target = cti_take(file->context, file->capacity);
    file->temporary = cti_take(file->context, file->capacity);
    if (!file->target || !file->temporary) return false;
    memcpy(file->target, file->path, length + 1);
    if (lstat(file->path, &file->old) != 0) {
        return errno == ENOENT ||
               cti_file_fail(file->context, file->op, file->path, "cannot write");
    }
    if (S_ISLNK(file->old.st_mode)) {
        if (!realpath(file->path, file->target))
            return cti_file_fail(file->context, file->op, file->path, "cannot follow the link");
        if (stat(file->target, &file->old) != 0)
            return cti_file_fail(file->context, file->op, file->path, "cannot write");
    }
    file->replaces = S_ISREG(file->old.st_mode);
    return file->replaces || refuse_kind(file->context, file->op, file->path, file->old.st_mode);
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
    const size_t folder = folder_length(file->target);
    memcpy(file->temporary, file->target, folder);
    file->fd = cti_temporary_open(file->temporary, folder,
                                  file->replaces ? file->old.st_mode & 0600 : 0666, &file->lock);
    file->exists = file->fd >= 0;
    if (file->exists) return true;
    cti_file_fail(context, op, path, "cannot make a file beside it");
    cti_file_new_drop(file);
    return false;
}

void cti_file_new_remove_dead(const cti_file_new *file) {
    cti_temporary_remove_dead(file->temporary, folder_length(file->temporary), file->lock);
}

/* What a write of `size` bytes has returned, as the bytes that are done; -1: an error was recorded.
 */
static ssize_t written(const cti_file_new *file, ssize_t n) {
    if (n > 0) return n;
    if (n < 0 && errno == EINTR) return 0;
    if (n == 0) errno = EIO;
    cti_file_fail(file->context, file->op, file->path, "cannot write");
    return -1;
}

bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size) {
    const char *at = data;
    if (file->crc) cti_crc64_add(file->crc, data, size);
    for (size_t done = 0; done < size;) {
        const size_t want = size - done < AT_ONCE ? size - done : AT_ONCE;
        const ssize_t n = written(file, write(file->fd, at + done, want));
        if (n < 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool cti_file_new_write_at(const cti_file_new *file, int64_t offset, const void *data,
                           size_t size) {
    const char *at = data;
    for (size_t done = 0; done < size;) {
        const off_t to = (off_t)(offset + (int64_t)done);
        const ssize_t n = written(file, pwrite(file->fd, at + done, size - done, to));
        if (n < 0) return false;
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

/* The permission bits of the new file. If its owner or group differs from the old file's, a user
 * may have changed class (owner, group, others), so a class gets only the bits that every class
 * its users may have been in had. */
static mode_t kept_mode(const struct stat *old, const struct stat *made) {
    mode_t owner = old->st_mode >> 6 & 7, group = old->st_mode >> 3 & 7, others = old->st_mode & 7;
    if (made->st_gid != old->st_gid) group = others = group & others;
    if (made->st_uid != old->st_uid) group &= owner, others &= owner;
    return owner << 6 | group << 3 | others;
}

/* Gives the new file the old one's group, owner and mode, which are read again as they may have
 * changed since open. */
static bool keep_access(cti_file_new *file) {
    struct stat old, made;
    if (lstat(file->target, &old) == 0) {
        file->replaces = true;
        file->old = old;
    } else if (errno != ENOENT) {
        return cti_file_fail(file->context, file->op, file->path, "cannot read its mode");
    }
    if (!file->replaces) return true;
    if (fstat(file->fd, &made) != 0)
        return cti_file_fail(file->context, file->op, file->path,
                             "cannot read the mode of the file beside it");
    bool changed =
        made.st_gid != file->old.st_gid && fchown(file->fd, (uid_t)-1, file->old.st_gid) == 0;
    changed |=
        made.st_uid != file->old.st_uid && fchown(file->fd, file->old.st_uid, (gid_t)-1) == 0;
    if (changed && fstat(file->fd, &made) != 0)
        return cti_file_fail(file->context, file->op, file->path,
                             "cannot read the mode of the file beside it");
    const mode_t mode = kept_mode(&file->old, &made);
    return (made.st_mode & 07777) == mode || fchmod(file->fd, mode) == 0 ||
           cti_file_fail(file->context, file->op, file->path, "cannot keep its mode");
}

bool cti_file_new_sync(const cti_file_new *file) {
    return sync_to_disk(file->fd) == 0 ||
           cti_file_fail(file->context, file->op, file->path, "cannot sync");
}

/* Opens the folder that the first `length` bytes of target name; -1: an error was recorded. */
static int open_folder(ct_context *context, const char *op, const char *path, const char *target,
                       size_t length) {
    char *folder = cti_take(context, length + 2);
    if (!folder) return -1;
    memcpy(folder, target, length);
    memcpy(folder + length, length ? "" : ".", length ? 1 : 2);
    int fd = open_existing(folder, O_DIRECTORY);
    cti_give(context, folder, length + 2);
    if (fd < 0) cti_file_fail(context, op, path, "cannot open its folder");
    return fd;
}

static bool sync_folder(int fd) {
    return sync_to_disk(fd) == 0 || errno == EINVAL; /* some file systems cannot sync a folder */
}

/* The folder is opened before the rename, so that if this fails the old file is still there. After
 * the rename the new file is complete; a failed sync of the folder means only that the rename may
 * not survive a loss of power, and the error says so. The temporary file stays open, and so locked,
 * until the rename. */
static bool commit(cti_file_new *file) {
    if (!keep_access(file) || !cti_file_new_sync(file)) return false;
    int fd =
        open_folder(file->context, file->op, file->path, file->target, folder_length(file->target));
    if (fd < 0) return false;
    bool ok = rename(file->temporary, file->target) == 0;
    if (!ok) {
        cti_file_fail(file->context, file->op, file->path, "cannot rename to it");
    } else {
        file->exists = false;
        ok = sync_folder(fd);
        if (!ok)
            cti_file_fail(file->context, file->op, file->path,
                          "written, but its folder cannot be synced");
    }
    close(fd);
    return ok;
}

bool cti_file_sync_folder(ct_context *context, const char *op, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--; /* of a path that is a folder itself */
    while (length > 0 && path[length - 1] != '/') length--;
    const int fd = open_folder(context, op, path, path, length);
    if (fd < 0) return false;
    const bool ok = sync_folder(fd) || cti_file_fail(context, op, path, "cannot sync its folder");
    close(fd);
    return ok;
}

bool cti_file_remove(ct_context *context, const char *op, const char *path) {
    int fd = open_folder(context, op, path, path, folder_length(path));
    if (fd < 0) return false;
    bool ok = unlink(path) == 0 || cti_file_fail(context, op, path, "cannot remove it");
    if (ok && !sync_folder(fd)) ok = cti_file_fail(context, op, path, "cannot sync its folder");
    close(fd);
    return ok;
}

bool cti_file_new_commit(cti_file_new *file) {
    bool ok = commit(file);
    cti_file_new_drop(file);
    return ok;
}

void cti_file_new_drop(cti_file_new *file) {
    if (file->exists) unlink(file->temporary);
    if (file->fd >= 0) close(file->fd);
    cti_give(file->context, file->target, file->capacity);
    cti_give(file->context, file->temporary, file->capacity);
    cti_give(file->context, file->crc, sizeof *file->crc);
    file->crc = NULL;
    file->target = file->temporary = NULL;
    file->exists = false;
    file->fd = -1;
}
