/* The safetensors format (https://huggingface.co/docs/safetensors).
 *
 *     byte 0            8                 8 + N                                 the file's size
 *          | N          | the header      | the data                            |
 *          | u64 little | N bytes of JSON | bytes of each tensor, little-endian |
 *                                         ^ data_offsets count from here
 *
 *     {"__metadata__": {"key": "value"},
 *      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * A header that was opened has these invariants. A file that breaks one is refused with
 * CT_ERR_FORMAT and a message "op: path: the place: the fault".
 * 1. N is at most 100,000,000, and 8 + N at most the file's size.
 * 2. The header is UTF-8 and one JSON object that begins at byte 8; only spaces may follow it.
 * 3. No object has a key twice (a tensor's name is a key of the header). Keys are compared after
 *    unescaping.
 * 4. A tensor has the keys dtype, shape and data_offsets, each once, and no other key: an unknown
 *    key might change the meaning of the bytes.
 * 5. end - begin is the size of a tensor with this dtype and shape, in whole bytes.
 * 6. In the order of begin the tensors cover the data without a gap or an overlap, so each byte of
 *    the data belongs to exactly one tensor.
 *
 * A file of this library has its tensors in the order of the size of their elements, largest first,
 * and spaces behind the JSON, so that the data begin at a multiple of 8 and each tensor is aligned.
 */
#ifndef CTI_IO_SAFETENSORS_H
#define CTI_IO_SAFETENSORS_H

#include <cotangent/io.h>

#include "file_tensor.h"

enum { CTI_LARGEST_HEADER = 100 * 1000 * 1000 }; /* bytes */

typedef struct {
    cti_text key, value;
} cti_file_pair;

/* An open file and its header, which has been checked. Its tensors point to .file, so the struct
 * must not be moved. */
typedef struct {
    cti_file file;
    char *text;       /* [text_size + 1] the header's JSON; names and metadata point into it */
    size_t text_size; /* N */
    cti_file_tensor *tensor; /* [tensors] in the header's order */
    const void **by_name;    /* [tensors] pointers to the tensors, sorted by name */
    cti_file_pair *pair;     /* [pairs] the metadata */
    int64_t tensors, pairs, tensor_capacity, pair_capacity;
    int64_t data, data_size; /* the data's offset in the file, and their size in bytes */
    bool checked;            /* the file has a checksum, and it is right */
} cti_safetensors;

bool cti_safetensors_open(ct_context *context, const char *op, const char *path,
                          cti_safetensors *header);
/* Does the same, but compares the checksum first if the file begins with one (checksum.h). If it is
 * right, .checked is true; if it is wrong, the open fails. */
bool cti_safetensors_open_checked(ct_context *context, const char *op, const char *path,
                                  cti_safetensors *header);
void cti_safetensors_close(cti_safetensors *header);

/* The two steps of open that read no file. They are declared here for the fuzzer. */

/* The header's length N, from the first 8 bytes of a file of file->size bytes; -1 after an error.
 */
int64_t cti_safetensors_length(const cti_file *file, const unsigned char first[8]);
/* Parses and checks the header. The caller has set .file, .text (text_size + 1 bytes of cti_take)
 * and .text_size, all else is zero. The caller closes the header, also after a failure. */
bool cti_safetensors_parse(cti_safetensors *header);

/* The tensor of a name, and the value of a metadata key; NULL, without an error, if there is none.
 */
const cti_file_tensor *cti_safetensors_find(const cti_safetensors *header, cti_text name);
const cti_text *cti_safetensors_metadata(const cti_safetensors *header, cti_text key);

/* Whether two row-major tensors of one shape and dtype have the same bits. */
bool cti_safetensors_same_values(const ct_tensor *a, const ct_tensor *b);

/* Makes a scalar tensor of a number of a module or an optimiser, and reads it back. Both work while
 * an error is pending. */
ct_tensor *cti_number_new(ct_context *context, ct_dtype dtype, const void *value);
void cti_number_get(const ct_tensor *number, void *value);

/* ---- writing ---- */

/* Whether these tensors and options can be written: texts are UTF-8, no name or key is there twice,
 * tensors have values and belong to the context. False: CT_ERR_ARGUMENT was recorded, or memory was
 * short. */
bool cti_safetensors_check(ct_context *context, const char *op, const char *path,
                           const ct_named *named, int64_t n, ct_save_opts opts);

/* The number of bytes that a tensor's data take in a file. */
int64_t cti_file_bytes(const ct_tensor *tensor, ct_file_float floats);

/* Writes checked tensors to a new file, which the caller commits. */
bool cti_safetensors_write(const cti_file_new *file, const ct_named *named, int64_t n,
                           ct_save_opts opts);

/* Checks and writes one file with a checksum. metadata must begin with the pair CTI_CHECKSUM_KEY,
 * CTI_CHECKSUM_ZEROS (checksum.h). */
bool cti_safetensors_save_checked(ct_context *context, const char *op, const char *path,
                                  const ct_named *named, int64_t n, const char *const *metadata);

/* Checks and writes a file or, if opts.shard_bytes is not 0, a folder of shards. The file is
 * replaced in the order of file.h, the folder as a set (set.h). */
bool cti_safetensors_save(ct_context *context, const char *op, const char *path,
                          const ct_named *named, int64_t n, ct_save_opts opts);

#endif
