/* system.h on POSIX systems. */
#ifndef __LP64__
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS        64
#endif
#define _DARWIN_C_SOURCE /* ioctl's TIOCGWINSZ */
#define _DEFAULT_SOURCE  /* the same on Linux */
#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "system_unix_tmpl.h"

bool system_same_name(const char *a, const char *b) {
#ifdef __APPLE__
    return strcasecmp(a, b) == 0;
#else
    return strcmp(a, b) == 0;
#endif
}

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
        .sa_flags = SA_RESTART | (once ? (int)SA_RESETHAND : 0),
    };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A read that begins after the signal fails too. Without SA_RESTART only one that waits would. */
void system_end_input(void) { close(STDIN_FILENO); }

void system_die_of(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

void system_on_request(void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}

/* ---- paths ---- */

int system_lock_folder(const char *folder) {
    const int fd = cti_os_open_folder(folder);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
    close(fd);
    errno = EAGAIN;
    return -1;
}

/* ---- open files ---- */

int system_open_log(const char *path) {
    int fd;
    do fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

bool system_lock(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

bool system_cut(int fd, int64_t size) {
    int status;
    do status = ftruncate(fd, (off_t)size);
    while (status != 0 && errno == EINTR);
    return status == 0;
}
