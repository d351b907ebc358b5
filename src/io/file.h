/* Files: reading at an offset, and atomic replacement, after which a reader sees the old content or
 * the new. */
#ifndef CTI_IO_FILE_H
#define CTI_IO_FILE_H

#include <cotangent/context.h>

#include "temporary.h"

/* Every function that fails records "op: path: what: the system's message" as CT_ERR_IO, or as
 * CT_ERR_FORMAT if the file ends early. op and path are the caller's; they must outlive this. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    int fd;
    int64_t size;
} cti_file;

/* Records "op: path: what: the message of errno" as CT_ERR_IO; false. */
bool cti_file_fail(ct_context *context, const char *op, const char *path, const char *what);

/* Opens a regular file to read; anything else is an error. */
bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file);
bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size);
void cti_file_close(cti_file *file); /* may be called twice */

/* A new content for path. It is written to a temporary file in the same folder, which is renamed to
 * path at commit; if path is a symbolic link, to the file that it points to. Open, write, then
 * commit or drop. An open or commit that fails drops by itself.
 *
 * The new file gets the old one's permission bits (no set-user-ID, set-group-ID or sticky bit),
 * and its group and owner if the system allows it. If not, the bits are reduced so that no user
 * gains access. Until commit only the owner can read it. Where there was no file, the umask
 * applies. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    char *target;    /* path without symbolic links */
    char *temporary; /* in the same folder */
    size_t capacity; /* bytes of each of the two */
    bool exists;     /* the temporary file is in the folder */
    cti_lock lock;   /* on the temporary file */
    bool replaces;   /* there is an old file */
    cti_os_about old;
    int fd;                /* of the temporary file; -1: not open */
    struct cti_crc64 *crc; /* of all that was written, but for write_at; or NULL */
} cti_file_new;

bool cti_file_new_open(ct_context *context, const char *op, const char *path, cti_file_new *file);
/* Removes temporary files of dead writers from its folder. A save of several files does so once:
 * where locks are not what they should be, its own files could be taken for dead. */
void cti_file_new_remove_dead(const cti_file_new *file);
bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size);
/* Writes over what was written. */
bool cti_file_new_write_at(const cti_file_new *file, int64_t offset, const void *data, size_t size);
/* Syncs what was written, which commit does too; so that commit is quick. */
bool cti_file_new_sync(const cti_file_new *file);
bool cti_file_new_commit(cti_file_new *file);
void cti_file_new_drop(cti_file_new *file);

/* Syncs the folder of a path, so that the path's entry in it stays. */
bool cti_file_sync_folder(ct_context *context, const char *op, const char *path);
/* Removes a file, and syncs its folder. */
bool cti_file_remove(ct_context *context, const char *op, const char *path);

#endif
