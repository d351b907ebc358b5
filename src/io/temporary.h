/* Temporary files, beside the file that each is to replace: ".cotangent-", 16 hex digits, ".tmp".
 *
 * A writer holds a lock on its temporary file from the time it is made until it has its final name,
 * and the system ends the lock with the writer. So a temporary file whose lock can be had is
 * nobody's, whatever machine wrote it, and may be removed. */
#ifndef CTI_IO_TEMPORARY_H
#define CTI_IO_TEMPORARY_H

#include <stddef.h>
#include <sys/types.h>

enum { CTI_TEMPORARY_NAME = 32 }; /* bytes of the longest name, with its NUL */

typedef enum {
    /* the file system has no locks: the name then ends in ".part", and nobody removes it */
    CTI_LOCK_NONE,
    CTI_LOCK_DESCRIPTION, /* of the open file description: ends when the writer closes it */
    /* POSIX: ends when the writer's process closes any descriptor of the file */
    CTI_LOCK_PROCESS,
} cti_lock;

/* Makes a new file, open for writing, and writes its name at path + folder, where path has room for
 * CTI_TEMPORARY_NAME bytes; the first `folder` bytes are the folder with its slash, or none. mode
 * is reduced by the umask. -1 with errno: there is no file. */
int cti_temporary_open(char *path, size_t folder, mode_t mode, cti_lock *lock);

/* Removes the temporary files in the folder of `path`, an own one that is open, whose writers are
 * dead. Looks at a bounded number of entries. Whatever fails is left alone. */
void cti_temporary_remove_dead(char *path, size_t folder, cti_lock lock);

#endif
