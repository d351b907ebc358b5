/* The functions of os.h that are the same on POSIX systems and WASI: the clock, paths, files and
 * text. */
#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS        64 /* files of 2038 and later can be opened */
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE /* st_mtimespec */
#endif
#include "../kernels/libm.h"
#include "os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock ---- */

int64_t cti_os_now(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t cti_os_entropy(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30;
}

int64_t cti_os_time(void) { return (int64_t)time(NULL); }

bool cti_os_local_date(int64_t time, cti_os_date *date) {
    const time_t at = (time_t)time;
    struct tm tm;
    if ((int64_t)at != time || !localtime_r(&at, &tm)) return false;
    *date = (cti_os_date){.year = 1900 + (int64_t)tm.tm_year,
                          .month = tm.tm_mon + 1,
                          .day = tm.tm_mday,
                          .hour = tm.tm_hour,
                          .minute = tm.tm_min,
                          .second = tm.tm_sec,
                          .week_day = tm.tm_wday,
                          .year_day = tm.tm_yday};
    return true;
}

/* ---- numbers ---- */

double cti_libm_pow(double x, double e) { return pow(x, e); }

/* ---- paths ---- */

size_t cti_os_folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

bool cti_os_is_separator(char c) { return c == '/'; }
bool cti_os_is_absolute(const char *path) { return *path == '/'; }

/* Fails for an empty path, as POSIX does. wasi-libc would take it for the current folder. */
static bool is_named(const char *path) {
    if (*path) return true;
    errno = ENOENT;
    return false;
}

/* ---- properties of a path or an open file ---- */

static cti_os_kind kind_of_mode(mode_t mode) {
    if (S_ISREG(mode)) return CTI_OS_FILE;
    if (S_ISDIR(mode)) return CTI_OS_FOLDER;
    return S_ISLNK(mode) ? CTI_OS_LINK : CTI_OS_OTHER;
}

#ifdef __APPLE__
#define MODIFIED st_mtimespec
#else
#define MODIFIED st_mtim
#endif

static bool about_of(int status, const struct stat *from, cti_os_about *to) {
    if (status != 0) return false;
    *to = (cti_os_about){.kind = kind_of_mode(from->st_mode),
                         .size = from->st_size,
                         .device = (uint64_t)from->st_dev,
                         .number = (uint64_t)from->st_ino,
                         .modified_s = from->MODIFIED.tv_sec,
                         .modified_ns = from->MODIFIED.tv_nsec,
                         .mode = from->st_mode & 07777,
                         .owner = from->st_uid,
                         .group = from->st_gid};
    return true;
}

bool cti_os_about_file(int fd, cti_os_about *about) {
    struct stat found;
    return about_of(fstat(fd, &found), &found, about);
}

bool cti_os_about_path(const char *path, cti_os_about *about) {
    struct stat found;
    return is_named(path) && about_of(stat(path, &found), &found, about);
}

bool cti_os_about_link(const char *path, cti_os_about *about) {
    struct stat found;
    return is_named(path) && about_of(lstat(path, &found), &found, about);
}

/* ---- files ---- */

/* The largest number of bytes of one read or write. Linux transfers at most 2^31 - 4096 bytes at
 * once, and macOS refuses 2^31. */
enum { AT_ONCE = 1 << 30 };
static size_t at_once(size_t size) { return size < AT_ONCE ? size : AT_ONCE; }

static int open_repeated(const char *path, int flags, mode_t mode) {
    if (!is_named(path)) return -1;
    int fd;
    do fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int cti_os_open(const char *path) {
    return open_repeated(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
}
int cti_os_open_folder(const char *path) { return open_repeated(path, O_RDONLY | O_DIRECTORY, 0); }
int cti_os_create(const char *path, unsigned mode) {
    return open_repeated(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)mode);
}
void cti_os_close(int fd) { close(fd); }

int64_t cti_os_read_at(int fd, int64_t offset, void *out, size_t size) {
    ssize_t n;
    do n = pread(fd, out, at_once(size), (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n;
}

int64_t cti_os_write(int fd, const void *data, size_t size) {
    ssize_t n;
    do n = write(fd, data, at_once(size));
    while (n < 0 && errno == EINTR);
    return n;
}

int64_t cti_os_write_at(int fd, int64_t offset, const void *data, size_t size) {
    ssize_t n;
    do n = pwrite(fd, data, at_once(size), (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n;
}

bool cti_os_rename(const char *from, const char *to) { return rename(from, to) == 0; }
bool cti_os_remove(const char *path) { return unlink(path) == 0; }
bool cti_os_make_folder(const char *path) { return is_named(path) && mkdir(path, 0777) == 0; }

/* Between open and lock the holder may remove the file. A lock on a file without a name excludes
 * nobody, so the caller tries again. */
int cti_os_lock_path(const char *path, cti_lock *lock) {
    const int fd = open_repeated(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY, 0666);
    if (fd < 0 || (cti_os_lock(fd, lock) && cti_os_still_named(fd, path))) return fd;
    close(fd);
    errno = EAGAIN;
    return -1;
}

void cti_os_unlock_path(int fd, const char *path) {
    unlink(path);
    close(fd);
}

/* The text from the result of strerror_r, which is a number, or in the GNU version the text. */
static const char *by_number(int failed, const char *words) { return failed ? NULL : words; }
static const char *by_words(const char *found, const char *words) { return words ? found : NULL; }

void cti_os_error(char *words, size_t size) {
    char found[128];
    const char *text = _Generic(strerror_r(errno, found, sizeof found),
        int: by_number,
        char *: by_words)(strerror_r(errno, found, sizeof found), found);
    if (!text) text = "unknown error";
    const size_t length = strlen(text) < size ? strlen(text) : size - 1;
    memcpy(words, text, length);
    words[length] = '\0';
}

/* ---- text in memory ---- */

bool cti_os_text_open(cti_os_text *out) {
    *out = (cti_os_text){0};
    out->file = open_memstream(&out->text, &out->size);
    return out->file != NULL;
}

bool cti_os_text_close(cti_os_text *out) { return fclose(out->file) == 0; }

/* ---- the files of a folder ---- */

cti_os_folder *cti_os_folder_open(const char *path) {
    return (cti_os_folder *)opendir(*path ? path : ".");
}

const char *cti_os_folder_next(cti_os_folder *folder) {
    const struct dirent *entry = readdir((DIR *)folder);
    return entry ? entry->d_name : NULL;
}

void cti_os_folder_close(cti_os_folder *folder) { closedir((DIR *)folder); }
