/* Files: reading at an offset, and atomic replacement.
 *
 * A replacement takes these steps. The columns on the right say whether path has the old or the new
 * content after each step: for a reader at this moment, after this process is killed, and after a
 * power failure.
 *
 *     function             step                                 reader   killed   power failed
 *     cti_file_new_open    creates and locks a temporary file   old      old      old
 *     cti_file_new_write   writes to it                         old      old      old
 *     cti_file_new_commit  sets its access, syncs it            old      old      old
 *                          renames it to path                   new      new      old or new
 *                          syncs the folder                     new      new      new
 *
 * Invariants:
 * 1. path changes only by the rename, so it names a complete content at every moment.
 * 2. The temporary file is synced before the rename, so the new content is on the disk before its
 *    name can be.
 * 3. The temporary file is locked from its creation until the rename (temporary.h). A killed
 *    process leaves it unlocked, and a later save into the folder removes it.
 * 4. After an error before or in the rename, path has its old content and the temporary file is
 *    removed. After an error in the last step, path has the new content; only a power failure can
 *    undo the rename then, and the error's message says so. */
#ifndef CTI_IO_FILE_H
#define CTI_IO_FILE_H

#include <cotangent/context.h>

#include "temporary.h"

/* A file that is open to read. A function that fails records "op: path: the failed action: the
 * system's message" as CT_ERR_IO, or CT_ERR_FORMAT if the file ends early. op and path belong to
 * the caller and must outlive this struct. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    int fd;
    int64_t size;
} cti_file;

/* Records the message "op: path: `what`: the system's text for errno" as CT_ERR_IO. Returns false.
 */
bool cti_file_fail(ct_context *context, const char *op, const char *path, const char *what);

/* Opens a regular file to read; a path to anything else is an error. */
bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file);
/* Reads exactly `size` bytes; a file that ends before them is an error. */
bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size);
void cti_file_close(cti_file *file); /* may be called twice */

/* A new content for path. The caller opens, writes, then commits or drops; an open or commit that
 * fails has dropped the new file itself. If path is a symbolic link, the file that the link points
 * to is replaced, and the temporary file lies in the folder of that file.
 *
 * The new file gets the permission bits of the old file (no set-user-ID, set-group-ID or sticky
 * bit), and its group and owner if the system allows it. If the system does not, the bits are
 * reduced so that no user gains access. Until commit only the owner can read a file that is to
 * replace another one. If there is no old file, the umask decides. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    char *target;          /* path without symbolic links */
    char *temporary;       /* path of the temporary file */
    size_t capacity;       /* bytes of each of these two blocks */
    bool exists;           /* the temporary file is in the folder */
    cti_lock lock;         /* the kind of the lock on the temporary file */
    bool replaces;         /* there is an old file */
    cti_os_about old;      /* the old file's kind and access, if `replaces` */
    int fd;                /* descriptor of the temporary file; -1 if it is not open */
    struct cti_crc64 *crc; /* CRC of all bytes written by cti_file_new_write; NULL if not wanted */
} cti_file_new;

bool cti_file_new_open(ct_context *context, const char *op, const char *path, cti_file_new *file);
/* Removes the temporary files of dead writers from the folder of `file`. A save of several files
 * calls this once, while only its first file exists: if the file system's locks are faulty, the
 * call could remove other files of the same save. */
void cti_file_new_remove_dead(const cti_file_new *file);
bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size);
/* Overwrites bytes that were written before. */
bool cti_file_new_write_at(const cti_file_new *file, int64_t offset, const void *data, size_t size);
/* Syncs the bytes written so far. Commit syncs too, and is quick after this call. */
bool cti_file_new_sync(const cti_file_new *file);
bool cti_file_new_commit(cti_file_new *file);
void cti_file_new_drop(cti_file_new *file);

/* Syncs the folder of a path, so that the path's entry in it survives a power failure. */
bool cti_file_sync_folder(ct_context *context, const char *op, const char *path);
/* Removes a file, and syncs its folder. */
bool cti_file_remove(ct_context *context, const char *op, const char *path);

#endif
