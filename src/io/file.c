/* Reading at an offset, and atomic replacement in the steps that file.h lists. */
#include "file.h"

#include <errno.h>
#include <string.h>

#include <cotangent/autograd.h>

#include "../core/context.h"
#include "crc64.h"
#include "list.h"

bool cti_file_fail(ct_context *context, const char *op, const char *path, const char *what) {
    char words[128];
    cti_os_error(words, sizeof words);
    return ct_fail(context, CT_ERR_IO, "%s: %s: %s: %s", op, path, what, words);
}

static bool file_kind_refuse(ct_context *context, const char *op, const char *path,
                             cti_os_kind kind) {
    return ct_fail(context, CT_ERR_IO, "%s: %s: %s", op, path,
                   kind == CTI_OS_FOLDER ? "is a folder" : "is not an ordinary file");
}

bool cti_file_find(ct_context *context, const char *op, const char *path, cti_os_about *about) {
    if (cti_os_about_path(path, about)) return true;
    *about = (cti_os_about){.kind = CTI_OS_ABSENT};
    return errno == ENOENT || errno == ENOTDIR ||
           cti_file_fail(context, op, path, "cannot look for it");
}

/* ---- paths ---- */

char *cti_path_in(ct_context *context, const char *folder, const char *name) {
    const size_t length = strlen(folder), size = strlen(name);
    const bool slash = length && length != cti_os_folder_length(folder);
    char *path = cti_take(context, length + slash + size + 1);
    if (!path) return NULL;
    memcpy(path, folder, length);
    if (slash) path[length] = '/';
    memcpy(path + length + slash, name, size + 1);
    return path;
}

void cti_path_free(ct_context *context, char *path) {
    if (path) cti_give(context, path, strlen(path) + 1);
}

char *cti_path_folder(ct_context *context, const char *path) {
    size_t length = cti_os_folder_length(path);
    while (length > 1 && cti_os_is_separator(path[length - 1])) length--;
    char *folder = cti_take(context, length ? length + 1 : 2);
    if (!folder) return NULL;
    memcpy(folder, length ? path : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
    return folder;
}

bool cti_path_is_name(const char *text) {
    return *text && !strchr(text, '/') &&
           cti_os_folder_length(text) == 0 && /* refuses ..\x and C:x on Windows */
           strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

int cti_path_below(const char *text) {
    const char *slash = strchr(text, '/');
    const size_t folder = slash ? (size_t)(slash - text) : 0;
    char first[CTI_SET_NAME];
    if (!slash) return cti_path_is_name(text) ? 0 : -1;
    if (folder >= sizeof first) return -1;
    memcpy(first, text, folder);
    first[folder] = 0;
    return cti_path_is_name(first) && cti_path_is_name(slash + 1) ? (int)folder + 1 : -1;
}

/* ---- reading ---- */

bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file) {
    *file = (cti_file){.context = context, .op = op, .path = path};
    file->fd = cti_os_open(path);
    if (file->fd < 0) return cti_file_fail(context, op, path, "cannot open");
    cti_os_about about;
    if (!cti_os_about_file(file->fd, &about)) {
        cti_file_fail(context, op, path, "cannot read its size");
    } else if (about.kind != CTI_OS_FILE) {
        file_kind_refuse(context, op, path, about.kind);
    } else {
        file->size = about.size;
        return true;
    }
    cti_file_close(file);
    return false;
}

bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size) {
    for (size_t got = 0; got < size;) {
        const long long at = offset + (int64_t)got;
        const int64_t n = cti_os_read_at(file->fd, at, (char *)out + got, size - got);
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
    if (file->fd >= 0) cti_os_close(file->fd);
    file->fd = -1;
}

/* ---- writing ---- */

/* The name of the file in the context's set; NULL: it belongs to none. */
static const char *name_in_set(const cti_file_new *file) {
    const cti_file_set *set = file->context->set;
    const size_t length = set ? strlen(set->folder) : 0;
    if (!length || strncmp(file->path, set->folder, length) != 0) return NULL;
    const char *name = file->path + length;
    if (!cti_os_is_separator(set->folder[length - 1]) && !cti_os_is_separator(*name++)) return NULL;
    return cti_path_below(name) >= 0 ? name : NULL;
}

/* Sets `old` to the file behind a link, whose access the new file gets. */
static bool target_follow(cti_file_new *file) {
    if (!file->in_set && !cti_os_real_path(file->path, file->target))
        return cti_file_fail(file->context, file->op, file->path, "cannot follow the link");
    if (cti_os_about_path(file->target, &file->old)) return true;
    if (!file->in_set || (errno != ENOENT && errno != ENOTDIR))
        return cti_file_fail(file->context, file->op, file->path, "cannot write");
    file->old = (cti_os_about){.kind = CTI_OS_ABSENT};
    return true;
}

/* Sets target, old and replaces, and takes the memory of both paths. An existing target must be a
 * regular file, because a rename would replace a device by a file. */
static bool target_find(cti_file_new *file) {
    size_t length = strlen(file->path);
    file->capacity = (length < CTI_OS_PATH ? CTI_OS_PATH : length) + CTI_TEMPORARY_NAME;
    file->target = cti_take(file->context, file->capacity);
    file->temporary = cti_take(file->context, file->capacity);
    if (!file->target || !file->temporary) return false;
    memcpy(file->target, file->path, length + 1);
    if (!cti_os_about_link(file->path, &file->old)) {
        file->old.kind = CTI_OS_ABSENT;
        return errno == ENOENT ||
               cti_file_fail(file->context, file->op, file->path, "cannot write");
    }
    if (file->old.kind == CTI_OS_LINK && !target_follow(file)) return false;
    file->replaces = file->old.kind == CTI_OS_FILE;
    return file->replaces || file->old.kind == CTI_OS_ABSENT ||
           file_kind_refuse(file->context, file->op, file->path, file->old.kind);
}

bool cti_file_new_open(ct_context *context, const char *op, const char *path, cti_file_new *file) {
    *file = (cti_file_new){.context = context, .op = op, .path = path, .fd = -1};
    file->in_set = name_in_set(file) != NULL;
    if (!target_find(file)) {
        cti_file_new_drop(file);
        return false;
    }
    const size_t folder = file->in_set ? (size_t)(name_in_set(file) - file->path)
                                       : cti_os_folder_length(file->target);
    memcpy(file->temporary, file->target, folder);
    file->fd =
        cti_temporary_open(file->temporary, folder, file->replaces ? file->old.mode & 0600 : 0666,
                           file->in_set, &file->lock);
    file->exists = file->fd >= 0;
    if (file->exists) return true;
    cti_file_fail(context, op, path, "cannot make a file beside it");
    cti_file_new_drop(file);
    return false;
}

void cti_file_new_remove_dead(const cti_file_new *file) {
    if (!file->in_set)
        cti_temporary_remove_dead(file->temporary, cti_os_folder_length(file->temporary), false,
                                  file->lock);
}

/* Whether a write has written at least a byte. Records an error if it has not. */
static bool written_count(const cti_file_new *file, int64_t n) {
    if (n > 0) return true;
    if (n == 0) errno = EIO;
    return cti_file_fail(file->context, file->op, file->path, "cannot write");
}

bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size) {
    const char *at = data;
    if (file->crc) cti_crc64_add(file->crc, data, size);
    for (size_t done = 0; done < size;) {
        const int64_t n = cti_os_write(file->fd, at + done, size - done);
        if (!written_count(file, n)) return false;
        done += (size_t)n;
    }
    return true;
}

bool cti_file_new_write_at(const cti_file_new *file, int64_t offset, const void *data,
                           size_t size) {
    const char *at = data;
    for (size_t done = 0; done < size;) {
        const int64_t to = offset + (int64_t)done,
                      n = cti_os_write_at(file->fd, to, at + done, size - done);
        if (!written_count(file, n)) return false;
        done += (size_t)n;
    }
    return true;
}

/* Gives the new file the group, owner and mode of the old file. They are read again because they
 * may have changed since open. */
static bool access_keep(cti_file_new *file) {
    cti_os_about old;
    if (file->in_set ? cti_os_about_path(file->target, &old)
                     : cti_os_about_link(file->target, &old)) {
        if (old.kind != CTI_OS_FILE)
            return file_kind_refuse(file->context, file->op, file->path, old.kind);
        file->replaces = true;
        file->old = old;
    } else if (errno != ENOENT && errno != ENOTDIR) {
        return cti_file_fail(file->context, file->op, file->path, "cannot read its mode");
    }
    if (!file->replaces) return true;
    const char *failed = cti_os_keep_access(file->fd, file->target, &file->old);
    return !failed || cti_file_fail(file->context, file->op, file->path, failed);
}

static bool file_sync(const cti_file_new *file) {
    return cti_os_sync(file->fd) ||
           cti_file_fail(file->context, file->op, file->path, "cannot sync");
}

/* Opens the folder that the first `length` bytes of target name. Returns -1 after an error. */
static int folder_open(ct_context *context, const char *op, const char *path, const char *target,
                       size_t length) {
    char *folder = cti_take(context, length + 2);
    if (!folder) return -1;
    memcpy(folder, target, length);
    memcpy(folder + length, length ? "" : ".", length ? 1 : 2);
    const int fd = cti_os_open_folder(folder);
    cti_give(context, folder, length + 2);
    if (fd < 0) cti_file_fail(context, op, path, "cannot open its folder");
    return fd;
}

static bool folder_sync(int fd) {
    return cti_os_sync(fd) || errno == EINVAL; /* some file systems cannot sync a folder */
}

/* The folder is opened before the rename, so that a failure to open it leaves the old file in
 * place. The temporary file stays open until after the rename, so its lock holds until then. */
static bool commit_file(cti_file_new *file) {
    if (!access_keep(file) || !file_sync(file)) return false;
    int fd = folder_open(file->context, file->op, file->path, file->target,
                         cti_os_folder_length(file->target));
    if (fd < 0) return false;
    bool ok = cti_os_rename(file->temporary, file->target);
    if (!ok) {
        cti_file_fail(file->context, file->op, file->path, "cannot rename to it");
    } else {
        file->exists = false;
        ok = folder_sync(fd);
        if (!ok)
            cti_file_fail(file->context, file->op, file->path,
                          "written, but its folder cannot be synced");
    }
    cti_os_close(fd);
    return ok;
}

bool cti_file_sync_folder(ct_context *context, const char *op, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && cti_os_is_separator(path[length - 1]))
        length--; /* skips separators at the end: the path may be a folder */
    while (length > 0 && !cti_os_is_separator(path[length - 1])) length--;
    const int fd = folder_open(context, op, path, path, length);
    if (fd < 0) return false;
    const bool ok = folder_sync(fd) || cti_file_fail(context, op, path, "cannot sync its folder");
    cti_os_close(fd);
    return ok;
}

cti_set_member *cti_file_set_add(ct_context *context, const char *op, cti_file_set *set,
                                 const char *name) {
    cti_set_member *more =
        cti_list_grow(context, set->member, set->n, &set->room, sizeof *set->member);
    if (!more) return NULL;
    set->member = more;
    if (strlen(name) >= CTI_SET_NAME)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: the name %s is too long", op, set->folder,
                       name);
    more += set->n++;
    *more = (cti_set_member){0};
    strcpy(more->name, name);
    return more;
}

/* Syncs the file and hands it to the context's set. The path belongs to the caller and may end
 * before the set does, so messages then have the target. */
static bool set_join(cti_file_new *file) {
    if (!access_keep(file) || !file_sync(file)) return false;
    cti_set_member *member =
        cti_file_set_add(file->context, file->op, file->context->set, name_in_set(file));
    if (!member) return false;
    cti_give(file->context, file->crc, sizeof *file->crc);
    file->crc = NULL;
    member->file = *file;
    member->file.path = member->file.target;
    *file = (cti_file_new){.context = file->context, .fd = -1};
    return true;
}

bool cti_file_new_commit(cti_file_new *file) {
    bool ok = file->in_set ? set_join(file) : commit_file(file);
    cti_file_new_drop(file);
    return ok;
}

void cti_file_new_drop(cti_file_new *file) {
    if (file->exists) cti_os_remove(file->temporary);
    if (file->fd >= 0) cti_os_close(file->fd);
    cti_give(file->context, file->target, file->capacity);
    cti_give(file->context, file->temporary, file->capacity);
    cti_give(file->context, file->crc, sizeof *file->crc);
    file->crc = NULL;
    file->target = file->temporary = NULL;
    file->exists = false;
    file->fd = -1;
}

bool cti_file_write(ct_context *context, const char *op, const char *path, const void *data,
                    size_t size) {
    cti_file_new file;
    if (!cti_file_new_open(context, op, path, &file)) return false;
    if (cti_file_new_write(&file, data, size)) return cti_file_new_commit(&file);
    cti_file_new_drop(&file);
    return false;
}
