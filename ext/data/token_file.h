/* A file of token ids: without a header, with llm.c's, or with NumPy's. It must not change between
 * the open and the last read: each read checks that. */
#ifndef CTI_EXT_DATA_TOKEN_FILE_H
#define CTI_EXT_DATA_TOKEN_FILE_H

#include "../../src/io/file.h"

typedef struct {
    cti_file file;      /* .fd is -1 while the file is closed */
    char *path;         /* an absolute path */
    int bytes;          /* size of an id: 2, 4 or 8 */
    bool is_signed;     /* the ids are signed numbers, of which a negative one is refused */
    int64_t data;       /* the offset of the first id */
    int64_t ids;        /* number of ids */
    cti_os_about about; /* size, identity and time of change at cti_token_file_open */
} cti_token_file;

/* llm.c's header of a file of `ids` ids of 2 or 4 bytes. */
enum { CTI_TOKEN_HEADER = 1024 };
void cti_token_header(unsigned char header[CTI_TOKEN_HEADER], int bytes, int64_t ids);

/* Opens the file and checks its header and size; bytes is 2, 4, 8 or 0, as in ct_tokens_opts.
 * False: an error was recorded, and there is nothing to free. */
bool cti_token_file_open(ct_context *context, const char *path, int bytes, cti_token_file *file);

/* Reads ids [first, first + count), which the file must have, into out: count * file->bytes bytes
 * as they are in the file. If the file was closed it is opened again and stays open. A file that is
 * not as it was at cti_token_file_open is an error. */
bool cti_token_file_read(cti_token_file *file, int64_t first, int64_t count, void *out);

/* Number i of the bytes that cti_token_file_read has read. A number of 8 bytes that is 2^63 or more
 * comes out negative. */
static inline int64_t cti_token_at(const unsigned char *raw, int bytes, int64_t i) {
    const unsigned char *at = raw + i * bytes;
    const uint32_t low = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    if (bytes == 2) return low;
    const uint32_t word = low | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    if (bytes == 4) return word;
    const uint32_t high =
        (uint32_t)at[4] | (uint32_t)at[5] << 8 | (uint32_t)at[6] << 16 | (uint32_t)at[7] << 24;
    return (int64_t)((uint64_t)high << 32 | word);
}

/* Writes a number as so many bytes. */
static inline void cti_token_put(unsigned char *at, uint64_t number, int bytes) {
    for (int b = 0; b < bytes; b++) at[b] = (unsigned char)(number >> 8 * b);
}

/* Id i of these bytes: the number, negative if the file says so. */
static inline int64_t cti_token_id(const cti_token_file *file, const void *raw, int64_t i) {
    const int64_t id = cti_token_at(raw, file->bytes, i);
    return file->is_signed && file->bytes == 4 ? (int32_t)(uint32_t)id : id;
}

void cti_token_file_free(cti_token_file *file); /* closes it and frees its path */

#endif
