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
 *    undo the rename then, and the error's message says so.
 *
 * Several files are replaced together by a set (set.h). */
#ifndef CTI_IO_FILE_H
#define CTI_IO_FILE_H

#include <cotangent/context.h>

#include "temporary.h"

/* The bytes of the longest name of a file of a set, with its NUL. The file is in the set's folder
 * ("config.json") or in a folder in it ("2_Dense/config.json"). */
enum { CTI_SET_NAME = 128 };

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

/* Sets *about to what is at the path, behind links. Only ENOENT and ENOTDIR mean that nothing is
 * there (CTI_OS_ABSENT). Any other failure is recorded as CT_ERR_IO, and the result is false. */
bool cti_file_find(ct_context *context, const char *op, const char *path, cti_os_about *about);

/* Opens a regular file to read; a path to anything else is an error. */
bool cti_file_open(ct_context *context, const char *op, const char *path, cti_file *file);
/* Reads exactly `size` bytes; a file that ends before them is an error. */
bool cti_file_read(const cti_file *file, int64_t offset, void *out, size_t size);
void cti_file_close(cti_file *file); /* may be called twice */

/* Returns folder + "/" + name, without a second slash, in a block of strlen + 1; NULL if memory is
 * short. */
char *cti_path_in(ct_context *context, const char *folder, const char *name);
void cti_path_free(ct_context *context, char *path); /* path may be NULL */
/* The folder of a path, without a separator behind it, in a block of strlen + 1; "." if the path
 * names none. NULL if memory is short. */
char *cti_path_folder(ct_context *context, const char *path);
/* Whether the text is the name of a file in a folder: no path to another folder. */
bool cti_path_is_name(const char *text);
/* The bytes of a name of a set's file that name its folder below the set's folder, with the "/": 0
 * for "config.json", 8 for "2_Dense/config.json". -1: the text is neither such name. */
int cti_path_below(const char *text);

/* A new content for path. The caller opens, writes, then commits or drops; an open or commit that
 * fails has dropped the new file itself. If path is a symbolic link, the file that the link points
 * to is replaced, and the temporary file lies in the folder of that file.
 *
 * The new file gets the permission bits of the old file (no set-user-ID, set-group-ID or sticky
 * bit), and its group and owner if the system allows it. If the system does not, the bits are
 * reduced so that no user gains access. Until commit only the owner can read a file that is to
 * replace another one. If there is no old file, the umask decides.
 *
 * While the context has an open set (cti_set_begin), a file in the set's folder belongs to it, and
 * so does one in a folder in that folder: its commit syncs it and hands it to the set, which
 * renames it. Its temporary file is in the set's folder. A set follows no link to a file: it puts
 * the new file in the place of the link. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    char *target;          /* path without symbolic links */
    char *temporary;       /* path of the temporary file */
    size_t capacity;       /* bytes of each of these two blocks */
    bool exists;           /* the temporary file is in the folder, and is removed by a drop */
    bool in_set;           /* it belongs to context->set */
    cti_lock lock;         /* the kind of the lock on the temporary file */
    bool replaces;         /* there is an old file */
    cti_os_about old;      /* the old file's kind and access, if `replaces` */
    int fd;                /* descriptor of the temporary file; -1 if it is not open */
    struct cti_crc64 *crc; /* CRC of all bytes written by cti_file_new_write; NULL if not wanted */
} cti_file_new;

bool cti_file_new_open(ct_context *context, const char *op, const char *path, cti_file_new *file);
/* Removes the temporary files of dead writers from the folder of `file`, unless it belongs to a
 * set, whose begin has done so. */
void cti_file_new_remove_dead(const cti_file_new *file);
bool cti_file_new_write(const cti_file_new *file, const void *data, size_t size);
/* Overwrites bytes that were written before. */
bool cti_file_new_write_at(const cti_file_new *file, int64_t offset, const void *data, size_t size);
bool cti_file_new_commit(cti_file_new *file);
void cti_file_new_drop(cti_file_new *file);

/* Replaces the content of path by these bytes. */
bool cti_file_write(ct_context *context, const char *op, const char *path, const void *data,
                    size_t size);

/* Syncs the folder of a path, so that the path's entry in it survives a power failure. */
bool cti_file_sync_folder(ct_context *context, const char *op, const char *path);

/* The files of a set. set.c commits them. */
typedef struct {
    cti_file_new file; /* the new content; all zero if the file is to be removed */
    char name[CTI_SET_NAME];
    bool removed;
} cti_set_member;
typedef struct cti_file_set {
    const char *folder;
    cti_set_member *member; /* [n] */
    int64_t n, room;
} cti_file_set;
/* Adds a member of zeros with this name; NULL if memory is short or the name too long. */
cti_set_member *cti_file_set_add(ct_context *context, const char *op, cti_file_set *set,
                                 const char *name);

#endif
