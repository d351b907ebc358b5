/* A tensor of a file, of either format: safetensors.h and gguf.h make lists of these, and one
 * function reads the values. */
#ifndef CTI_IO_FILE_TENSOR_H
#define CTI_IO_FILE_TENSOR_H

#include "../core/tensor.h"
#include "file.h"
#include "json.h"

/* The dtypes of files: the name, the elements of a block, the bits of a block. Each format has the
 * rows of its own list; those of GGUF include a few of safetensors (gguf.c has the numbers). */
/* clang-format off */
#define CTI_SAFETENSORS_DTYPES(X)                                                                  \
    X(BOOL, 1, 8) X(U8, 1, 8) X(I8, 1, 8) X(I16, 1, 16) X(U16, 1, 16) X(I32, 1, 32) X(U32, 1, 32)  \
    X(I64, 1, 64) X(U64, 1, 64) X(F16, 1, 16) X(BF16, 1, 16) X(F32, 1, 32) X(F64, 1, 64)           \
    X(C64, 1, 64) X(F4, 1, 4) X(F6_E2M3, 1, 6) X(F6_E3M2, 1, 6) X(F8_E5M2, 1, 8) X(F8_E4M3, 1, 8)  \
    X(F8_E5M2FNUZ, 1, 8) X(F8_E4M3FNUZ, 1, 8) X(F8_E8M0, 1, 8)
#define CTI_GGUF_DTYPES(X)                                                                         \
    X(Q4_0, 32, 8 * 18) X(Q4_1, 32, 8 * 20) X(Q5_0, 32, 8 * 22) X(Q5_1, 32, 8 * 24)                \
    X(Q8_0, 32, 8 * 34) X(Q8_1, 32, 8 * 36) X(Q2_K, 256, 8 * 84) X(Q3_K, 256, 8 * 110)             \
    X(Q4_K, 256, 8 * 144) X(Q5_K, 256, 8 * 176) X(Q6_K, 256, 8 * 210) X(Q8_K, 256, 8 * 292)        \
    X(IQ2_XXS, 256, 8 * 66) X(IQ2_XS, 256, 8 * 74) X(IQ3_XXS, 256, 8 * 98) X(IQ1_S, 256, 8 * 50)   \
    X(IQ4_NL, 32, 8 * 18) X(IQ3_S, 256, 8 * 110) X(IQ2_S, 256, 8 * 82) X(IQ4_XS, 256, 8 * 136)     \
    X(IQ1_M, 256, 8 * 56) X(TQ1_0, 256, 8 * 54) X(TQ2_0, 256, 8 * 66) X(MXFP4, 32, 8 * 17)         \
    X(NVFP4, 64, 8 * 36) X(Q1_0, 128, 8 * 18) X(Q2_0, 64, 8 * 18)
/* clang-format on */
#define CTI_FILE_DTYPE(name, elements, bits) CTI_FILE_##name,
typedef enum {
    CTI_SAFETENSORS_DTYPES(CTI_FILE_DTYPE) CTI_GGUF_DTYPES(CTI_FILE_DTYPE) CTI_FILE_DTYPE_COUNT
} cti_file_dtype;
#undef CTI_FILE_DTYPE

const char *cti_file_dtype_name(cti_file_dtype dtype);
/* A block is one element for all dtypes but those of GGUF. */
int cti_file_dtype_elements(cti_file_dtype dtype); /* the elements of a block */
int cti_file_dtype_bits(cti_file_dtype dtype);     /* the bits of a block */
/* The end of a message about values of this dtype that cannot be read; "" or ": what can be done".
 */
const char *cti_file_dtype_advice(cti_file_dtype dtype);
/* Finds a dtype of safetensors by its name; returns false if there is none. */
bool cti_file_dtype_find(cti_text name, cti_file_dtype *dtype);

/* NAME(text) is a name as messages show it: at most its first 100 bytes, escaped, in a buffer that
 * lives as long as the enclosing block. An escape takes up to 6 bytes. */
enum { CTI_NAME_SHOWN = 100, CTI_NAME_TEXT = 6 * CTI_NAME_SHOWN + 8 };
const char *cti_name_text(cti_text name, char text[CTI_NAME_TEXT]);
#define NAME(name) cti_name_text((name), (char[CTI_NAME_TEXT]){0})

/* The rows of a tensor in another order. They are a grid (groups, a, b, cell), and the file has a
 * and b swapped: row ((g a + i) b + j) cell + c of the parameter is row ((g b + j) a + i) cell + c
 * of the file. A row is an index of the first dim. a = 0: the same order. With `rows` only the
 * first of them are in another order.
 *
 *     q and k of arch llama, heads of D rows      a = 2, b = D / 2, cell = 1
 *     gptneox's attn_qkv, with n heads            a = n, b = 3, cell = D */
typedef struct {
    int64_t a, b, cell, rows;
} cti_row_grid;

/* The row of the file for a row of the parameter. */
int64_t cti_row_in_file(cti_row_grid grid, int64_t row);
/* Whether a tensor of so many rows is whole groups of the grid. */
bool cti_row_grid_fits(cti_row_grid grid, int64_t rows);

typedef struct {
    const cti_file *file; /* the file that has the tensor */
    int64_t data;         /* the offset of the file's data */
    cti_text name;
    cti_file_dtype dtype;
    int64_t ndim; /* may exceed CT_MAX_DIMS; shape then has the first CT_MAX_DIMS sizes */
    ct_shape shape;
    int64_t numel, begin, end; /* its bytes are [begin, end) of the data */
    cti_row_grid grid;         /* the order of its rows */
    double offset; /* of floats: the file has value + offset, as for gemma's norms in GGUF */
} cti_file_tensor;

/* Whether values of the file's dtype can be read into a tensor of dtype `to`: F16, BF16, F32, F64
 * and the blocks that src/core/blocks.h widens into f32, f64 and bf16, integers into i64, BOOL into
 * bool. */
bool cti_file_tensor_fits(cti_file_dtype from, ct_dtype to);

/* Whether elements of the file's dtype have the bytes that elements of `dtype` have in memory. */
bool cti_file_dtype_is_memory(cti_file_dtype file, ct_dtype dtype);

/* Reads elements [first, first + count) of a tensor into elements [at, at + count) of a row-major
 * tensor whose dtype fits. Elements are counted in the order of the parameter, as .grid has it. A
 * value that the tensor's float dtype does not have is rounded to nearest, once; a U64 beyond i64
 * is CT_ERR_DTYPE. A range that is not whole blocks, and rows that are not whole groups of the
 * grid, are CT_ERR_FORMAT. */
bool cti_file_tensor_read(const cti_file_tensor *from, int64_t first, int64_t count, ct_tensor *to,
                          int64_t at);

#endif
