/* Temporary files. Each lies in the folder of the file that it is to replace. Its name is
 * ".cotangent-", 16 hex digits, ".tmp"; for a file of a set (set.h) the end is ".new".
 *
 * The steps of a save. The right column is the effect on its temporary file if another save looks
 * for files of dead writers after that step.
 *
 *     a save                                          the other save
 *     1 creates the file                              may lock it, and then removes it
 *     2 locks it                                      cannot lock it, so leaves it
 *     3 checks that the name is still its file; if
 *       not, or if 2 failed, goes back to 1
 *     4 looks for files of dead writers
 *     5 writes, syncs, renames it to the target       no longer finds its name
 *     6 closes it, which ends the lock
 *
 *     killed after 1 and before the rename: the       locks the file, checks that the name is still
 *     system ends the lock, the file stays            that file, removes it
 *
 * Invariants:
 * 1. A writer holds the lock from before its first write until after its file is renamed or
 *    removed. The system ends the lock when the process ends, however it ends.
 * 2. So a temporary file that can be locked has no living writer, also if the writer was on another
 *    machine of a network file system. Only such a file is removed.
 * 3. A save that removes such a file holds its own lock on it meanwhile.
 * 4. A file that another save locks or removes between steps 1 and 2 is empty: nothing is lost, and
 *    its writer takes another name.
 * 5. Closing a descriptor can end a CTI_LOCK_PROCESS that this process holds on the same file. With
 *    that kind of lock a save therefore opens no temporary file of its own process, which it
 *    recognises by the first 8 digits of the name.
 * 6. If the file system has no locks, the name ends in ".part" and no save ever removes the file.
 * 7. A record (journal.h) may name a file that ends in ".new" although its writer was killed. Only
 *    a save that holds the folder's lock, and has found no record, removes such a file. */
#ifndef CTI_IO_TEMPORARY_H
#define CTI_IO_TEMPORARY_H

#include "../os/os.h"

enum { CTI_TEMPORARY_NAME = 40 }; /* bytes of the longest name, with its NUL */

/* Creates and locks a file that is open for writing, for a set if `in_set` is true. Returns its
 * descriptor, or -1 with errno. The first `folder` bytes of path name the folder and end with its
 * separator; 0 means the current folder. The file's name, of up to CTI_TEMPORARY_NAME bytes with
 * its NUL, is written behind them. mode is reduced by the umask. *lock is the kind of the lock. */
int cti_temporary_open(char *path, size_t folder, unsigned mode, bool in_set, cti_lock *lock);

/* Removes the temporary files of dead writers from the folder of `path`; those of sets only if
 * `of_sets` is true. The caller has `path` open and locked, and `lock` is the kind of this lock.
 * The call reads a bounded number of the folder's entries and ignores errors. */
void cti_temporary_remove_dead(char *path, size_t folder, bool of_sets, cti_lock lock);

/* Whether this may be the name of a temporary file of a set. */
bool cti_temporary_is_of_set(const char *name);

#endif
