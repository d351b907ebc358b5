/* Files of a folder: small ones that are read whole, and copies. */
#ifndef CTI_MODELS_SMALL_FILE_H
#define CTI_MODELS_SMALL_FILE_H

#include <cotangent/types.h>

/* Reads a JSON file of at most 16 MiB into a block of *size + 1 bytes, with a NUL at its end. */
char *cti_lm_read_file(ct_context *context, const char *op, const char *path, size_t *size);
/* Sets *has to whether a folder has a file of this name. False: an error was recorded. */
bool cti_lm_has_file(ct_context *context, const char *op, const char *folder, const char *name,
                     bool *has);
/* Copies a file of the folder `from` to the folder `to`, whose set is open. If `from` is NULL or
 * lacks the file, it is removed from `to`. A file is not copied onto itself. A save that calls this
 * for each name leaves nothing of an older model that would be read as its own. */
bool cti_lm_mirror_file(ct_context *context, const char *op, const char *from, const char *to,
                        const char *name);

#endif
