/* What the tests use of POSIX and WASI lacks; included before each of their files. What it cannot
 * have (threads, forks, FIFOs, modes) fails, and the tests that need it are tagged "threads",
 * "forks" or "posix" and left out. */
#ifndef PORTABLE_WASI_H
#define PORTABLE_WASI_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The tag that longjmp throws, which no library of zig's defines. */
__asm__(".weak __c_longjmp\n.tagtype __c_longjmp i32\n__c_longjmp:\n");
static inline char *portable_mkdtemp(char *path) {
    for (int i = 0; i < 100; i++) {
        unsigned tag = 0;
        if (getentropy(&tag, sizeof tag) != 0) return NULL;
        snprintf(path + strlen(path) - 6, 7, "%06x", tag & 0xFFFFFF);
        if (mkdir(path, 0700) == 0) return path;
        if (errno != EEXIST) return NULL;
    }
    return NULL;
}
#define mkdtemp portable_mkdtemp

static inline FILE *portable_tmpfile(void) {
    char path[64];
    unsigned long tag = 0;
    if (getentropy(&tag, sizeof tag) != 0) return NULL;
    snprintf(path, sizeof path, "/tmp/ct%08lx", tag);
    FILE *file = fopen(path, "w+b");
    if (file) unlink(path);
    return file;
}
#define tmpfile portable_tmpfile

#define mkfifo(path, mode) ((void)(path), errno = ENOSYS, -1)
#define fchdir(fd)         ((void)(fd), errno = ENOSYS, -1)
#define umask(mode)        ((void)(mode), 0)
#define mkstemp(path)      ((void)(path), errno = ENOSYS, -1)
#define waitpid(id, status, how) ((void)(status), errno = ECHILD, -1)
#define fork()             (-1)
#define dup(fd)            ((void)(fd), errno = ENOSYS, -1)
#define dup2(fd, to)       ((void)(fd), (void)(to), errno = ENOSYS, -1)

#endif
