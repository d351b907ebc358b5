/* Reads the values of a file's tensors, which are little-endian, into tensors on a machine of any
 * byte order. */
#include <string.h>

#include "../core/block_matrix.h"
#include "../core/context.h"
#include "../core/int_math.h"
#include "../kernels/half.h"
#include "safetensors.h"

typedef struct {
    const char *name;
    int elements, bits;
} file_dtype;
#define FILE_DTYPE(name, elements, bits) {#name, elements, bits},
static const file_dtype file_dtypes[] = {CTI_SAFETENSORS_DTYPES(FILE_DTYPE)
                                             CTI_GGUF_DTYPES(FILE_DTYPE)};
#undef FILE_DTYPE
enum { OF_SAFETENSORS = CTI_FILE_Q4_0 }; /* the first of GGUF's, which stand behind them */

const char *cti_file_dtype_name(cti_file_dtype dtype) { return file_dtypes[dtype].name; }
int cti_file_dtype_elements(cti_file_dtype dtype) { return file_dtypes[dtype].elements; }
int cti_file_dtype_bits(cti_file_dtype dtype) { return file_dtypes[dtype].bits; }

bool cti_file_dtype_find(cti_text name, cti_file_dtype *dtype) {
    for (int i = 0; i < OF_SAFETENSORS; i++) {
        *dtype = (cti_file_dtype)i;
        if (cti_text_compare(name, cti_text_of(file_dtypes[i].name)) == 0) return true;
    }
    return false;
}

const char *cti_name_text(cti_text name, char text[CTI_NAME_TEXT]) {
    cti_writer out = {.at = text, .size = CTI_NAME_TEXT - 1};
    cti_text shown = name;
    if (name.size > CTI_NAME_SHOWN) {
        shown.size = CTI_NAME_SHOWN;
        /* does not cut inside a character of UTF-8 */
        while (shown.size > 0 && (name.at[shown.size] & 0xC0) == 0x80) shown.size--;
    }
    cti_escaped_write(&out, shown);
    if (shown.size < name.size) cti_string_write(&out, "...");
    text[out.used] = 0;
    return text;
}

/* ---- dtypes and blocks ---- */

enum { VALUES_CHUNK = 1 << 16 }; /* bytes read and converted at a time */

/* The blocks that are read. */
static bool block_find(cti_file_dtype dtype, cti_block *block) {
    static const struct {
        cti_file_dtype dtype;
        cti_block block;
    } blocks[CTI_BLOCKS] = {
        {CTI_FILE_Q4_0, CTI_BLOCK_Q4_0}, {CTI_FILE_Q4_1, CTI_BLOCK_Q4_1},
        {CTI_FILE_Q5_0, CTI_BLOCK_Q5_0}, {CTI_FILE_Q5_1, CTI_BLOCK_Q5_1},
        {CTI_FILE_Q8_0, CTI_BLOCK_Q8_0}, {CTI_FILE_Q4_K, CTI_BLOCK_Q4_K},
        {CTI_FILE_Q5_K, CTI_BLOCK_Q5_K}, {CTI_FILE_Q6_K, CTI_BLOCK_Q6_K},
    };
    for (int i = 0; i < CTI_BLOCKS; i++) {
        *block = blocks[i].block;
        if (blocks[i].dtype == dtype) return true;
    }
    return false;
}

const char *cti_file_dtype_advice(cti_file_dtype dtype) {
    cti_block block;
    return (int)dtype < OF_SAFETENSORS || block_find(dtype, &block)
               ? ""
               : ": llama-quantize --allow-requantize in.gguf out.gguf Q8_0 writes what can be "
                 "read";
}

bool cti_file_tensor_fits(cti_file_dtype from, ct_dtype to) {
    cti_block block;
    switch (to) {
    case CT_F32:
    case CT_F64:
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0:
        return from == CTI_FILE_F16 || from == CTI_FILE_BF16 || from == CTI_FILE_F32 ||
               from == CTI_FILE_F64 || block_find(from, &block);
    case CT_I64:
        return from == CTI_FILE_I8 || from == CTI_FILE_I16 || from == CTI_FILE_I32 ||
               from == CTI_FILE_I64 || from == CTI_FILE_U8 || from == CTI_FILE_U16 ||
               from == CTI_FILE_U32 || from == CTI_FILE_U64;
    case CT_BOOL: return from == CTI_FILE_BOOL;
    }
    return false;
}

bool cti_file_dtype_is_memory(cti_file_dtype file, ct_dtype dtype) {
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    return (low == 1 || cti_dtype_size(dtype) == 1) && !cti_is_blocks(dtype) &&
           !strcmp(cti_file_dtype_name(file), cti_dtype_table[dtype].file);
}

static inline uint64_t little_endian_read(const unsigned char *byte, int size) {
    uint64_t bits = 0;
    for (int i = 0; i < size; i++) bits |= (uint64_t)byte[i] << 8 * i;
    return bits;
}

static inline float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double real_of(cti_file_dtype from, const unsigned char *in) {
    switch (from) {
    case CTI_FILE_F16: return (double)as_float(cti_f16_widen((uint32_t)little_endian_read(in, 2)));
    case CTI_FILE_BF16:
        return (double)as_float(cti_bf16_widen((uint32_t)little_endian_read(in, 2)));
    case CTI_FILE_F32: return (double)as_float((uint32_t)little_endian_read(in, 4));
    default: CTI_ASSERT(from == CTI_FILE_F64); return as_double(little_endian_read(in, 8));
    }
}

/* These convert a number of a file, `from` being a constant where they are inlined. They copy all
 * bits of a number whose dtype stays, also of a NaN, and round once: to nearest, ties to even. */
static inline __attribute__((always_inline)) uint32_t read_f32_bits(cti_file_dtype from,
                                                                    const unsigned char *in) {
    if (from == CTI_FILE_F16) return cti_f16_widen((uint32_t)little_endian_read(in, 2));
    if (from == CTI_FILE_BF16) return cti_bf16_widen((uint32_t)little_endian_read(in, 2));
    if (from == CTI_FILE_F32) return (uint32_t)little_endian_read(in, 4);
    const float value = (float)real_of(from, in);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline __attribute__((always_inline)) uint16_t read_bf16(cti_file_dtype from,
                                                                const unsigned char *in) {
    if (from == CTI_FILE_BF16) return (uint16_t)little_endian_read(in, 2);
    if (from == CTI_FILE_F64) return cti_bf16_narrow(real_of(from, in));
    return cti_bf16_of_f32(as_float(read_f32_bits(from, in)));
}

/* A loop for each dtype of the file has no branch, so compilers vectorize it: f32 to bf16 takes
 * an eighth of the time. */
static inline __attribute__((always_inline)) void convert_from(const cti_file_dtype from,
                                                               ct_dtype to, const unsigned char *in,
                                                               char *out, int64_t n) {
    const int64_t size = cti_file_dtype_bits(from) / 8;
    for (int64_t i = 0; to == CT_F32 && i < n; i++) {
        const uint32_t bits = read_f32_bits(from, in + size * i);
        memcpy(out + 4 * i, &bits, 4);
    }
    for (int64_t i = 0; to == CT_F64 && i < n; i++) {
        const double value = real_of(from, in + size * i);
        memcpy(out + 8 * i, &value, 8);
    }
    for (int64_t i = 0; to == CT_BF16 && i < n; i++) {
        const uint16_t bits = read_bf16(from, in + size * i);
        memcpy(out + 2 * i, &bits, 2);
    }
}
static void to_floats(cti_file_dtype from, ct_dtype to, const unsigned char *in, char *out,
                      int64_t n) {
    switch (from) {
    case CTI_FILE_F16: convert_from(CTI_FILE_F16, to, in, out, n); break;
    case CTI_FILE_BF16: convert_from(CTI_FILE_BF16, to, in, out, n); break;
    case CTI_FILE_F32: convert_from(CTI_FILE_F32, to, in, out, n); break;
    default: convert_from(CTI_FILE_F64, to, in, out, n);
    }
}

/* Returns the index of the first number beyond i64, which only U64 can have; n if there is none. */
static int64_t to_i64(cti_file_dtype from, const unsigned char *in, char *out, int64_t n) {
    const bool is_signed = from == CTI_FILE_I8 || from == CTI_FILE_I16 || from == CTI_FILE_I32;
    const int size = cti_file_dtype_bits(from) / 8;
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = little_endian_read(in + size * i, size);
        if (from == CTI_FILE_U64 && bits > INT64_MAX) return i;
        if (is_signed) bits = (bits ^ sign) - sign;
        memcpy(out + 8 * i, &bits, 8);
    }
    return n;
}

/* Returns the index of the first byte that is not 0 or 1; n if there is none. */
static int64_t to_bool(const unsigned char *in, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (in[i] > 1) return i;
        out[i] = (char)in[i];
    }
    return n;
}

static bool bool_refuse(const cti_file_tensor *from, int byte, int64_t i) {
    const cti_file *file = from->file;
    return ct_fail(file->context, CT_ERR_FORMAT,
                   "%s: %s: tensor \"%s\": the byte of a bool is %d, not 0 or 1, at byte %lld",
                   file->op, file->path, NAME(from->name), byte,
                   (long long)(from->data + from->begin + i));
}

static bool u64_refuse(const cti_file_tensor *from, uint64_t value, int64_t i) {
    const cti_file *file = from->file;
    return ct_fail(file->context, CT_ERR_DTYPE,
                   "%s: %s: tensor \"%s\": the U64 %llu is beyond i64, at byte %lld", file->op,
                   file->path, NAME(from->name), (unsigned long long)value,
                   (long long)(from->data + from->begin + 8 * i));
}

/* ---- values of blocks, and values with an offset ---- */

static void floats_to(const float *in, ct_dtype to, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double value = (double)in[i];
        const uint16_t bits = cti_bf16_of_f32(in[i]);
        if (to == CT_F32) memcpy(out + 4 * i, &in[i], 4);
        if (to == CT_F64) memcpy(out + 8 * i, &value, 8);
        if (to == CT_BF16) memcpy(out + 2 * i, &bits, 2);
    }
}

/* Subtracts the file's offset. values: the widened values of blocks, or NULL. */
static void values_shift(const cti_file_tensor *from, const unsigned char *in, const float *values,
                         ct_dtype to, char *out, int64_t n) {
    const int64_t size = cti_file_dtype_bits(from->dtype) / 8;
    for (int64_t i = 0; i < n; i++) {
        const double value =
            (values ? (double)values[i] : real_of(from->dtype, in + size * i)) - from->offset;
        const float narrow = (float)value;
        const uint16_t bits = cti_bf16_narrow(value);
        if (to == CT_F32) memcpy(out + 4 * i, &narrow, 4);
        if (to == CT_F64) memcpy(out + 8 * i, &value, 8);
        if (to == CT_BF16) memcpy(out + 2 * i, &bits, 2);
    }
}

/* ---- reading ---- */

enum {
    BLOCK_CHUNK = VALUES_CHUNK / sizeof(float)
}; /* elements of blocks that are read at a time */

typedef struct {
    const cti_file_tensor *from;
    ct_tensor *to;
    /* whether the file has the bytes of the tensor: they are read into it, without the chunk.
     * The bytes of a bool are not, as each is checked */
    bool copies;
    unsigned char *chunk; /* bytes of the file */
    float *widened;       /* [BLOCK_CHUNK] if from is blocks */
    float *rounded;       /* [BLOCK_CHUNK] what is rounded, if `to` is of blocks */
    bool blocks;
    cti_block block;
} values_reading;

/* Converts the n elements of the chunk, of which the first is element i of the file, into `out`. */
static bool chunk_convert(const values_reading *r, int64_t i, char *out, int64_t n) {
    const cti_file_tensor *from = r->from;
    const ct_dtype to = r->rounded ? CT_F32 : r->to->dtype;
    int64_t wrong;
    if (r->blocks)
        cti_blocks_widen(r->block, r->chunk, r->widened, n / cti_block_elements(r->block));
    if (from->offset != 0 && to != CT_I64 && to != CT_BOOL) {
        values_shift(from, r->chunk, r->blocks ? r->widened : NULL, to, out, n);
        return true;
    }
    if (r->blocks) {
        floats_to(r->widened, to, out, n);
        return true;
    }
    switch (to) {
    case CT_F32:
    case CT_F64:
    case CT_BF16: to_floats(from->dtype, to, r->chunk, out, n); break;
    case CT_I64:
        wrong = to_i64(from->dtype, r->chunk, out, n);
        return wrong == n ||
               u64_refuse(from, little_endian_read(r->chunk + 8 * wrong, 8), i + wrong);
    case CT_BOOL:
        wrong = to_bool(r->chunk, out, n);
        return wrong == n || bool_refuse(from, r->chunk[wrong], i + wrong);
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    return true;
}

/* Converts the chunk into elements [at, at + n) of the tensor. Blocks of the tensor's own type keep
 * their codes and scales. */
static bool chunk_store(const values_reading *r, int64_t i, int64_t at, int64_t n) {
    ct_tensor *to = r->to;
    if (!r->rounded)
        return chunk_convert(r, i, to->data + at * (int64_t)cti_dtype_size(to->dtype), n);
    if (r->blocks && r->block == cti_block_type(to->dtype) && r->from->offset == 0)
        cti_block_matrix_set(to, at, n, r->block, r->chunk);
    else if (chunk_convert(r, i, (char *)r->rounded, n))
        cti_block_matrix_round(to, at, n, r->rounded);
    return true;
}

/* Reads elements that are consecutive in the file. */
static bool run_read(const values_reading *r, int64_t first, int64_t count, int64_t at) {
    const cti_file_tensor *from = r->from;
    const int64_t per = cti_file_dtype_elements(from->dtype), /* of a block, and its bytes */
        size = cti_file_dtype_bits(from->dtype) / 8,
                  step = r->blocks    ? BLOCK_CHUNK
                         : r->rounded ? cti_min(BLOCK_CHUNK, VALUES_CHUNK / size)
                                      : VALUES_CHUNK / size;
    if (first % per != 0 || count % per != 0)
        return ct_fail(from->file->context, CT_ERR_FORMAT,
                       "%s: %s: tensor \"%s\": elements %lld to %lld are not whole blocks of %s",
                       from->file->op, from->file->path, NAME(from->name), (long long)first,
                       (long long)(first + count), cti_file_dtype_name(from->dtype));
    if (r->copies)
        return cti_file_read(from->file, from->data + from->begin + first * size,
                             r->to->data + at * size, (size_t)(count * size));
    for (int64_t done = 0, n; done < count; done += n) {
        n = cti_min(count - done, step);
        const int64_t i = first + done;
        if (!cti_file_read(from->file, from->data + from->begin + i / per * size, r->chunk,
                           (size_t)(n / per * size)) ||
            !chunk_store(r, i, at + done, n))
            return false;
    }
    return true;
}

int64_t cti_row_in_file(cti_row_grid grid, int64_t row) {
    if (!grid.a || (grid.rows && row >= grid.rows)) return row;
    const int64_t c = row % grid.cell, cell = row / grid.cell, j = cell % grid.b,
                  i = cell / grid.b % grid.a, g = cell / grid.b / grid.a;
    return ((g * grid.b + j) * grid.a + i) * grid.cell + c;
}

bool cti_row_grid_fits(cti_row_grid grid, int64_t rows) {
    int64_t group;
    return !grid.a || (!__builtin_mul_overflow(grid.a, grid.b, &group) &&
                       !__builtin_mul_overflow(group, grid.cell, &group) && grid.rows <= rows &&
                       (grid.rows ? grid.rows : rows) % group == 0);
}

/* Reads the range in runs: with a grid, the rows of a cell are consecutive in the file. */
static bool runs_read(const values_reading *r, int64_t first, int64_t count, int64_t at) {
    const cti_row_grid grid = r->from->grid;
    if (!grid.a) return run_read(r, first, count, at);
    const cti_file_tensor *from = r->from;
    const int64_t rows = from->shape.ndim ? from->shape.dim[0] : 1, cols = from->numel / rows;
    if (!cti_row_grid_fits(grid, rows))
        return ct_fail(
            from->file->context, CT_ERR_FORMAT,
            "%s: %s: tensor \"%s\": %lld rows are not whole groups of %lld x %lld x %lld",
            from->file->op, from->file->path, NAME(from->name), (long long)rows, (long long)grid.a,
            (long long)grid.b, (long long)grid.cell);
    for (int64_t done = 0, n; done < count; done += n) {
        const int64_t i = first + done, row = i / cols,
                      end = (row / grid.cell + 1) * grid.cell * cols;
        n = cti_min(count - done, end - i);
        if (!run_read(r, cti_row_in_file(grid, row) * cols + i % cols, n, at + done)) return false;
    }
    return true;
}

bool cti_file_tensor_read(const cti_file_tensor *from, int64_t first, int64_t count, ct_tensor *to,
                          int64_t at) {
    if (count == 0) return true;
    ct_context *context = from->file->context;
    CTI_ASSERT(cti_file_tensor_fits(from->dtype, to->dtype));
    values_reading r = {.from = from, .to = to, .blocks = block_find(from->dtype, &r.block)};
    r.copies = to->dtype != CT_BOOL && from->offset == 0 &&
               cti_file_dtype_is_memory(from->dtype, to->dtype);
    if (r.copies) return runs_read(&r, first, count, at);
    r.chunk = cti_take(context, VALUES_CHUNK);
    if (r.blocks && r.chunk) r.widened = cti_take(context, BLOCK_CHUNK * sizeof(float));
    const bool rounds = cti_is_blocks(to->dtype);
    if (rounds && r.chunk) r.rounded = cti_take(context, BLOCK_CHUNK * sizeof(float));
    const bool ok = r.chunk && (!r.blocks || r.widened) && (!rounds || r.rounded) &&
                    runs_read(&r, first, count, at);
    cti_give(context, r.rounded, BLOCK_CHUNK * sizeof(float));
    cti_give(context, r.widened, BLOCK_CHUNK * sizeof(float));
    cti_give(context, r.chunk, VALUES_CHUNK);
    return ok;
}

bool cti_safetensors_same_values(const ct_tensor *a, const ct_tensor *b) {
    return a->numel == 0 || !memcmp(a->data, b->data, (size_t)cti_dtype_bytes(a->dtype, a->numel));
}

ct_tensor *cti_number_new(ct_context *context, ct_dtype dtype, const void *value) {
    ct_tensor *number = cti_tensor_new(context, dtype, CT_SCALAR);
    if (number) memcpy(number->data, value, cti_dtype_size(dtype));
    return number;
}

void cti_number_get(const ct_tensor *number, void *value) {
    memcpy(value, number->data, cti_dtype_size(number->dtype));
}
