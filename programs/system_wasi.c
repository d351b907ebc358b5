/* system.h on WASI: no terminal's width, no signals, no locks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath, getentropy */
#endif
#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool is_same_name(const char *a, const char *b) { return strcmp(a, b) == 0; }

#include "system_unix_tmpl.h"

void system_begin(int argc, char **argv) { (void)argc, (void)argv; }

/* WebAssembly's linear memory never shrinks, so its size now is its maximum. */
double system_peak_memory(void) { return 65536.0 * (double)__builtin_wasm_memory_size(0); }

int system_columns(void) { return 0; }
void system_on_interrupt(void (*handler)(int), bool once) { (void)handler, (void)once; }
void system_on_request(void (*handler)(int)) { (void)handler; }

/* ---- paths ---- */

/* Does nothing, because a WASI runtime need not be able to sync a folder. */
bool system_sync_folder(const char *folder) { return (void)folder, true; }

/* ---- open files ---- */

int system_open_log(const char *path) { return open(path, O_RDWR | O_APPEND | O_CREAT, 0666); }

int system_lock_folder(const char *folder) { return open(folder, O_RDONLY | O_DIRECTORY); }
bool system_lock(int fd) { return (void)fd, true; }

int64_t system_read_at(int fd, int64_t offset, void *out, size_t size) {
    return pread(fd, out, size, offset);
}
int64_t system_write(int fd, const void *data, size_t size) { return write(fd, data, size); }
bool system_cut(int fd, int64_t size) { return ftruncate(fd, size) == 0; }
bool system_sync(int fd) { return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP; }

int system_create_beside(const char *path, char *target, char *temporary, size_t room) {
    char *resolved = realpath(path, NULL); /* NULL: no such file yet */
    const int length = snprintf(target, room, "%s", resolved ? resolved : path);
    free(resolved);
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length + sizeof ".ffffffff" > room) return -1;
    struct stat old;
    const bool replaces = stat(target, &old) == 0;
    errno = 0;
    if (replaces && !S_ISREG(old.st_mode)) return -1;
    uint32_t tag = 0;
    int fd = -1;
    for (int i = 0; i < 16 && fd < 0 && (i == 0 || errno == EEXIST); i++) {
        if (getentropy(&tag, sizeof tag) != 0) return -1;
        snprintf(temporary, room, "%s.%08x", target, (unsigned)tag);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    }
    return fd;
}
