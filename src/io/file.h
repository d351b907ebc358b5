/* Files: whole reads at an offset, and a write that a reader sees all of or nothing. */
#ifndef CTI_IO_FILE_H
#define CTI_IO_FILE_H

#include <sys/stat.h>

#include <cotangent/context.h>

#include "temporary.h"

/* Every function that fails records "op: path: what" with CT_ERR_IO and the system's words, or
 * CT_ERR_FORMAT for a file that ended early. op and path are the caller's and must live as long. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    int fd;
    int64_t size;
} cti_file;

/* an ordinary file, to read */
bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file);
bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size);
void cti_file_close(cti_file *file); /* twice is harmless */

/* A new content for path: written to a temporary file in the same folder, which takes path's place
 * at commit. Where path is a symbolic link, the file it points to is replaced. Open it, write, then
 * commit or drop; a failed open, or commit, has dropped.
 *
 * A file that is replaced hands on its mode, without set-user-ID and the like, and its group and
 * owner where that is allowed; where it is not, the mode is reduced so that nobody may read or
 * write what he could not before. A new file has what the umask leaves. Until commit only the owner
 * can read what replaces a file. Open also removes temporary files of writers that are dead. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    char *target;    /* path without symbolic links */
    char *temporary; /* in the same folder */
    size_t room;     /* of each of the two */
    bool exists;     /* the temporary file does */
    cti_lock lock;   /* of the temporary file */
    bool replaces;
    struct stat old; /* of what is replaced */
    int fd;
} cti_file_new;

bool cti_file_new_open(ct_context *context, const char *op, const char *path, cti_file_new *file);
bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size);
bool cti_file_new_commit(cti_file_new *file);
void cti_file_new_drop(cti_file_new *file);

#endif
