/* os.h on WASI, preview 1. wasmtime runs such a program, and so does a browser if the page provides
 * WASI's functions. The program has one thread, and the system has no processes and no signals.
 * Files have no owner, no mode and no locks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath, getentropy */
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

/* ---- the machine and the process ---- */

int cti_os_cores(void) { return 1; }
int64_t cti_os_l2_bytes(void) { return 0; }
int64_t cti_os_l1d_ways(void) { return 0; }

void cti_os_sleep(int64_t ns) {
    if (ns > 0) nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* WASI has no process numbers, so each instance of a program draws a random number. The names of
 * temporary files are made from it. */
uint64_t cti_os_process(void) {
    static uint32_t number;
    if (number == 0 && getentropy(&number, sizeof number) != 0) number = (uint32_t)cti_os_entropy();
    number |= number == 0;
    return number;
}

bool cti_os_count_forks(void) { return true; }
unsigned cti_os_forks(void) { return 0; }
bool cti_os_grants_amx(void) { return false; }
bool cti_os_saves_avx512_late(void) { return false; }
double cti_libm_tanh(double x) { return tanh(x); }

/* ---- memory ---- */

void *cti_os_alloc(size_t size) { return malloc(size); }
void cti_os_free(void *block) { free(block); }
bool cti_os_discard(void *memory, size_t size) {
    (void)memory, (void)size;
    return false;
}

/* ---- threads: the program has one, so these functions do nothing ---- */

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

/* ---- files ---- */

/* If a runtime cannot sync a folder, errno is EBADF, ENOTSUP or EACCES, which becomes EINVAL. */
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

/* ---- locks: WASI has none, so the temporary file of a writer that was killed stays ---- */

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
