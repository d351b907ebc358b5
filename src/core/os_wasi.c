/* os.h on WASI, preview 1. wasmtime runs such a program, and so does a browser if the page provides
 * WASI's functions. The program has one thread, no processes and no signals. Files have no owner,
 * no mode and no locks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath, getentropy */
#endif
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

#include "os_unix_tmpl.h"

/* ---- the machine and the process ---- */

int cti_os_cores(void) { return 1; }
int64_t cti_os_l2_bytes(void) { return 0; }
int64_t cti_os_l1d_ways(void) { return 0; }

void cti_os_sleep(int64_t ns) {
    if (ns > 0) nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* WASI has no process numbers: each instance draws one at random. Temporary files are named so. */
uint64_t cti_os_process(void) {
    static uint32_t number;
    if (number == 0 && getentropy(&number, sizeof number) != 0) number = (uint32_t)cti_os_entropy();
    number |= number == 0;
    return number;
}

bool cti_os_count_forks(void) { return true; }
unsigned cti_os_forks(void) { return 0; }
bool cti_os_on_stack(uintptr_t a, uintptr_t b) { return (void)a, (void)b, true; } /* the only one */
bool cti_os_grants_amx(void) { return false; }
bool cti_os_saves_avx512_late(void) { return false; }
double cti_os_pow(double x, double e) { return pow(x, e); }
double cti_os_tanh(double x) { return tanh(x); }

/* ---- memory ---- */

void *cti_os_alloc(size_t size) { return malloc(size); }
void cti_os_free(void *block) { free(block); }

/* ---- threads: there is one, so no lock is held and nothing is waited for ---- */

bool cti_mutex_init(cti_mutex *mutex) { return *mutex = (cti_mutex){{0}}, true; }
void cti_mutex_lock(cti_mutex *mutex) { (void)mutex; }
void cti_mutex_unlock(cti_mutex *mutex) { (void)mutex; }
void cti_mutex_free(cti_mutex *mutex) { (void)mutex; }

bool cti_cond_init(cti_cond *cond) { return *cond = (cti_cond){{0}}, true; }
void cti_cond_wait(cti_cond *cond, cti_mutex *mutex) { (void)cond, (void)mutex; }
void cti_cond_signal(cti_cond *cond) { (void)cond; }
void cti_cond_broadcast(cti_cond *cond) { (void)cond; }
void cti_cond_free(cti_cond *cond) { (void)cond; }

bool cti_thread_start(cti_thread *thread, void (*work)(void *arg), void *arg) {
    (void)thread, (void)work, (void)arg;
    return false;
}
void cti_thread_join(const cti_thread *thread) { (void)thread; }

void cti_once_run(cti_once *once, void (*run)(void)) {
    if (atomic_load(&once->state) != 0) return;
    run();
    atomic_store(&once->state, -1);
}

/* ---- paths ---- */

bool cti_os_current_folder(char *out, size_t room) {
    char *here = getcwd(NULL, 0);
    if (!here) return false;
    const size_t size = strlen(here) + 1;
    if (size <= room) memcpy(out, here, size);
    free(here);
    if (size > room) errno = ERANGE;
    return size <= room;
}

bool cti_os_real_path(const char *path, char *out) {
    char *found = realpath(path, NULL);
    if (!found) return false;
    const size_t size = strlen(found) + 1;
    if (size <= CTI_OS_PATH) memcpy(out, found, size);
    free(found);
    if (size > CTI_OS_PATH) errno = ENAMETOOLONG;
    return size <= CTI_OS_PATH;
}

/* wasi-libc takes an empty path for the current folder. */
static bool is_named(const char *path) {
    if (*path) return true;
    errno = ENOENT;
    return false;
}

/* ---- what a path or an open file is ---- */

static bool tell(int status, const struct stat *from, cti_os_about *to) {
    if (status != 0) return false;
    *to = (cti_os_about){.kind = kind_of(from->st_mode),
                         .size = from->st_size,
                         .device = (uint64_t)from->st_dev,
                         .number = (uint64_t)from->st_ino,
                         .modified_s = from->st_mtim.tv_sec,
                         .modified_ns = from->st_mtim.tv_nsec};
    return true;
}

bool cti_os_about_file(int fd, cti_os_about *about) {
    struct stat found;
    return tell(fstat(fd, &found), &found, about);
}

bool cti_os_about_path(const char *path, cti_os_about *about) {
    struct stat found;
    return is_named(path) && tell(stat(path, &found), &found, about);
}

bool cti_os_about_link(const char *path, cti_os_about *about) {
    struct stat found;
    return is_named(path) && tell(lstat(path, &found), &found, about);
}

/* ---- files ---- */

int cti_os_open(const char *path) {
    return is_named(path) ? open(path, O_RDONLY | O_NONBLOCK) : -1;
}
int cti_os_open_folder(const char *path) {
    return is_named(path) ? open(path, O_RDONLY | O_DIRECTORY) : -1;
}
int cti_os_create(const char *path, unsigned mode) {
    if (!is_named(path)) return -1;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)mode);
}
void cti_os_close(int fd) { close(fd); }

int64_t cti_os_read_at(int fd, int64_t offset, void *out, size_t size) {
    return pread(fd, out, size, offset);
}
int64_t cti_os_write(int fd, const void *data, size_t size) { return write(fd, data, size); }
int64_t cti_os_write_at(int fd, int64_t offset, const void *data, size_t size) {
    return pwrite(fd, data, size, offset);
}

/* A runtime that cannot sync a folder says EBADF, ENOTSUP or EACCES. */
bool cti_os_sync(int fd) {
    if (fsync(fd) == 0) return true;
    struct stat about;
    const int error = errno;
    const bool folder = fstat(fd, &about) == 0 && S_ISDIR(about.st_mode);
    errno = folder && (error == EBADF || error == ENOTSUP || error == EACCES) ? EINVAL : error;
    return false;
}

const char *cti_os_keep_access(int fd, const char *path, const cti_os_about *old) {
    (void)fd, (void)path, (void)old;
    return NULL;
}

bool cti_os_make_folder(const char *path) { return is_named(path) && mkdir(path, 0777) == 0; }

void cti_os_error(char *words, size_t size) {
    const char *text = strerror(errno);
    const size_t length = strlen(text) < size ? strlen(text) : size - 1;
    memcpy(words, text, length);
    words[length] = '\0';
}

/* ---- locks: there are none, so the temporary file of a killed writer stays ---- */

bool cti_os_lock(int fd, cti_lock *lock) {
    (void)fd;
    *lock = CTI_LOCK_NONE;
    return true;
}

bool cti_os_still_named(int fd, const char *path) {
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool cti_os_folder_remove_unlocked(cti_os_folder *folder, const char *name, cti_lock lock) {
    (void)folder, (void)name, (void)lock;
    return false;
}
