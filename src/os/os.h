/* What differs between systems: cores and caches, memory, clocks, threads, files. os_posix.c
 * implements it for Linux and macOS, os_wasi.c for WebAssembly, os_unix.c what these share;
 * os_windows*.c for Windows. Everything else in the library is C11 and includes no header of a
 * system.
 *
 * Paths are UTF-8 on every system. A function that fails sets errno. Calls that a signal interrupts
 * are repeated. */
#ifndef CTI_OS_OS_H
#define CTI_OS_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- the machine and the process ---- */

int cti_os_cores(void);        /* that this process may use; at least 1 */
int64_t cti_os_l2_bytes(void); /* of a core's L2 cache; 0: not known */
int64_t cti_os_l1d_ways(void); /* associativity of a core's L1d cache; 0: not known */
int64_t cti_os_now(void);      /* nanoseconds of a clock that only moves forward */
/* Lets others have the core for so many nanoseconds, below 1 s, or as the system sees fit: 0. */
void cti_os_sleep(int64_t ns);
uint64_t cti_os_process(void); /* the process's number */
uint64_t cti_os_entropy(void); /* from the time of day, so that it differs from call to call */

/* Begins to count the forks of the process. False: the system refuses. */
bool cti_os_count_forks(void);
/* How many forks lie between this process and the one that began to count. */
unsigned cti_os_forks(void);

/* Whether both addresses lie on the stack that the system has given to this thread. False: one does
 * not, such as a place on a stack that the program has made itself, or the system does not say. */
bool cti_os_on_stack(uintptr_t a, uintptr_t b);

/* Asks for the registers of AMX's tiles. False: the system does not grant them to this process. */
bool cti_os_grants_amx(void);
/* Whether XCR0 names AVX-512's registers only after a thread has used them. */
bool cti_os_saves_avx512_late(void);

/* ---- memory ---- */

/* Like malloc and free; from 2 MiB on in huge pages where the system has them. */
void *cti_os_alloc(size_t size);
void cti_os_free(void *block);

/* ---- threads ---- */

/* The system's own objects lie in .opaque: up to 64 bytes, also where a pointer has 4. */
typedef struct {
    uint64_t opaque[8];
} cti_mutex, cti_cond;
typedef struct {
    void *opaque;
    void (*work)(void *arg);
    void *arg;
} cti_thread;

bool cti_mutex_init(cti_mutex *mutex);
void cti_mutex_lock(cti_mutex *mutex);
void cti_mutex_unlock(cti_mutex *mutex);
void cti_mutex_free(cti_mutex *mutex);

bool cti_cond_init(cti_cond *cond);
void cti_cond_wait(cti_cond *cond, cti_mutex *mutex); /* may return without a signal */
void cti_cond_signal(cti_cond *cond);
void cti_cond_broadcast(cti_cond *cond);
void cti_cond_free(cti_cond *cond);

/* Starts a thread that runs work(arg). It blocks all signals except SIGSEGV, SIGBUS, SIGFPE and
 * SIGILL. *thread must not move until it is joined. False: the system refuses. */
bool cti_thread_start(cti_thread *thread, void (*work)(void *arg), void *arg);
void cti_thread_join(const cti_thread *thread);

/* Runs a function at the first call, and returns when it has run. */
typedef struct {
    _Atomic intptr_t state; /* 0 at first */
} cti_once;
void cti_once_run(cti_once *once, void (*run)(void));

/* ---- paths ---- */

/* How many bytes of a path name its folder, with the separator; 0: none. */
size_t cti_os_folder_length(const char *path);
bool cti_os_is_separator(char c);
/* Whether no folder can be put before it. */
bool cti_os_is_absolute(const char *path);
/* Each writes a path of at most `room` bytes with its NUL. ERANGE: it is longer. */
bool cti_os_current_folder(char *out, size_t room);
/* The path without links; out has room for CTI_OS_PATH bytes. */
bool cti_os_real_path(const char *path, char *out);
enum { CTI_OS_PATH = 4096 };

/* ---- what a path or an open file is ---- */

typedef enum { CTI_OS_FILE, CTI_OS_FOLDER, CTI_OS_LINK, CTI_OS_OTHER } cti_os_kind;

typedef struct {
    cti_os_kind kind;
    int64_t size;
    uint64_t device, number; /* equal in both: the same file, while one of them is open */
    int64_t modified_s, modified_ns;
    uint32_t mode, owner, group; /* permission bits, user and group; 0 where there are none */
} cti_os_about;

bool cti_os_about_file(int fd, cti_os_about *about);
bool cti_os_about_path(const char *path, cti_os_about *about);
bool cti_os_about_link(const char *path, cti_os_about *about); /* a link itself, not its target */

/* ---- files: bytes, never text; a descriptor is not inherited by other programs ---- */

/* To read. Does not wait for a writer of a FIFO. -1: failed. */
int cti_os_open(const char *path);
int cti_os_open_folder(const char *path); /* ENOTDIR: it is no folder */
/* A new file, to write; mode is reduced by the umask. EEXIST: something is there. */
int cti_os_create(const char *path, unsigned mode);
void cti_os_close(int fd);

/* How many bytes were read or written, which may be fewer; 0: the end of the file. -1: failed. */
int64_t cti_os_read_at(int fd, int64_t offset, void *out, size_t size);
int64_t cti_os_write(int fd, const void *data, size_t size);
int64_t cti_os_write_at(int fd, int64_t offset, const void *data, size_t size);

bool cti_os_sync(int fd); /* of a file or a folder. EINVAL: the file system cannot sync it */
/* Gives the open file the access of another, at `path`: permission bits, owner and group, or an
 * access control list, where the system allows it; no user gains access. NULL, or what has failed.
 */
const char *cti_os_keep_access(int fd, const char *path, const cti_os_about *old);

bool cti_os_rename(const char *from, const char *to); /* replaces `to`, even while it is read */
bool cti_os_remove(const char *path);                 /* a file */
bool cti_os_make_folder(const char *path);            /* EEXIST: something is there */

/* The system's words for errno. */
void cti_os_error(char *words, size_t size);

/* ---- text in memory ---- */

/* A stream that gathers text. Close ends it and sets .text, for free(), also if it returns false.
 */
typedef struct {
    FILE *file;
    char *text;
    size_t size;
} cti_os_text;
bool cti_os_text_open(cti_os_text *out);
bool cti_os_text_close(cti_os_text *out);

/* ---- locks, and the files in a folder that nobody locks ---- */

typedef enum {
    CTI_LOCK_NONE,        /* the file system has no locks */
    CTI_LOCK_DESCRIPTION, /* ends when the open file description is closed */
    CTI_LOCK_PROCESS,     /* ends when the process closes any descriptor of the file */
} cti_lock;

/* Locks a new file by the best kind of lock that the file system has; *lock is that kind. False:
 * another process holds a lock. The lock ends with the process, however that ends. */
bool cti_os_lock(int fd, cti_lock *lock);
/* Whether `path` is still the regular file that is open as fd. */
bool cti_os_still_named(int fd, const char *path);

typedef struct cti_os_folder cti_os_folder;
cti_os_folder *cti_os_folder_open(const char *path);   /* "": the current folder. NULL: failed */
const char *cti_os_folder_next(cti_os_folder *folder); /* a name in it; NULL: no more */
/* Removes a regular file that no process has locked by this kind of lock. */
bool cti_os_folder_remove_unlocked(cti_os_folder *folder, const char *name, cti_lock lock);
void cti_os_folder_close(cti_os_folder *folder);

#endif
