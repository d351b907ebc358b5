/* The journal of a folder: the commit of a set of files as one step, and its completion after the
 * process was killed. set.h has the whole protocol.
 *
 * A folder in which a save is committed has two more files:
 *
 *     .cotangent-lock    is locked by the process that commits or completes; it is made for the
 *                        time of this lock
 *     .cotangent-save    the record: what is still to be done. It is text:
 *
 *         cotangent save 1
 *         .cotangent-0123456789abcdef.new model-00001-of-00002.safetensors
 *         - model.safetensors
 *         ...
 *         end
 *
 * A line has a temporary file and the name that it gets, or "-" and the name of a file that is
 * removed. All names are in the folder or in a folder in it (2_Dense/model.safetensors) that is no
 * link, so a record of a hostile folder reaches no file outside of it. */
#ifndef CTI_IO_JOURNAL_H
#define CTI_IO_JOURNAL_H

#include "file.h"

#define CTI_JOURNAL_RECORD ".cotangent-save"
#define CTI_JOURNAL_LOCK   ".cotangent-lock"

/* A member of the set: the name of its new content's temporary file, or NULL if the file is to be
 * removed; and its own name. */
typedef struct {
    const char *temporary, *name;
} cti_journal_step;

/* A folder that is locked. */
typedef struct {
    ct_context *context;
    const char *op, *folder, *what; /* what: for messages, the failure to lock it */
    char *record, *lock_path;       /* paths */
    char *from, *to;                /* [room] paths that a step uses */
    size_t room;
    int folder_fd; /* the open folder, to sync it */
    int fd;        /* of the lock's file; -1: not locked */
    cti_lock lock;
    bool turn; /* this thread holds the lock of its process too */
} cti_journal;

/* Locks the folder, waiting for another save's commit, and completes a save that was interrupted.
 * False: an error was recorded, and nothing is locked. */
bool cti_journal_open(ct_context *context, const char *op, const char *folder,
                      cti_journal *journal);
void cti_journal_close(cti_journal *journal);

/* Removes the temporary files of dead writers from the folder. */
void cti_journal_remove_dead(const cti_journal *journal);

/* Replaces the n files. *kept is set to whether the folder still has its old files. If so, the
 * temporary files still belong to the caller. If not, an error leaves the record, by which the next
 * open or save completes the set. */
bool cti_journal_commit(const cti_journal *journal, const cti_journal_step *step, int64_t n,
                        bool *kept);

/* Completes a save into the folder that was interrupted, if there is one. It needs one call of the
 * system if there is none. False: an error was recorded, as in a folder that cannot be written. */
bool cti_journal_settle(ct_context *context, const char *op, const char *folder);

#endif
