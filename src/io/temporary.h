/* Temporary files, in the folder of the file that each is to replace: ".cotangent-", 16 hex digits,
 * ".tmp".
 *
 * A writer holds a lock on its temporary file until the rename, and the system ends the lock when
 * the process ends. So a temporary file that can be locked belongs to a dead writer, even one on
 * another machine of a network file system, and may be removed. Where the file system has no locks,
 * the name ends in ".part", and the file is never removed. */
#ifndef CTI_IO_TEMPORARY_H
#define CTI_IO_TEMPORARY_H

#include "../os/os.h"

enum { CTI_TEMPORARY_NAME = 40 }; /* bytes of the longest name, with its NUL */

/* Creates a file open for writing; returns its descriptor, or -1 with errno. The first `folder`
 * bytes of path are the folder with its slash, or none; the file's name is written behind them, up
 * to CTI_TEMPORARY_NAME bytes. mode is reduced by the umask. */
int cti_temporary_open(char *path, size_t folder, unsigned mode, cti_lock *lock);

/* Removes temporary files of dead writers in the folder of `path`, which is the caller's own
 * temporary file, open. Reads a bounded number of entries; ignores errors. */
void cti_temporary_remove_dead(char *path, size_t folder, cti_lock lock);

#endif
