/* What programs need of the system. The library's own services are in ../src/os/os.h: the clock,
 * folders, reads and writes. Programs call them, and system.c makes some more of them. The rest is
 * in system_posix.c for Linux and macOS, system_windows.c for Windows, system_wasi.c for
 * WebAssembly; POSIX and WASI share system_unix_tmpl.h. Paths are UTF-8. A descriptor is one of
 * os.h, also on Windows. A function that fails sets errno. */
#ifndef PROGRAMS_SYSTEM_H
#define PROGRAMS_SYSTEM_H

#include "../src/os/os.h"

/* The program calls this first. It converts the arguments to UTF-8, and makes the system write the
 * bytes of the output unchanged. From now on a write beyond the limit of a file's size fails
 * instead of ending the program. */
void system_begin(int argc, char **argv);
double system_peak_memory(void); /* the maximum of resident bytes so far; NaN: not known */

bool system_is_terminal(void); /* whether stdout is a terminal */
bool system_input_is_terminal(void);
int system_columns(void); /* the columns of the terminal; 0: not known */

/* Installs a handler for Ctrl-C or a request to end. With `once` it handles only the first of them,
 * and the next one ends the program. */
void system_on_interrupt(void (*handler)(int), bool once);
/* Ends the input: a read of stdin that waits fails, and so does each later one. A handler may call
 * it. On Windows Ctrl-C itself ends a read that waits. */
void system_end_input(void);
/* Ends the program as the signal does that has no handler; a handler may call it. */
void system_die_of(int number);
void system_on_request(void (*handler)(int)); /* for SIGUSR1, or Ctrl-Break on Windows */

/* ---- paths ---- */
FILE *system_fopen(const char *path, const char *mode);
bool system_may_write_in(const char *folder);
bool system_remove_folder(const char *path); /* an empty one */
/* Calls each(to, name) for every name in the folder. Returns false if it cannot be read. */
bool system_list(const char *folder, void (*each)(void *to, const char *name), void *to);
/* Syncs a folder, so that files made or renamed in it survive a power failure. */
bool system_sync_folder(const char *folder);
/* Locks a folder and returns a descriptor; the lock ends when the descriptor is closed or the
 * process ends. If the file system has no locks, nothing is locked. Returns -1 if the folder cannot
 * be opened, or with errno EAGAIN if another process has locked it. */
int system_lock_folder(const char *folder);

/* Identifies the file that a path leads to, so that two paths can be compared. */
typedef struct {
    bool exists;
    uint64_t device, number;        /* identify the file, if it exists */
    bool in_folder;                 /* whether the next three fields are known */
    uint64_t folder_device, folder; /* identify the folder that has the file, or would have it */
    char name[256];                 /* the file's name in that folder */
} system_file;
/* Identifies a file. Follows all links, even a link to a file that does not exist. If path is NULL,
 * the file is standard input. Returns false if it is not a regular file or cannot be identified. */
bool system_find_file(const char *path, system_file *file);
bool system_find_folder(const char *path, system_file *file); /* sets the folder's own numbers, and
                                                               * no name */
bool system_same_file(const system_file *a, const system_file *b);
bool system_same_folder(const system_file *a, const system_file *b);
/* Whether these are names of one file in a folder. On macOS and Windows, names that differ only by
 * upper and lower case are. */
bool system_same_name(const char *a, const char *b);
/* Replaces a path whose last part is a symbolic link by the path that the link stands for. Returns
 * false if it is not a link or the new path is too long. Windows follows links when it opens. */
bool system_follow_link(char *path, size_t room);

/* ---- open files ---- */
int system_standard_input(void);
int system_open_log(const char *path); /* opens for reading and appending; makes a missing file */
/* Locks the file until the process ends. Returns false if another process has locked it. */
bool system_lock(int fd);
FILE *system_open_stream(int fd, const char *mode); /* fclose closes the descriptor too */
bool system_cut(int fd, int64_t size);
bool system_sync(int fd); /* what is no regular file, such as a pipe, needs no sync */

/* Creates a file in the folder of `path`, which the caller will rename to the target. Its mode is
 * the mode of an existing file at path, or the mode of a new file. Sets target, which is path
 * without links, and temporary, each of at most `room` bytes. Returns -1 after a failure, with
 * errno 0 if path is not a regular file. */
int system_create_beside(const char *path, char *target, char *temporary, size_t room);

#endif
