/* The functions of POSIX that the tests use and WASI lacks. The file is included before each file
 * of the tests. Threads, forks, FIFOs and modes cannot be had here: their functions fail, and the
 * tests that need them are tagged "threads", "forks" or "posix" and left out. */
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

#define mkfifo(path, mode)       ((void)(path), errno = ENOSYS, -1)
#define fchdir(fd)               ((void)(fd), errno = ENOSYS, -1)
#define umask(mode)              ((void)(mode), 0)
#define mkstemp(path)            ((void)(path), errno = ENOSYS, -1)
#define waitpid(id, status, how) ((void)(status), errno = ECHILD, -1)
#define fork()                   (-1)
#define dup(fd)                  ((void)(fd), errno = ENOSYS, -1)
#define dup2(fd, to)             ((void)(fd), (void)(to), errno = ENOSYS, -1)

/* ---- functions of long double, which has 113 bits: musl computes these in double ---- */

#include <math.h>

static inline long double portable_expl(long double x) {
    if (!(fabsl(x) < 11000)) return exp((double)x);
    const long double k = rintl(x / 0.693147180559945309417232121458176568L),
                      r = (x - k * 0.693147180559945309417232121458176568L) / 64;
    long double sum = 1;
    for (int n = 18; n > 0; n--) sum = 1 + sum * r / n;
    for (int i = 0; i < 6; i++) sum *= sum;
    return scalbnl(sum, (int)k);
}

/* By Halley's rule, from the 53 bits of log. */
static inline long double portable_logl(long double x) {
    const long double y = log((double)x);
    if (!isfinite(y)) return y;
    const long double e = portable_expl(y);
    return y + 2 * (x - e) / (x + e);
}

static inline long double portable_powl(long double x, long double e) {
    if (x < 0 && e == rintl(e))
        return (fmodl(e, 2) != 0 ? -1 : 1) * portable_expl(e * portable_logl(-x));
    if (!(x > 0) || !isfinite(x) || !isfinite(e)) return pow((double)x, (double)e);
    return portable_expl(e * portable_logl(x));
}

/* 2 / sqrt(pi) sum (-1)^n x^(2n + 1) / (n! (2n + 1)), or Laplace's continued fraction */
static inline long double portable_erfcl(long double x) {
    const long double root_pi = 1.77245385090551602729816748334114518L;
    if (!isfinite(x)) return erfc((double)x);
    if (x < 0) return 2 - portable_erfcl(-x);
    if (x < 2) {
        long double sum = 0, term = x;
        for (int n = 0; n < 60; n++) {
            sum += term / (2 * n + 1);
            term *= -x * x / (n + 1);
        }
        return 1 - 2 / root_pi * sum;
    }
    long double tail = x;
    for (int n = 160; n > 0; n--) tail = x + n / 2.0L / tail;
    return portable_expl(-x * x) / (root_pi * tail);
}
#define expl  portable_expl
#define logl  portable_logl
#define powl  portable_powl
#define erfcl portable_erfcl

#endif
