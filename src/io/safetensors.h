/* The safetensors format: u64 little-endian length N, N bytes of JSON, the tensors' bytes without
 * gaps. https://huggingface.co/docs/safetensors
 *
 *     {"__metadata__": {"key": "value"},
 *      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * Whatever breaks these rules is CT_ERR_FORMAT with "op: path: where: what". Refused are also a key
 * twice (after unescaping) and any key of a tensor that is not one of the three: one that we do not
 * know may change what the bytes mean. */
#ifndef CTI_IO_SAFETENSORS_H
#define CTI_IO_SAFETENSORS_H

#include "../core/tensor.h"
#include "file.h"
#include "json.h"

/* dtypes and their bits */
#define CTI_FILE_DTYPES(X)                                                                         \
    X(BOOL, 8)                                                                                     \
    X(U8, 8)                                                                                       \
    X(I8, 8)                                                                                       \
    X(I16, 16)                                                                                     \
    X(U16, 16) X(I32, 32) X(U32, 32) X(I64, 64) X(U64, 64) X(F16, 16) X(BF16, 16) X(F32, 32)       \
        X(F64, 64) X(C64, 64) X(F4, 4) X(F6_E2M3, 6) X(F6_E3M2, 6) X(F8_E5M2, 8) X(F8_E4M3, 8)     \
            X(F8_E5M2FNUZ, 8) X(F8_E4M3FNUZ, 8) X(F8_E8M0, 8)
#define CTI_FILE_DTYPE(name, bits) CTI_FILE_##name,
typedef enum { CTI_FILE_DTYPES(CTI_FILE_DTYPE) CTI_FILE_DTYPE_COUNT } cti_file_dtype;
#undef CTI_FILE_DTYPE

enum { CTI_LARGEST_HEADER = 100 * 1000 * 1000 }; /* bytes */

const char *cti_file_dtype_name(cti_file_dtype dtype);

/* A name out of a file as messages show it: escaped, the rest of a long one left out: NAME(text)
 * lives as long as the enclosing block. */
enum { CTI_NAME_SHOWN = 100, CTI_NAME_TEXT = 6 * CTI_NAME_SHOWN + 8 };
const char *cti_name_text(cti_text name, char text[CTI_NAME_TEXT]);
#define NAME(name) cti_name_text((name), (char[CTI_NAME_TEXT]){0})

typedef struct {
    cti_text name;
    cti_file_dtype dtype;
    int64_t ndim; /* may be more than a tensor can have: then shape holds the first sizes */
    ct_shape shape;
    int64_t numel, begin, end; /* bytes of the data part */
} cti_file_tensor;

typedef struct {
    cti_text key, value;
} cti_file_pair;

/* A file's header, checked. */
typedef struct {
    cti_file file;
    char *text; /* the header; names and metadata point into it */
    size_t text_size;
    cti_file_tensor *tensor; /* in the header's order */
    const void **by_name;    /* pointers to them */
    cti_file_pair *pair;
    int64_t tensors, pairs, tensor_room, pair_room;
    int64_t data; /* where the data part begins in the file, and how long it is */
    int64_t data_size;
} cti_safetensors;

bool cti_safetensors_open(ct_context *context, const char *op, const char *path,
                          cti_safetensors *header);
void cti_safetensors_close(cti_safetensors *header);

/* The two steps of open, without a file: the header's length from the first 8 bytes of a file of
 * file->size (-1 with an error); then the header, from a zeroed one with .file, .text and
 * .text_size. text has room for a NUL and is from cti_take, text_size + 1 bytes; close gives it
 * back, also after a failure. */
int64_t cti_safetensors_length(const cti_file *file, const unsigned char first[8]);
bool cti_safetensors_parse(cti_safetensors *header);

/* NULL, with no error: none */
const cti_file_tensor *cti_safetensors_find(const cti_safetensors *header, cti_text name);
const cti_text *cti_safetensors_metadata(const cti_safetensors *header, cti_text key);

/* Can a tensor of the library hold this dtype? Floats go to f32 and f64, I64 to i64, BOOL to
 * bool. */
bool cti_safetensors_fits(cti_file_dtype from, ct_dtype to);

/* Reads the values into a row-major tensor of the same number of elements, whose dtype fits. f16
 * and bf16 are widened exactly. */
bool cti_safetensors_read(const cti_safetensors *header, const cti_file_tensor *from,
                          ct_tensor *to);

/* A tensor and its name in a file. */
typedef struct {
    char *name;
    ct_tensor *tensor;
    const cti_file_tensor *from; /* for who reads it: where from, */
    ct_tensor *read;             /* and what was read */
    void *value;                 /* of a number: where it is kept */
} cti_named;

/* A scalar tensor with the value of a number, and back. It is made also while an error is
 * pending. */
ct_tensor *cti_number_new(ct_context *context, ct_dtype dtype, const void *value);
void cti_number_get(const ct_tensor *number, void *value);

/* Writes a file, atomically. Tensors are row-major; those of the largest elements go first, so that
 * all are aligned. metadata is key, value, ..., NULL, or NULL. A name or text that is not UTF-8,
 * one that is there twice: CT_ERR_ARGUMENT. */
bool cti_safetensors_write(ct_context *context, const char *op, const char *path,
                           const char *const *metadata, const cti_named *named, int64_t n);

#endif
