/* A file of token ids, with or without llm.c's header. It must not change between the open and the
 * last read: each read checks that. */
#ifndef CTI_EXT_DATA_TOKEN_FILE_H
#define CTI_EXT_DATA_TOKEN_FILE_H

#include "../../src/io/file.h"

typedef struct {
    cti_file file;      /* .fd is -1 while the file is closed */
    char *path;         /* an absolute path */
    int bytes;          /* size of an id, 2 or 4 */
    int64_t data;       /* the offset of the first id */
    int64_t ids;        /* number of ids */
    cti_os_about about; /* size, identity and time of change at cti_token_file_open */
} cti_token_file;

/* Opens the file and checks its header and size; bytes is 2, 4 or 0, as in ct_tokens_opts. False:
 * an error was recorded, and there is nothing to free. */
bool cti_token_file_open(ct_context *context, const char *path, int bytes, cti_token_file *file);

/* Reads ids [first, first + count), which the file must have, into out: count * file->bytes bytes
 * as they are in the file. If the file was closed it is opened again and stays open. A file that is
 * not as it was at cti_token_file_open is an error. */
bool cti_token_file_read(cti_token_file *file, int64_t first, int64_t count, void *out);

/* Id i of the bytes that cti_token_file_read has read. */
static inline int64_t cti_token_at(const unsigned char *raw, int bytes, int64_t i) {
    const unsigned char *at = raw + i * bytes;
    const uint32_t low = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    return bytes == 2 ? low : low | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void cti_token_file_free(cti_token_file *file); /* closes it and frees its path */

#endif
