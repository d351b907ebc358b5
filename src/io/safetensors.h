/* The safetensors format: u64 little-endian length N, N bytes of JSON, the tensors' bytes without gaps.
 * https://huggingface.co/docs/safetensors
 *
 *     {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * Whatever breaks these rules is CT_ERR_FORMAT with "op: path: where: what". Refused are also a key twice (after unescaping)
 * and any key of a tensor that is not one of the three: one that we do not know may change what the bytes mean. */
#ifndef CT_SRC_IO_SAFETENSORS_H
#define CT_SRC_IO_SAFETENSORS_H

#include "../tensor.h"
#include "file.h"
#include "json.h"

/* dtypes and their bits */
#define CT_FILE_DTYPES(X)                                                                                                              \
    X(BOOL, 8) X(U8, 8) X(I8, 8) X(I16, 16) X(U16, 16) X(I32, 32) X(U32, 32) X(I64, 64) X(U64, 64)                                     \
    X(F16, 16) X(BF16, 16) X(F32, 32) X(F64, 64) X(C64, 64) X(F4, 4) X(F6_E2M3, 6) X(F6_E3M2, 6)                                       \
    X(F8_E5M2, 8) X(F8_E4M3, 8) X(F8_E5M2FNUZ, 8) X(F8_E4M3FNUZ, 8) X(F8_E8M0, 8)
#define CT_FILE_DTYPE(name, bits) CT_FILE_##name,
typedef enum { CT_FILE_DTYPES(CT_FILE_DTYPE) CT_FILE_DTYPE_COUNT } ct_file_dtype;
#undef CT_FILE_DTYPE

enum { CT_LARGEST_HEADER = 100 * 1000 * 1000 }; /* bytes */

const char *ct_file_dtype_name(ct_file_dtype dtype);

/* A name out of a file as messages show it: escaped, the rest of a long one left out: NAME(text) lives as long as the
 * enclosing block. */
enum { CT_NAME_SHOWN = 100, CT_NAME_TEXT = 6 * CT_NAME_SHOWN + 8 };
const char *ct_name_text(ct_text name, char text[CT_NAME_TEXT]);
#define NAME(name) ct_name_text((name), (char[CT_NAME_TEXT]){0})

typedef struct {
    ct_text name;
    ct_file_dtype dtype;
    int64_t ndim;       /* may be more than a tensor can have: then shape holds the first sizes */
    ct_shape shape;
    int64_t numel, begin, end; /* bytes of the data part */
} ct_file_tensor;

typedef struct {
    ct_text key, value;
} ct_file_pair;

/* A file's header, checked. */
typedef struct {
    ct_file file;
    char *text;                /* the header; names and metadata point into it */
    size_t text_size;
    ct_file_tensor *tensor;    /* in the header's order */
    const void **by_name;      /* pointers to them */
    ct_file_pair *pair;
    int64_t tensors, pairs, tensor_room, pair_room;
    int64_t data;              /* where the data part begins in the file, and how long it is */
    int64_t data_size;
} ct_safetensors;

bool ct_safetensors_open(ct_context *context, const char *op, const char *path, ct_safetensors *header);
void ct_safetensors_close(ct_safetensors *header);

/* The two steps of open, without a file: the header's length from the first 8 bytes of a file of file->size (-1 with an error);
 * then the header, from a zeroed one with .file, .text and .text_size. text has room for a NUL and is from ct_take, text_size + 1
 * bytes; close gives it back, also after a failure. */
int64_t ct_safetensors_length(const ct_file *file, const unsigned char first[8]);
bool ct_safetensors_parse(ct_safetensors *header);

const ct_file_tensor *ct_safetensors_find(const ct_safetensors *header, ct_text name); /* NULL, with no error: none */
const ct_text *ct_safetensors_metadata(const ct_safetensors *header, ct_text key);

/* Can a tensor of the library hold this dtype? Floats go to f32 and f64, I64 to i64, BOOL to bool. */
bool ct_safetensors_fits(ct_file_dtype from, ct_dtype to);

/* Reads the values into a row-major tensor of the same number of elements, whose dtype fits. f16 and bf16 are widened exactly. */
bool ct_safetensors_read(const ct_safetensors *header, const ct_file_tensor *from, ct_tensor *to);

/* A tensor and its name in a file. */
typedef struct {
    char *name;
    ct_tensor *tensor;
    const ct_file_tensor *from; /* for who reads it: where from, */
    ct_tensor *read;            /* and what was read */
    void *value;                /* of a number: where it is kept */
} ct_named;

/* A scalar tensor with the value of a number, and back. It is made also while an error is pending. */
ct_tensor *ct_number_new(ct_context *context, ct_dtype dtype, const void *value);
void ct_number_get(const ct_tensor *number, void *value);

/* Writes a file, atomically. Tensors are row-major; those of the largest elements go first, so that all are aligned. metadata is
 * key, value, ..., NULL, or NULL. A name or text that is not UTF-8, one that is there twice: CT_ERR_ARGUMENT. */
bool ct_safetensors_write(ct_context *context, const char *op, const char *path, const char *const *metadata, const ct_named *named,
                          int64_t n);

#endif
