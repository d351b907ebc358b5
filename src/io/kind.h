/* Recognises other file formats by their first bytes, so that a load that expects safetensors or
 * token ids can name the format that it was given. */
#ifndef CTI_IO_KIND_H
#define CTI_IO_KIND_H

#include "file.h"

/* The number of bytes at a file's beginning by which cti_kind_of recognises its kind. */
enum { CTI_KIND_BYTES = 512 };

typedef struct {
    const char *name; /* "a NumPy file (.npy)" */
    /* the end of a message that tells how to get tensors, or ids, from such a file; it begins with
     * ": " and is "" if there is no advice */
    const char *tensors, *ids;
} cti_kind;

/* The kind of a file of `size` bytes whose first n = min(size, CTI_KIND_BYTES) bytes are `at`; NULL
 * if none is recognised. If `sure` is set, only marks of some 40 bits count, because no file of
 * token ids begins with one. Otherwise a mark of two bytes is enough: the caller refuses the file
 * in any case, and uses the kind only in its message. */
const cti_kind *cti_kind_of(const unsigned char *at, size_t n, int64_t size, bool sure);

/* Whether the kind is JSON or a plain text. A parser of texts has a better message for these. */
bool cti_kind_is_text(const cti_kind *kind);

/* If the kind of the file, whose first n bytes are `at`, is known, records as CT_ERR_FORMAT that
 * it is not `expected` ("a safetensors file") and returns true. If not, returns false without an
 * error. */
bool cti_kind_refuse(const cti_file *file, const unsigned char *at, size_t n, const char *expected);

/* Does this for the whole content of a file that should be a JSON text. A plain text is not
 * refused. The file may be closed. */
bool cti_kind_refuse_json(const cti_file *file, const char *text);

#endif
