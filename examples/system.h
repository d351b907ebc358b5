/* Functions that differ between systems: arguments, terminals, signals, files. system_posix.c
 * implements them for Linux and macOS, system_windows.c for Windows, system_wasi.c for WebAssembly.
 * POSIX and WASI share system_unix_tmpl.h. Paths are UTF-8. A function that fails sets errno. */
#ifndef EXAMPLES_SYSTEM_H
#define EXAMPLES_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Call it first: makes arguments UTF-8, and output bytes that nothing converts. A write beyond a
 * limit of a file's size fails, where the system would end the program. */
void system_begin(int argc, char **argv);
double system_seconds(void);     /* seconds of a clock that never goes back */
double system_peak_memory(void); /* the most bytes that were resident; NaN: not known */

bool system_is_terminal(void); /* stdout */
int system_columns(void);      /* columns of the terminal; 0: not known */

/* Calls a handler at Ctrl-C or a request to end; once: the next one ends the program. */
void system_on_interrupt(void (*handler)(int), bool once);
void system_on_request(void (*handler)(int)); /* at SIGUSR1, or Ctrl-Break on Windows */

/* ---- paths ---- */
FILE *system_fopen(const char *path, const char *mode);
bool system_may_write_in(const char *folder);
bool system_make_folder(const char *path); /* EEXIST: something is there */
bool system_remove(const char *path);
bool system_rename(const char *from, const char *to); /* replaces what is there */
/* Calls each(to, name) for every name in the folder. False: it cannot be read. */
bool system_list(const char *folder, void (*each)(void *to, const char *name), void *to);
/* Syncs a folder, so that files made or renamed in it survive a loss of power. */
bool system_sync_folder(const char *folder);
/* Identifies the file that a path leads to, so that two paths can be compared. */
typedef struct {
    bool exists;
    uint64_t device, number;        /* identify the file, if it exists */
    bool in_folder;                 /* the next three are known */
    uint64_t folder_device, folder; /* identify the folder that has the file, or would have it */
    char name[256];                 /* the file's name in that folder */
} system_file;
/* Follows all links, also a link to a file that does not exist. path NULL: standard input. False if
 * the file is no ordinary file, or cannot be identified. */
bool system_find_file(const char *path, system_file *file);
bool system_find_folder(const char *path, system_file *file); /* sets its own as folder; no name */
bool system_same_file(const system_file *a, const system_file *b);
bool system_same_folder(const system_file *a, const system_file *b);
/* A descriptor that locks the folder until it is closed, or the process ends; no lock where the
 * file system has none. -1: the folder cannot be opened, or EAGAIN: another one has locked it. */
int system_lock_folder(const char *folder);

/* ---- open files ---- */
int system_open_log(const char *path); /* opens for reading and appending; makes a missing file */
bool system_look_at(int fd, bool *ordinary, int64_t *size);
/* A lock that ends with the process. False: another process has it. */
bool system_lock(int fd);
int64_t system_read_at(int fd, int64_t offset, void *out, size_t size);
int64_t system_write(int fd, const void *data, size_t size); /* bytes; -1: failed */
FILE *system_open_stream(int fd, const char *mode);          /* fclose closes the descriptor too */
bool system_cut(int fd, int64_t size);
bool system_sync(int fd);
bool system_close(int fd);

/* Makes a file beside `path`, to be renamed to it, with the mode that path has, or that a new file
 * gets. Sets target, which is path without links (on Windows path itself), and temporary, each of
 * at most `room` bytes. -1: failed, with errno 0 where path is no ordinary file. */
int system_create_beside(const char *path, char *target, char *temporary, size_t room);
bool system_is_separator(char c);

#endif
