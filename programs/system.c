/* The functions of system.h that are the same on all systems. */
#include "system.h"

#include <errno.h>
#include <string.h>

/* ---- which file ---- */

bool system_find_folder(const char *path, system_file *file) {
    cti_os_about about;
    *file = (system_file){0};
    if (!cti_os_about_path(path, &about)) return false;
    file->in_folder = true;
    file->folder_device = about.device;
    file->folder = about.number;
    return true;
}

bool system_find_file(const char *path, system_file *file) {
    enum { MOST_LINKS = 40 };
    char place[CTI_OS_PATH], folder[CTI_OS_PATH + 1];
    cti_os_about about;
    *file = (system_file){0};
    if (path && (size_t)snprintf(place, sizeof place, "%s", path) >= sizeof place) return false;
    for (int i = 0; path && i < MOST_LINKS && system_follow_link(place, sizeof place);) i++;
    if (path) {
        const size_t length = cti_os_folder_length(place);
        snprintf(folder, sizeof folder, "%.*s.", (int)length, place);
        system_find_folder(folder, file);
        if (strlen(place + length) >= sizeof file->name) return false; /* no file has such a name */
        strcpy(file->name, place + length);
    }
    if (!(path ? cti_os_about_path(path, &about)
               : cti_os_about_file(system_standard_input(), &about)))
        return file->in_folder;
    file->exists = true;
    file->device = about.device;
    file->number = about.number;
    return about.kind == CTI_OS_FILE;
}

bool system_same_folder(const system_file *a, const system_file *b) {
    return a->in_folder && b->in_folder && a->folder_device == b->folder_device &&
           a->folder == b->folder;
}

bool system_same_file(const system_file *a, const system_file *b) {
    if (a->exists && b->exists) return a->device == b->device && a->number == b->number;
    return a->exists == b->exists && system_same_folder(a, b) && system_same_name(a->name, b->name);
}

/* ---- files ---- */

/* A file system may be unable to sync. */
static bool sync_if_possible(int fd) {
    return cti_os_sync(fd) || errno == EINVAL || errno == ENOTSUP;
}

bool system_sync(int fd) {
    cti_os_about about;
    return (cti_os_about_file(fd, &about) && about.kind != CTI_OS_FILE) || sync_if_possible(fd);
}

bool system_sync_folder(const char *folder) {
    const int fd = cti_os_open_folder(folder);
    if (fd < 0) return errno == EACCES; /* a folder that cannot be read cannot be synced */
    const bool ok = sync_if_possible(fd);
    const int error = errno;
    cti_os_close(fd);
    errno = error;
    return ok;
}

/* A file that will replace another is its owner's alone until it has the other's access. */
static int create_with_access(const char *temporary, const char *target, const cti_os_about *old) {
    const int fd = cti_os_create(temporary, old ? 0600 : 0666);
    if (fd < 0 || !old || !cti_os_keep_access(fd, target, old)) return fd;
    const int error = errno;
    cti_os_remove(temporary);
    cti_os_close(fd);
    errno = error;
    return -1;
}

int system_create_beside(const char *path, char *target, char *temporary, size_t room) {
    char real[CTI_OS_PATH];
    cti_os_about old;
    const char *to = cti_os_real_path(path, real) ? real : path; /* or there is no such file yet */
    errno = ENAMETOOLONG;
    if (strlen(to) + sizeof ".01234567" > room) return -1;
    strcpy(target, to);
    const bool replaces = cti_os_about_path(target, &old);
    errno = 0;
    if (replaces && old.kind != CTI_OS_FILE) return -1;
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < 16 && fd < 0 && errno == EEXIST; i++) {
        snprintf(temporary, room, "%s.%08x", target, (unsigned)cti_os_entropy());
        fd = create_with_access(temporary, target, replaces ? &old : NULL);
    }
    return fd;
}
