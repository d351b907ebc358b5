/* The safetensors format: u64 little-endian length N, N bytes of JSON, the tensors' bytes without
 * gaps. https://huggingface.co/docs/safetensors
 *
 *     {"__metadata__": {"key": "value"},
 *      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * A file that breaks these rules is CT_ERR_FORMAT with "op: path: where: what". So is a file with a
 * key twice (after unescaping), or with a key of a tensor other than these three: an unknown key
 * may change what the bytes mean. */
#ifndef CTI_IO_SAFETENSORS_H
#define CTI_IO_SAFETENSORS_H

#include <cotangent/io.h>

#include "../core/tensor.h"
#include "file.h"
#include "json.h"

/* The format's dtypes and their bits. */
/* clang-format off */
#define CTI_FILE_DTYPES(X)                                                                         \
    X(BOOL, 8) X(U8, 8) X(I8, 8) X(I16, 16) X(U16, 16) X(I32, 32) X(U32, 32) X(I64, 64) X(U64, 64) \
    X(F16, 16) X(BF16, 16) X(F32, 32) X(F64, 64) X(C64, 64) X(F4, 4) X(F6_E2M3, 6) X(F6_E3M2, 6)   \
    X(F8_E5M2, 8) X(F8_E4M3, 8) X(F8_E5M2FNUZ, 8) X(F8_E4M3FNUZ, 8) X(F8_E8M0, 8)
/* clang-format on */
#define CTI_FILE_DTYPE(name, bits) CTI_FILE_##name,
typedef enum { CTI_FILE_DTYPES(CTI_FILE_DTYPE) CTI_FILE_DTYPE_COUNT } cti_file_dtype;
#undef CTI_FILE_DTYPE

enum { CTI_LARGEST_HEADER = 100 * 1000 * 1000 }; /* bytes */

const char *cti_file_dtype_name(cti_file_dtype dtype);
int cti_file_dtype_bits(cti_file_dtype dtype);

/* NAME(text) is a name as messages show it, escaped and of at most 100 bytes, in a buffer that
 * lives as long as the enclosing block. An escape takes up to 6 bytes. */
enum { CTI_NAME_SHOWN = 100, CTI_NAME_TEXT = 6 * CTI_NAME_SHOWN + 8 };
const char *cti_name_text(cti_text name, char text[CTI_NAME_TEXT]);
#define NAME(name) cti_name_text((name), (char[CTI_NAME_TEXT]){0})

typedef struct cti_safetensors cti_safetensors;

typedef struct {
    const cti_safetensors *header; /* of the file that has it */
    cti_text name;
    cti_file_dtype dtype;
    int64_t ndim; /* may exceed CT_MAX_DIMS; shape then has the first CT_MAX_DIMS sizes */
    ct_shape shape;
    int64_t numel, begin, end; /* elements; bytes [begin, end) of the data part */
} cti_file_tensor;

typedef struct {
    cti_text key, value;
} cti_file_pair;

/* A file's header, checked. Its tensors point to it, so it stays where it was opened. */
struct cti_safetensors {
    cti_file file;
    char *text; /* the header's JSON; names and metadata point into it */
    size_t text_size;
    cti_file_tensor *tensor; /* [tensors] in the header's order */
    const void **by_name;    /* [tensors] sorted pointers to them */
    cti_file_pair *pair;     /* [pairs] metadata */
    int64_t tensors, pairs, tensor_capacity, pair_capacity;
    int64_t data, data_size; /* the data part's offset in the file, and its bytes */
    bool checked;            /* the file has a checksum, which is right */
};

bool cti_safetensors_open(ct_context *context, const char *op, const char *path,
                          cti_safetensors *header);
/* The same; of a file that begins with a checksum (checksum.h) all bytes are compared first, and
 * .checked is true. */
bool cti_safetensors_open_checked(ct_context *context, const char *op, const char *path,
                                  cti_safetensors *header);
void cti_safetensors_close(cti_safetensors *header);

/* The two steps of open, which read no file, for the fuzzer. */

/* The header's length, from the first 8 bytes of a file of file->size; -1 with an error. */
int64_t cti_safetensors_length(const cti_file *file, const unsigned char first[8]);
/* Parses and checks the header. All is zero but .file, .text (text_size + 1 bytes of cti_take) and
 * .text_size. The caller closes it, also after a failure. */
bool cti_safetensors_parse(cti_safetensors *header);

/* NULL, with no error: none */
const cti_file_tensor *cti_safetensors_find(const cti_safetensors *header, cti_text name);
const cti_text *cti_safetensors_metadata(const cti_safetensors *header, cti_text key);

/* Whether values of the file's dtype can be read into a tensor of the other: F16, BF16, F32 and F64
 * into f32 and f64, integers into i64, BOOL into bool. */
bool cti_safetensors_fits(cti_file_dtype from, ct_dtype to);

/* Reads elements [first, first + count) of the file's tensor into elements [at, at + count) of a
 * row-major tensor whose dtype fits. F64 is rounded to f32; the other conversions are exact, and a
 * U64 beyond i64 is CT_ERR_DTYPE. */
bool cti_safetensors_read(const cti_file_tensor *from, int64_t first, int64_t count, ct_tensor *to,
                          int64_t at);

/* Whether two row-major tensors of one shape and dtype have the same bits. */
bool cti_safetensors_same_values(const ct_tensor *a, const ct_tensor *b);

/* A number of a module or an optimiser as a scalar tensor, and back. Works while an error is
 * pending. */
ct_tensor *cti_number_new(ct_context *context, ct_dtype dtype, const void *value);
void cti_number_get(const ct_tensor *number, void *value);

/* ---- writing ---- */

/* Whether these can be written: texts are UTF-8, no name or key is there twice, tensors have values
 * and are of the context. Else CT_ERR_ARGUMENT. */
bool cti_safetensors_check(ct_context *context, const char *op, const char *path,
                           const ct_named *named, int64_t n, ct_save_opts opts);

/* The bytes of a tensor's data in a file. */
int64_t cti_file_bytes(const ct_tensor *tensor, ct_file_float floats);

/* Writes what was checked to a new file, which the caller commits. The file has tensors by the size
 * of their elements, largest first, so that each is aligned. */
bool cti_safetensors_write(const cti_file_new *file, const ct_named *named, int64_t n,
                           ct_save_opts opts);

/* Checks and writes one file with a checksum; metadata begins with the pair that checksum.h says.
 */
bool cti_safetensors_save_checked(ct_context *context, const char *op, const char *path,
                                  const ct_named *named, int64_t n, const char *const *metadata);

/* Checks and writes a file or, by opts.shard_bytes, a folder of shards, atomically as
 * <cotangent/io.h> says. */
bool cti_safetensors_save(ct_context *context, const char *op, const char *path,
                          const ct_named *named, int64_t n, ct_save_opts opts);

#endif
