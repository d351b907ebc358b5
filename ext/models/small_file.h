/* Small files of a folder, which are read whole. */
#ifndef CTI_MODELS_SMALL_FILE_H
#define CTI_MODELS_SMALL_FILE_H

#include <cotangent/types.h>

/* Reads a JSON file of at most 16 MiB into a block of *size + 1 bytes, with a NUL at its end. */
char *cti_lm_read_file(ct_context *context, const char *op, const char *path, size_t *size);

#endif
