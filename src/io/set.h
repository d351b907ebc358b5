/* Sets: files of a folder, and of folders in it, that belong together and are replaced as one, such
 * as the shards of a model and their index; config.json, weights, tokenizer and
 * 2_Dense/model.safetensors; an adapter and its config.
 *
 * The last file of a set is its head: no program opens the set without it (the index, config.json,
 * adapter_config.json, tokenizer.json). These are the steps of a save (set.c, journal.c). The
 * columns on the right have the set that is found after each step: by an open or a save of this
 * library at this moment or after the process was killed, and by another program.
 *
 *     step                                                     library    another program
 *     1 make the folder if it is missing
 *     2 write and sync each file under a temporary name        old        old
 *     3 lock the folder
 *     4 make folders in it, sync, write the record, sync       new        old
 *     5 remove the old files, the head first                   new        old, then none
 *     6 rename the new files, the head last                    new        none, then new
 *     7 remove the record                                      new        new
 *     8 unlock the folder
 *
 * An open or a save that finds a record waits for the lock of the folder. The lock of a live
 * process ends with step 8. If the process has ended, the open or save has the lock itself and does
 * steps 5 to 8.
 *
 * The reading of a set:
 *
 *     a if there is a record, wait for the lock and do steps 5 to 8
 *     b open the heads
 *     c read all files
 *     d check that there is no record and that the heads are still the same files; if not, go back
 *       to a, at most 4 times
 *
 * Invariants:
 * 1. The record is renamed into place, after the temporary files were synced with their names. So
 *    there is no record, or a whole one, and then all new content is on the disk.
 * 2. While there is no record, no file of the folder has changed since the last one was removed, so
 *    the old set is whole. A save that fails in steps 1 to 4 leaves it. These steps write all
 *    bytes, so a full disk fails in them.
 * 3. While there is a record, the folder has of each file the temporary one or the new one. Steps 5
 *    and 6 can begin anew from any state: a file is removed only while its temporary file is there,
 *    and a temporary file that is gone was renamed.
 * 4. An old and a new file that the save replaces are never in the folder together: all of step 5
 *    comes before step 6, with a sync between them.
 * 5. Only a process that holds the lock of the folder makes or removes a record, does steps 5 and
 *    6, or removes a temporary file of a set. So saves at the same time are one after another, and
 *    the last one's set is whole.
 * 6. A head that was removed never comes back, and no other file can have its inode number while
 *    the reading has it open. So if d finds no record and the same heads, no save has replaced them
 *    during c.
 * 7. A failure in steps 5 to 7 is an error of the save, and leaves the record: the next open or
 *    save completes the set. If the first removal has failed, the record is taken back: the old
 *    set stays.
 * 8. A folder that cannot be written opens as any other while it has no record. With a record the
 *    open is an error that names it.
 *
 * If the file system has no locks, only one save at a time may write into a folder. Open files stay
 * readable after they were replaced or removed, so a reading needs no lock. */
#ifndef CTI_IO_SET_H
#define CTI_IO_SET_H

#include "file.h"

/* ---- saving ---- */

typedef struct {
    cti_file_set files;
    ct_context *context;
    const char *op;
    cti_file_set *outer; /* the set that the context had before */
    bool joins;          /* the files belong to the outer set */
} cti_set;

/* Begins a set: makes the folder, completes an interrupted save into it, and removes the temporary
 * files of dead writers. From now on every cti_file_new in this folder belongs to the set, also in
 * other functions that save, such as ct_save. `folder` and *set stay in place until the end. A set
 * that is begun while the context has one of the same folder becomes a part of it. */
bool cti_set_begin(ct_context *context, const char *op, const char *folder, cti_set *set);
/* Removes a file of the folder, if it is there, when the set of the context is committed. */
bool cti_set_remove(ct_context *context, const char *op, const char *name);
/* Whether a file of the set of the context was committed to it, or is to be removed by it. */
bool cti_set_has_file(const ct_context *context, const char *name);
/* Commits the files in the order in which they were committed to the set: the head is the last. If
 * `ok` is false it drops them. Returns whether they were committed. */
bool cti_set_end(cti_set *set, bool ok);

/* ---- reading ---- */

enum { CTI_SET_HEADS = 2 };

/* A reading of the files of a folder. The caller sets the first four fields:
 *
 *     bool again = true, ok = false;
 *     while (again && cti_set_read_begin(&reading)) {
 *         ok = ...;
 *         ok = cti_set_read_end(&reading, ok, &again);
 *         if (!ok) (free what was read)
 *     } */
typedef struct {
    ct_context *context;
    const char *op, *folder;
    const char *head[CTI_SET_HEADS]; /* names; the second may be NULL */
    int fd[CTI_SET_HEADS];           /* the open heads; -1: it was not there */
    int attempts;
    bool pending; /* an error was pending before the reading */
} cti_set_reading;

/* Steps a and b. False: an error was recorded. */
bool cti_set_read_begin(cti_set_reading *reading);
/* Step d; `ok` says whether step c has succeeded, and the result whether all has. If *again is set,
 * the set was replaced meanwhile, and the error of step c is cleared. */
bool cti_set_read_end(cti_set_reading *reading, bool ok, bool *again);

/* Completes an interrupted save into a folder, or into the folder of a path, before a single file
 * is read or replaced there. */
bool cti_set_settle_folder(ct_context *context, const char *op, const char *folder);
bool cti_set_settle(ct_context *context, const char *op, const char *path);

#endif
