/* The services of an operating system that the library uses: cores and caches, memory, clocks,
 * threads, paths and files. Only the files of this folder include headers of a system; all other
 * code of the library is C11 with extensions of GCC and clang.
 *
 *     os_posix.c       Linux, macOS and other POSIX systems
 *     os_wasi.c        WebAssembly with WASI preview 1
 *     os_unix.c        the functions that are the same on POSIX systems and WASI
 *     os_windows*.c    Windows 10 and later
 *
 * Every implementation guarantees:
 *
 * 1. A path is UTF-8. The content of a file is bytes: no line end is translated.
 * 2. If a function for paths, files or text fails, errno has the reason, a value of POSIX. The
 *    functions for threads, cti_os_still_named and cti_os_folder_remove_unlocked may fail without a
 *    reason.
 * 3. An open, a read, a write or a sync that a signal interrupts is repeated. A sleep that a signal
 *    interrupts ends early.
 * 4. A descriptor is not inherited by a program that this process starts.
 * 5. A lock on a file ends at the latest when every process that has the file open has ended,
 *    however the processes end.
 * 6. No function uses a context.
 *
 * These properties differ:
 *
 *                          POSIX                   Windows                 WASI
 *     threads              yes                     yes                     none can be started
 *     forks                counted                 do not exist            do not exist
 *     huge pages           on Linux                no                      no
 *     discarded pages      on Linux                no                      no
 *     rename over a file   in one step             in one step on NTFS,    by the runtime
 *                                                  else in two steps
 *     sync of a folder     yes                     EINVAL: the system      EINVAL if the runtime
 *                                                  does it by itself       cannot
 *     access of a file     mode, owner, group      access control list     none
 *     lock                 on the file, if the     the open file itself    none
 *                          file system has locks */
#ifndef CTI_OS_OS_H
#define CTI_OS_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- the machine and the process ---- */

int cti_os_cores(void);        /* the number of cores that this process may use; at least 1 */
int64_t cti_os_l2_bytes(void); /* the size of a core's L2 cache; 0 if it is not known */
int64_t cti_os_l1d_ways(void); /* the associativity of a core's L1d cache; 0 if not known */
int64_t cti_os_now(void);      /* nanoseconds of a clock that never moves backward */
/* Lets other threads use the core for `ns` nanoseconds, less than 1 s. With 0 the system chooses
 * the time; it may be none. */
void cti_os_sleep(int64_t ns);
uint64_t cti_os_process(void); /* the number of the process; on WASI a random number */
uint64_t cti_os_entropy(void); /* bits of the time of day, which differ from call to call */
int64_t cti_os_time(void);     /* seconds since the beginning of 1970, in UTC */

/* A date and a time of day. */
typedef struct {
    int64_t year;
    int month, day, hour, minute, second; /* month and day from 1 on */
    int week_day, year_day;               /* days since Sunday, and since the 1st of January */
} cti_os_date;
/* The local date of a time. Returns false if the system knows none, for a far year. */
bool cti_os_local_date(int64_t time, cti_os_date *date);

/* Begins to count the forks of the process. Returns false if the system refuses. */
bool cti_os_count_forks(void);
/* The number of forks since the count began: 0 in the process that began it, 1 in its child. */
unsigned cti_os_forks(void);

/* Requests the registers of AMX's tiles for this process. Returns false if the system refuses. */
bool cti_os_grants_amx(void);
/* Whether XCR0 has the bits of AVX-512's registers only after a thread has used the registers. */
bool cti_os_saves_avx512_late(void);

/* ---- memory ---- */

/* These work as malloc and free do. A block of 2 MiB or more lies in huge pages if the system has
 * them. */
void *cti_os_alloc(size_t size);
void cti_os_free(void *block);
/* Gives the pages that lie wholly in this memory back to the system. The block keeps its addresses,
 * and its content is undefined. Returns whether the pages no longer count as the process's memory:
 * false if there is no whole page, or if the system cannot do it. */
bool cti_os_discard(void *memory, size_t size);

/* ---- threads ---- */

/* .opaque holds the system's own object. It has 64 bytes on every system, also on one with pointers
 * of 4 bytes. */
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

/* Starts a thread that runs work(arg). On POSIX systems the thread blocks all signals except
 * SIGSEGV, SIGBUS, SIGFPE and SIGILL. *thread must stay at its address until the thread is joined.
 * Returns false if the system refuses. */
bool cti_thread_start(cti_thread *thread, void (*work)(void *arg), void *arg);
void cti_thread_join(const cti_thread *thread);

/* cti_once_run runs the function at the first call with this object. Every call returns when the
 * function has run. */
typedef struct {
    _Atomic intptr_t state; /* 0 before the first call */
} cti_once;
void cti_once_run(cti_once *once, void (*run)(void));

/* ---- paths ---- */

/* The number of bytes of a path that name its folder, with the separator; 0 if it names none. */
size_t cti_os_folder_length(const char *path);
bool cti_os_is_separator(char c);
/* Whether the path is absolute, so that it does not depend on the current folder. */
bool cti_os_is_absolute(const char *path);
/* Writes the path of the current folder, at most `room` bytes with its NUL. errno is ERANGE if the
 * path does not fit but might fit in more room. */
bool cti_os_current_folder(char *out, size_t room);
/* Writes the path without links; out has room for CTI_OS_PATH bytes. */
bool cti_os_real_path(const char *path, char *out);
enum { CTI_OS_PATH = 4096 };

/* ---- properties of a path or an open file ---- */

/* CTI_OS_ABSENT: there is nothing at the path. Only cti_file_find (io/file.h) sets it. */
typedef enum {
    CTI_OS_FILE,
    CTI_OS_FOLDER,
    CTI_OS_LINK,
    CTI_OS_OTHER,
    CTI_OS_ABSENT,
} cti_os_kind;

typedef struct {
    cti_os_kind kind;
    int64_t size;
    /* Two files with equal device and number are the same file, provided that one is open. */
    uint64_t device, number;
    int64_t modified_s, modified_ns; /* the time of the last change */
    /* permission bits, user and group; on Windows 0600 and 0, on WASI 0 */
    uint32_t mode, owner, group;
} cti_os_about;

bool cti_os_about_file(int fd, cti_os_about *about);
bool cti_os_about_path(const char *path, cti_os_about *about);
bool cti_os_about_link(const char *path,
                       cti_os_about *about); /* about a link itself, not its target */

/* ---- files ---- */

/* These return a descriptor, or -1 if they fail. */

/* Opens a file to read. It does not wait for a writer of a FIFO. */
int cti_os_open(const char *path);
int cti_os_open_folder(const char *path); /* errno is ENOTDIR if the path is not a folder */
/* Makes a new file to write. The umask reduces `mode`. errno is EEXIST if the path exists. */
int cti_os_create(const char *path, unsigned mode);
void cti_os_close(int fd);

/* These return the number of bytes that they have read or written, which may be less than `size`; a
 * read at the end of the file returns 0. They return -1 if they fail. */
int64_t cti_os_read_at(int fd, int64_t offset, void *out, size_t size);
int64_t cti_os_write(int fd, const void *data, size_t size);
int64_t cti_os_write_at(int fd, int64_t offset, const void *data, size_t size);

/* Syncs a file or a folder. errno is EINVAL if the file system cannot sync it. */
bool cti_os_sync(int fd);
/* Gives the open file the access rights of the old file at `path`, if the system allows it:
 * permission bits, owner and group, or the access control list. No user gains access. Returns NULL,
 * or a text that names the failure. */
const char *cti_os_keep_access(int fd, const char *path, const cti_os_about *old);

bool cti_os_rename(const char *from, const char *to); /* replaces `to`, even while it is read */
bool cti_os_remove(const char *path);                 /* removes a file */
bool cti_os_make_folder(const char *path);            /* errno is EEXIST if the path exists */

/* Writes the system's text for errno. */
void cti_os_error(char *words, size_t size);

/* ---- text in memory ---- */

/* A stream that collects text in memory. cti_os_text_close closes it and sets .text, which the
 * caller frees by free(), even if false is returned. */
typedef struct {
    FILE *file;
    char *text;
    size_t size;
} cti_os_text;
bool cti_os_text_open(cti_os_text *out);
bool cti_os_text_close(cti_os_text *out);

/* ---- locks, and the unlocked files of a folder ---- */

typedef enum {
    CTI_LOCK_NONE,        /* no lock: the file system has none */
    CTI_LOCK_DESCRIPTION, /* a lock that ends when the open file description is closed */
    CTI_LOCK_PROCESS,     /* a lock that ends when the process closes any descriptor of the file */
} cti_lock;

/* Locks a new file by the best kind of lock that the file system has, and sets *lock to this kind.
 * Returns false if another process holds a lock on the file. */
bool cti_os_lock(int fd, cti_lock *lock);
/* Opens a file, which is made if it is missing, and locks it as cti_os_lock does. Returns -1 if it
 * fails; errno is EAGAIN while another process, or another thread, has the lock. With
 * CTI_LOCK_PROCESS and without locks, threads of one process do not exclude each other. */
int cti_os_lock_path(const char *path, cti_lock *lock);
/* Removes the file and ends its lock. */
void cti_os_unlock_path(int fd, const char *path);
/* Whether `path` is still the regular file that is open as fd. */
bool cti_os_still_named(int fd, const char *path);

typedef struct cti_os_folder cti_os_folder;
/* Opens a folder to list it; "" is the current folder. Returns NULL if it fails. */
cti_os_folder *cti_os_folder_open(const char *path);
/* Returns the next name in the folder, or NULL after the last. */
const char *cti_os_folder_next(cti_os_folder *folder);
/* Removes a regular file that no process has locked by this kind of lock. Returns whether it did.
 */
bool cti_os_folder_remove_unlocked(cti_os_folder *folder, const char *name, cti_lock lock);
void cti_os_folder_close(cti_os_folder *folder);

#endif
