/* system.h on POSIX systems. */
#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS        64
#endif
#define _XOPEN_SOURCE    700 /* realpath */
#define _DARWIN_C_SOURCE     /* ioctl's TIOCGWINSZ, F_FULLFSYNC */
#define _DEFAULT_SOURCE      /* the same on Linux */
#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* On macOS, names that differ only by upper and lower case are names of one file. */
static bool is_same_name(const char *a, const char *b) {
#ifdef __APPLE__
    return strcasecmp(a, b) == 0;
#else
    return strcmp(a, b) == 0;
#endif
}

#include "system_unix_tmpl.h"

void system_begin(int argc, char **argv) {
    (void)argc, (void)argv;
    signal(SIGXFSZ, SIG_IGN); /* beyond ulimit -f a write fails, with errno EFBIG */
}

double system_peak_memory(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return NAN;
#ifdef __APPLE__
    return (double)usage.ru_maxrss; /* in bytes */
#else
    return (double)usage.ru_maxrss * 1024; /* in KiB */
#endif
}

int system_columns(void) {
    struct winsize window = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) ? 0 : window.ws_col;
}

void system_on_interrupt(void (*handler)(int), bool once) {
    const struct sigaction action = {
        .sa_handler = handler,
        .sa_flags = once ? SA_RESTART | (int)SA_RESETHAND : 0,
    };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void system_on_request(void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}

/* ---- paths ---- */

static int open_repeated(const char *path, int flags) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int system_lock_folder(const char *folder) {
    const int fd = open_repeated(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
    close(fd);
    errno = EAGAIN;
    return -1;
}

bool system_sync_folder(const char *folder) {
    const int fd = open_repeated(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return errno == EACCES; /* a folder that cannot be read cannot be synced */
    const bool ok = system_sync(fd);
    const int error = errno;
    close(fd);
    errno = error;
    return ok;
}

/* ---- open files ---- */

int system_open_log(const char *path) { return open_repeated(path, O_RDWR | O_APPEND | O_CREAT); }

bool system_lock(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

int64_t system_read_at(int fd, int64_t offset, void *out, size_t size) {
    ssize_t n;
    do n = pread(fd, out, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n;
}

int64_t system_write(int fd, const void *data, size_t size) {
    ssize_t n;
    do n = write(fd, data, size);
    while (n < 0 && errno == EINTR);
    return n;
}

bool system_cut(int fd, int64_t size) {
    int status;
    do status = ftruncate(fd, (off_t)size);
    while (status != 0 && errno == EINTR);
    return status == 0;
}

/* With EINVAL the file system cannot sync such a file, which is not a failure. */
bool system_sync(int fd) {
#ifdef F_FULLFSYNC /* on macOS, fsync leaves data in the drive's own cache */
    if (fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
    int status;
    do status = fsync(fd);
    while (status != 0 && errno == EINTR);
    return status == 0 || errno == EINVAL;
}

int system_create_beside(const char *path, char *target, char *temporary, size_t room) {
    char *resolved = realpath(path, NULL); /* NULL: no such file yet */
    const int length = snprintf(target, room, "%s", resolved ? resolved : path);
    free(resolved);
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length + sizeof ".XXXXXX" > room) return -1;
    struct stat old;
    const bool replaces = stat(target, &old) == 0;
    errno = 0;
    if (replaces && !S_ISREG(old.st_mode)) return -1;
    memcpy(temporary, target, (size_t)length);
    strcpy(temporary + length, ".XXXXXX");
    const int fd = mkstemp(temporary);
    if (fd < 0) return -1;
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, replaces ? old.st_mode & 0777 : 0666 & ~mask) == 0) return fd;
    const int error = errno;
    unlink(temporary);
    close(fd);
    errno = error;
    return -1;
}
