/* Recognises other file formats by their first bytes or their names, so that a load that expects
 * safetensors, token ids or a folder of a model can name the format that it was given. */
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

/* Refuses in this way a file that should be a JSON text, by its whole content. A plain text is not
 * refused. The file may be closed. */
bool cti_kind_refuse_json(const cti_file *file, const char *text);

/* The end of the name of a GGUF file. */
#define CTI_KIND_GGUF ".gguf"

/* Whether a file's name has this beginning and this end, which do not overlap. */
bool cti_kind_is_name(const char *name, const char *begin, const char *end);

/* Finds the file of a folder whose name has the lowest rank, and of several the smallest name.
 * rank(name) is negative if the file does not count. Copies the name, cut to size - 1 bytes, and
 * returns its rank; -1 and an empty name if no file counts or the folder cannot be read. */
int cti_kind_find(const char *folder, int (*rank)(const char *name), char *name, size_t size);

#endif
