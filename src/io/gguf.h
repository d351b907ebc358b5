/* The GGUF format of llama.cpp, versions 2 and 3, little-endian.
 *
 *     byte 0   4         8           16     24                                      the file's size
 *          | "GGUF" | version | tensors | keys | pairs | infos | zeros | the data  | anything |
 *          |        | u32     | u64     | u64  |       |       |       |           |          |
 *                                                                      ^ a multiple of the
 * alignment
 *
 *     pair     key: string, kind: u32, value            string   length: u64, bytes
 *     info     name: string, dims: u32, sizes: u64      array    kind: u32, count: u64, elements
 *              each, the fastest dim first; type: u32,
 *              offset: u64 from the data's beginning
 *
 * A header that was opened has these invariants. A file that breaks one is refused with
 * CT_ERR_FORMAT and a message "op: path: the key, tensor or byte: the fault".
 * 1. Every length and every count was compared with the bytes that the file has left, before any
 *    memory was taken for it. The header ends within CTI_LARGEST_GGUF_HEADER bytes.
 * 2. A key is not empty, is UTF-8 without U+0000, and is there once; so is a tensor's name, which
 *    may be empty and has at most 63 bytes.
 * 3. A value's kind is known, and an array is not an element of an array.
 * 4. The alignment, general.alignment (u32) or 32, is a power of two. The data begin at its next
 *    multiple behind the infos; in a file without tensors there may be nothing behind the infos.
 * 5. A tensor has up to 4 dims, and its number of elements and of bytes is below 2^63. Its type is
 *    one of ggml's, and its rows are whole blocks of the type. (Types whose values are not read
 *    are refused when values are asked.)
 * 6. In the order of the infos a tensor begins where the one before it ends, rounded up to the
 *    alignment, and all of it is inside the file. What follows is no fault: llama.cpp writes zeros
 *    up to the alignment, and some programs put further files there.
 *
 * In memory the texts of a header have a NUL behind them: the parser moves each 4 bytes down, over
 * the upper half of its length, which is below 2^32. */
#ifndef CTI_IO_GGUF_H
#define CTI_IO_GGUF_H

#include "file_tensor.h"

enum { CTI_LARGEST_GGUF_HEADER = 1 << 30 }; /* bytes */

/* ---- reading ---- */

typedef enum {
    CTI_GGUF_U8,
    CTI_GGUF_I8,
    CTI_GGUF_U16,
    CTI_GGUF_I16,
    CTI_GGUF_U32,
    CTI_GGUF_I32,
    CTI_GGUF_F32,
    CTI_GGUF_BOOL,
    CTI_GGUF_STRING,
    CTI_GGUF_ARRAY,
    CTI_GGUF_U64,
    CTI_GGUF_I64,
    CTI_GGUF_F64,
    CTI_GGUF_KINDS
} cti_gguf_kind;

typedef struct {
    cti_text key;
    cti_gguf_kind kind; /* of the elements, if it is an array */
    bool is_array;
    int64_t count; /* 1 if it is no array */
    const unsigned char *at;
    int64_t byte; /* the value's offset in the file */
} cti_gguf_pair;

/* An open file and its header. Its tensors point to .file, so the struct must not be moved. */
typedef struct {
    ct_context *context;
    const char *op, *path; /* those of .file */
    cti_file file;
    unsigned char *text; /* [room] the header's bytes, of which `loaded` have been read */
    int64_t loaded, room;
    cti_gguf_pair *pair; /* [pairs] in the file's order */
    const void **by_key; /* [pairs] pointers to the pairs, sorted by key */
    int64_t pairs, pair_room;
    cti_file_tensor
        *tensor; /* [tensors] in the file's order; shapes have the outermost dim first */
    int64_t tensors, tensor_room;
    int64_t alignment, data, data_size; /* the data's offset in the file, and the bytes behind it */
    int64_t at;                         /* the parser's place */
} cti_gguf;

/* Opens a file and parses its header. op and path outlive it. */
bool cti_gguf_open(ct_context *context, const char *op, const char *path, cti_gguf *gguf);
void cti_gguf_close(cti_gguf *gguf);
/* The step of open that needs no file if .loaded is .file.size: the caller has set .context, .op,
 * .path, .file, .text, .loaded and .room (of cti_take), and closes also after a failure. */
bool cti_gguf_parse(cti_gguf *gguf);

/* Sets *is to whether a file begins as GGUF does. False: it cannot be read, and an error was
 * recorded. */
bool cti_gguf_is(ct_context *context, const char *op, const char *path, bool *is);

/* The pair of a key; NULL, without an error, if there is none. */
const cti_gguf_pair *cti_gguf_find(const cti_gguf *gguf, const char *key);

/* These read the value of a key. If it is absent they leave *out as it is and return true. A value
 * of another kind is CT_ERR_FORMAT that names the key. Writers differ in kinds, so any integer does
 * where an integer is asked (one beyond int64 is an error), and where a real is asked, any float or
 * integer. */
bool cti_gguf_integer(const cti_gguf *gguf, const char *key, int64_t *out);
bool cti_gguf_real(const cti_gguf *gguf, const char *key, double *out);
bool cti_gguf_flag(const cti_gguf *gguf, const char *key, bool *out);
/* The text is UTF-8 without U+0000, has a NUL behind it, and lives as long as the header. */
bool cti_gguf_text(const cti_gguf *gguf, const char *key, cti_text *out);
/* The elements of an array, or of a scalar as an array of one. kind is CTI_GGUF_STRING, whose
 * elements are UTF-8, CTI_GGUF_I64 for integers of any kind, CTI_GGUF_F64 for floats or integers of
 * any kind, or CTI_GGUF_BOOL. An empty array may have any kind. */
bool cti_gguf_array(const cti_gguf *gguf, const char *key, cti_gguf_kind kind,
                    const cti_gguf_pair **out);
/* Element i < count of an array of such a kind. A flag is an integer too, 0 or 1. */
int64_t cti_gguf_integer_at(const cti_gguf_pair *pair, int64_t i);
double cti_gguf_real_at(const cti_gguf_pair *pair, int64_t i);
/* Texts have any length, so they are read in order, at most count of them. A cursor of zeros stands
 * before the first. */
typedef struct {
    const unsigned char *next;
} cti_gguf_cursor;
cti_text cti_gguf_next_text(const cti_gguf_pair *pair, cti_gguf_cursor *cursor);

/* Records "op: path: key "...": the message" as CT_ERR_FORMAT. Returns false. */
CT_FORMAT(3, 4)
bool cti_gguf_fail(const cti_gguf *gguf, const char *key, const char *format, ...);

/* The kind's name: "u32". */
const char *cti_gguf_kind_name(cti_gguf_kind kind);
/* The number of a dtype in files; -1 if GGUF has no such type. */
int cti_gguf_type(cti_file_dtype dtype);

/* ---- writing ---- */

/* A file that is being made: keys in the order of their calls, then tensors. The first failure is
 * recorded and kept, so a caller checks the result of cti_gguf_out_write alone. */
typedef struct cti_gguf_tensor cti_gguf_tensor; /* a tensor that is to be written */
typedef struct {
    ct_context *context;
    const char *op, *path;
    unsigned char *text; /* [used of room] the bytes of the pairs */
    int64_t used, room;
    int64_t *pair; /* [pairs] where the pairs begin */
    int64_t pairs, pair_room;
    cti_gguf_tensor *tensor; /* [tensors] */
    int64_t tensors, tensor_room;
    cti_gguf_kind kind; /* of the array to which elements are added, and how many it lacks */
    int64_t missing;
    bool failed;
} cti_gguf_out;

/* op, path, and the tensors that are put outlive the writing; names and texts are copied. */
bool cti_gguf_out_begin(ct_context *context, const char *op, const char *path, cti_gguf_out *out);
void cti_gguf_out_end(cti_gguf_out *out);

/* A key is UTF-8, and put once. */
void cti_gguf_put_text(cti_gguf_out *out, const char *key, cti_text text);
void cti_gguf_put_u32(cti_gguf_out *out, const char *key, uint32_t value);
void cti_gguf_put_i32(cti_gguf_out *out, const char *key, int32_t value);
void cti_gguf_put_f32(cti_gguf_out *out, const char *key, float value);
void cti_gguf_put_flag(cti_gguf_out *out, const char *key, bool value);
/* Begins an array of texts, u32, i32, f32 or flags, whose `count` elements follow by calls of its
 * kind's cti_gguf_add. An empty array is left out, as gguf-py does. */
void cti_gguf_put_array(cti_gguf_out *out, const char *key, cti_gguf_kind kind, int64_t count);
void cti_gguf_add_text(cti_gguf_out *out, cti_text text);
void cti_gguf_add_u32(cti_gguf_out *out, uint32_t value);
void cti_gguf_add_i32(cti_gguf_out *out, int32_t value);
void cti_gguf_add_f32(cti_gguf_out *out, float value);
void cti_gguf_add_flag(cti_gguf_out *out, bool value);

/* Adds a tensor of floats or blocks, to be written as F32, F16, BF16, Q8_0 or Q4_0 (another type is
 * CT_ERR_ARGUMENT, and so is a row that is not whole blocks). Blocks of the same type keep their
 * codes and scales. The file gets value + offset, the
 * rows in the order of the grid, and if `transposed` the columns of a matrix as rows; the grid then
 * is of the file's rows. */
void cti_gguf_put_tensor(cti_gguf_out *out, const char *name, const ct_tensor *tensor,
                         cti_file_dtype type, cti_row_grid grid, double offset, bool transposed);

/* Writes the file, which appears when it is whole (file.h). False: an error was recorded, and the
 * path has what it had. */
bool cti_gguf_out_write(cti_gguf_out *out);

#endif
