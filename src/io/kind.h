/* What a file is by its first bytes: other formats that are given where safetensors or token ids
 * are expected. */
#ifndef CTI_IO_KIND_H
#define CTI_IO_KIND_H

#include "file.h"

enum { CTI_KIND_BYTES = 512 }; /* of a file's beginning, as many as cti_kind_of looks at */

typedef struct {
    const char *name; /* "a NumPy file (.npy)" */
    /* how to get tensors, and how to get ids: an end of a message, with its colon; "": none */
    const char *tensors, *ids;
} cti_kind;

/* The kind of a file of `size` bytes that begins with these n = min(size, CTI_KIND_BYTES). NULL:
 * not known. `sure`: only by marks that no file of token ids begins with, which takes some 40 bits
 * of them; else a mark of two bytes is enough, for a file that is refused anyway. */
const cti_kind *cti_kind_of(const unsigned char *at, size_t n, int64_t size, bool sure);

/* Whether it is JSON or a text of no known kind: of these a parser of texts says more. */
bool cti_kind_is_text(const cti_kind *kind);

/* Records as CT_ERR_FORMAT that the file, which begins with these n bytes, is of another kind than
 * `expected` ("a safetensors file"). False, without an error, if its kind is not known. */
bool cti_kind_refuse(const cti_file *file, const unsigned char *at, size_t n, const char *expected);

#endif
