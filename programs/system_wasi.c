/* system.h on WASI: no terminal's width, no signals, no locks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool system_same_name(const char *a, const char *b) { return strcmp(a, b) == 0; }

#include "system_unix_tmpl.h"

void system_begin(int argc, char **argv) { (void)argc, (void)argv; }

/* WebAssembly's linear memory never shrinks, so its size now is its maximum. */
double system_peak_memory(void) { return 65536.0 * (double)__builtin_wasm_memory_size(0); }

int system_columns(void) { return 0; }
void system_on_interrupt(void (*handler)(int), bool once) { (void)handler, (void)once; }
void system_end_input(void) {}
void system_die_of(int number) { (void)number; }
void system_on_request(void (*handler)(int)) { (void)handler; }

/* ---- open files ---- */

int system_open_log(const char *path) { return open(path, O_RDWR | O_APPEND | O_CREAT, 0666); }

int system_lock_folder(const char *folder) { return cti_os_open_folder(folder); }
bool system_lock(int fd) { return (void)fd, true; }
bool system_cut(int fd, int64_t size) { return ftruncate(fd, size) == 0; }
