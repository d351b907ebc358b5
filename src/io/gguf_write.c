/* Writes GGUF files. Keys are appended to a block that grows; values are converted in chunks by all
 * threads. The bytes are those that gguf-py writes for the same keys and tensors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../core/block_matrix.h"
#include "../core/context.h"
#include "../core/int_math.h"
#include "../core/parallel.h"
#include "../kernels/half.h"
#include "gguf.h"
#include "list.h"
#include "set.h"

enum {
    GGUF_VERSION = 3,
    GGUF_ALIGNMENT = 32,
    TENSOR_NAME = 64, /* with the NUL */
    TENSOR_DIMS = 4,  /* at most */
    INFO_BYTES = 8 + TENSOR_NAME + 4 + 8 * TENSOR_DIMS + 4 + 8,
    UNIT = 256,         /* elements that are converted at a time: whole blocks */
    UNITS = 1024,       /* of a chunk, which is written at once */
    UNITS_OF_TASK = 64, /* of a range that a thread takes */
    MOST_TEXT = 1 << 30 /* bytes of a text, and elements of an array, that llama.cpp reads */
};

struct cti_gguf_tensor {
    const ct_tensor *tensor;
    char name[TENSOR_NAME];
    cti_file_dtype type;
    cti_row_grid inverse; /* gives the row of the tensor for a row of the file */
    double offset;
    /* The sizes and strides in the order of the file, outermost first: a matrix that is transposed
     * has them swapped, and a vector whose rows have another order has a second dim of 1. */
    int dims, shown; /* shown: those that the file has */
    int64_t dim[TENSOR_DIMS], stride[TENSOR_DIMS];
    int64_t bytes;
};

/* ---- keys ---- */

bool cti_gguf_out_begin(ct_context *context, const char *op, const char *path, cti_gguf_out *out) {
    *out = (cti_gguf_out){.context = context, .op = op, .path = path};
    return true;
}

void cti_gguf_out_end(cti_gguf_out *out) {
    cti_give(out->context, out->text, (size_t)out->room);
    cti_give(out->context, out->pair, (size_t)out->pair_room * sizeof *out->pair);
    cti_give(out->context, out->tensor, (size_t)out->tensor_room * sizeof *out->tensor);
    *out = (cti_gguf_out){.context = out->context, .op = out->op, .path = out->path};
}

static void raw_append(cti_gguf_out *out, const void *bytes, size_t n) {
    if (out->failed) return;
    if ((int64_t)n > out->room - out->used) {
        const int64_t room = cti_max(2 * out->room, cti_max(out->used + (int64_t)n, 1 << 12));
        unsigned char *text = cti_take(out->context, (size_t)room);
        out->failed = !text;
        if (!text) return;
        if (out->used) memcpy(text, out->text, (size_t)out->used);
        cti_give(out->context, out->text, (size_t)out->room);
        out->text = text;
        out->room = room;
    }
    if (n) memcpy(out->text + out->used, bytes, n);
    out->used += (int64_t)n;
}

static void little_put(unsigned char *at, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(number >> 8 * i & 0xFF);
}

static void number_append(cti_gguf_out *out, uint64_t number, int bytes) {
    unsigned char little[8];
    little_put(little, number, bytes);
    raw_append(out, little, (size_t)bytes);
}

static void string_append(cti_gguf_out *out, cti_text text) {
    if (text.size > MOST_TEXT && !out->failed)
        out->failed =
            !ct_fail(out->context, CT_ERR_ARGUMENT, "%s: %s: a text of %zu bytes, over %d", out->op,
                     out->path, text.size, MOST_TEXT);
    number_append(out, text.size, 8);
    raw_append(out, text.at, text.size);
}

static void key_append(cti_gguf_out *out, const char *key, cti_gguf_kind kind) {
    CTI_ASSERT(out->failed || out->missing == 0); /* the array before it is whole */
    if (out->failed) return;
    const cti_text text = cti_text_of(key);
    int64_t *more =
        cti_list_grow(out->context, out->pair, out->pairs, &out->pair_room, sizeof *out->pair);
    out->failed = !more;
    if (!more) return;
    out->pair = more;
    out->pair[out->pairs++] = out->used;
    if (text.size == 0 || cti_json_utf8(text.at, text.size) < text.size)
        out->failed =
            !ct_fail(out->context, CT_ERR_ARGUMENT, "%s: %s: key \"%s\" is empty or not UTF-8",
                     out->op, out->path, NAME(text));
    string_append(out, text);
    number_append(out, (uint64_t)kind, 4);
}

static uint32_t f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void cti_gguf_put_text(cti_gguf_out *out, const char *key, cti_text text) {
    key_append(out, key, CTI_GGUF_STRING);
    string_append(out, text);
}
void cti_gguf_put_u32(cti_gguf_out *out, const char *key, uint32_t value) {
    key_append(out, key, CTI_GGUF_U32);
    number_append(out, value, 4);
}
void cti_gguf_put_i32(cti_gguf_out *out, const char *key, int32_t value) {
    key_append(out, key, CTI_GGUF_I32);
    number_append(out, (uint32_t)value, 4);
}
void cti_gguf_put_f32(cti_gguf_out *out, const char *key, float value) {
    key_append(out, key, CTI_GGUF_F32);
    number_append(out, f32_bits(value), 4);
}
void cti_gguf_put_flag(cti_gguf_out *out, const char *key, bool value) {
    key_append(out, key, CTI_GGUF_BOOL);
    number_append(out, value, 1);
}

void cti_gguf_put_array(cti_gguf_out *out, const char *key, cti_gguf_kind kind, int64_t count) {
    CTI_ASSERT(count >= 0);
    if (count > MOST_TEXT && !out->failed)
        out->failed = !ct_fail(out->context, CT_ERR_ARGUMENT,
                               "%s: %s: key \"%s\": an array of %lld elements, over %d", out->op,
                               out->path, NAME(cti_text_of(key)), (long long)count, MOST_TEXT);
    if (count == 0) return;
    key_append(out, key, CTI_GGUF_ARRAY);
    number_append(out, (uint64_t)kind, 4);
    number_append(out, (uint64_t)count, 8);
    out->kind = kind;
    out->missing = count;
}

static void element_count(cti_gguf_out *out, cti_gguf_kind kind) {
    CTI_ASSERT(out->failed || (out->missing > 0 && out->kind == kind));
    (void)kind;
    out->missing--;
}

void cti_gguf_add_text(cti_gguf_out *out, cti_text text) {
    element_count(out, CTI_GGUF_STRING);
    string_append(out, text);
}
void cti_gguf_add_u32(cti_gguf_out *out, uint32_t value) {
    element_count(out, CTI_GGUF_U32);
    number_append(out, value, 4);
}
void cti_gguf_add_i32(cti_gguf_out *out, int32_t value) {
    element_count(out, CTI_GGUF_I32);
    number_append(out, (uint32_t)value, 4);
}
void cti_gguf_add_f32(cti_gguf_out *out, float value) {
    element_count(out, CTI_GGUF_F32);
    number_append(out, f32_bits(value), 4);
}
void cti_gguf_add_flag(cti_gguf_out *out, bool value) {
    element_count(out, CTI_GGUF_BOOL);
    number_append(out, value, 1);
}

/* ---- tensors ---- */

CT_FORMAT(3, 4)
static bool tensor_fail(const cti_gguf_out *out, const char *name, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ct_fail(out->context, CT_ERR_ARGUMENT, "%s: %s: tensor \"%s\": %s", out->op, out->path,
                   NAME(cti_text_of(name)), what);
}

static bool tensor_check(const cti_gguf_out *out, const char *name, const ct_tensor *tensor,
                         cti_file_dtype type, cti_row_grid grid, bool transposed) {
    const size_t length = strlen(name);
    if (!cti_tensor_in(tensor, out->context, out->op) || !cti_tensor_has_values(tensor, out->op))
        return false;
    if (length >= TENSOR_NAME || cti_json_utf8(name, length) < length)
        return tensor_fail(out, name, "its name has %zu bytes, over %d, or is not UTF-8", length,
                           TENSOR_NAME - 1);
    if (tensor->dtype != CT_F32 && tensor->dtype != CT_F64 && tensor->dtype != CT_BF16 &&
        !cti_is_blocks(tensor->dtype))
        return tensor_fail(out, name, "is %s, and floats are written",
                           cti_dtype_name(tensor->dtype));
    if (type != CTI_FILE_F32 && type != CTI_FILE_F16 && type != CTI_FILE_BF16 &&
        type != CTI_FILE_Q8_0 && type != CTI_FILE_Q4_0)
        return tensor_fail(out, name, "%s is not written: F32, F16, BF16, Q8_0 or Q4_0",
                           cti_file_dtype_name(type));
    const int dims = tensor->shape.ndim;
    if (dims > TENSOR_DIMS || (transposed && dims != 2))
        return tensor_fail(out, name, "it has %d dims", dims);
    const int64_t row = dims ? tensor->shape.dim[transposed ? 0 : dims - 1] : 1,
                  rows = dims ? tensor->shape.dim[transposed ? 1 : 0] : 1;
    if (row % cti_file_dtype_elements(type) != 0)
        return tensor_fail(out, name, "a row of %lld is not whole blocks of %s", (long long)row,
                           cti_file_dtype_name(type));
    if (!cti_row_grid_fits(grid, rows))
        return tensor_fail(out, name, "%lld rows are not whole groups of heads", (long long)rows);
    return true;
}

/* Sets dims, dim and stride. */
static void order_set(cti_gguf_tensor *to, bool transposed) {
    const ct_tensor *tensor = to->tensor;
    to->dims = to->shown = tensor->shape.ndim;
    for (int d = 0; d < to->dims; d++) {
        const int of = transposed ? 1 - d : d;
        to->dim[d] = tensor->shape.dim[of];
        to->stride[d] = tensor->stride[of];
    }
    for (; to->dims == 0 || (to->dims == 1 && to->inverse.a); to->dims++) to->dim[to->dims] = 1;
}

void cti_gguf_put_tensor(cti_gguf_out *out, const char *name, const ct_tensor *tensor,
                         cti_file_dtype type, cti_row_grid grid, double offset, bool transposed) {
    if (out->failed) return;
    out->failed = !tensor_check(out, name, tensor, type, grid, transposed);
    cti_gguf_tensor *more = out->failed ? NULL
                                        : cti_list_grow(out->context, out->tensor, out->tensors,
                                                        &out->tensor_room, sizeof *out->tensor);
    out->failed = !more;
    if (!more) return;
    out->tensor = more;
    cti_gguf_tensor *to = &out->tensor[out->tensors];
    *to = (cti_gguf_tensor){
        .tensor = tensor,
        .type = type,
        .inverse = {.a = grid.a ? grid.b : 0, .b = grid.a, .cell = grid.cell, .rows = grid.rows},
        .offset = offset};
    memcpy(to->name, name, strlen(name) + 1);
    order_set(to, transposed);
    int64_t blocks = tensor->numel / cti_file_dtype_elements(type);
    if (__builtin_mul_overflow(blocks, cti_file_dtype_bits(type) / 8, &to->bytes) ||
        to->bytes > INT64_MAX / 2)
        out->failed =
            !tensor_fail(out, name, "%lld elements are too many", (long long)tensor->numel);
    out->tensors++;
}

/* ---- values ---- */

/* A chunk: elements [first, first + n) of the file's tensor become bytes. */
typedef struct {
    const cti_gguf_tensor *of;
    int64_t first, n;
    unsigned char *bytes;
} gguf_chunk;

/* The offset, in elements of the tensor, of element i of the file. */
static int64_t element_place(const cti_gguf_tensor *of, int64_t i) {
    int64_t offset = 0;
    for (int d = of->dims; d-- > 0; i /= of->dim[d]) {
        const int64_t index = i % of->dim[d];
        offset += (d == 0 ? cti_row_in_file(of->inverse, index) : index) * of->stride[d];
    }
    return offset;
}

/* Widens n elements of a matrix of blocks, `step` apart. */
static void blocks_gather(const ct_tensor *t, int64_t place, int64_t step, int64_t n, float *out) {
    const int64_t cols = t->shape.dim[1];
    if (step == 1) {
        cti_block_row_widen(t, place / cols, place % cols, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i++) out[i] = (float)cti_block_element(t, place + i * step);
}

/* Writes n elements from the file's element `first` on to `narrow`, and those of f64 to `wide`. */
static void unit_gather(const cti_gguf_tensor *of, int64_t first, int64_t n, float *narrow,
                        double *wide) {
    const int64_t last = of->dim[of->dims - 1], step = of->stride[of->dims - 1];
    const ct_dtype dtype = of->tensor->dtype;
    for (int64_t done = 0, run; done < n; done += run) {
        const int64_t place = element_place(of, first + done);
        run = cti_min(n - done, last - (first + done) % last);
        if (cti_is_blocks(dtype)) {
            blocks_gather(of->tensor, place, step, run, narrow + done);
            continue;
        }
        for (int64_t i = 0; i < run; i++) {
            const char *at = of->tensor->data + (place + i * step) * (int64_t)cti_dtype_size(dtype);
            uint16_t half;
            if (dtype == CT_F32) {
                memcpy(&narrow[done + i], at, sizeof *narrow);
            } else if (dtype == CT_F64) {
                memcpy(&wide[done + i], at, sizeof *wide);
                narrow[done + i] = (float)wide[done + i];
            } else {
                memcpy(&half, at, sizeof half);
                const uint32_t bits = cti_bf16_widen(half);
                memcpy(&narrow[done + i], &bits, sizeof bits);
            }
        }
    }
    if (of->offset == 0) return;
    for (int64_t i = 0; i < n; i++) {
        wide[i] += of->offset;
        narrow[i] = dtype == CT_F64 ? (float)wide[i] : narrow[i] + (float)of->offset;
    }
}

static void unit_encode(const cti_gguf_tensor *of, const float *narrow, const double *wide,
                        int64_t n, unsigned char *out) {
    const bool f64 = of->tensor->dtype == CT_F64;
    if (of->type == CTI_FILE_Q8_0 || of->type == CTI_FILE_Q4_0) {
        cti_blocks_round(of->type == CTI_FILE_Q8_0 ? CTI_BLOCK_Q8_0 : CTI_BLOCK_Q4_0, narrow, out,
                         n / 32);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double value = f64 ? wide[i] : (double)narrow[i];
        if (of->type == CTI_FILE_F32) {
            little_put(out + 4 * i, f32_bits(narrow[i]), 4);
        } else {
            little_put(out + 2 * i,
                       of->type == CTI_FILE_F16 ? cti_f16_narrow(value)
                       : f64                    ? cti_bf16_narrow(value)
                                                : cti_bf16_of_f32(narrow[i]),
                       2);
        }
    }
}

static void chunk_encode(void *arg, int64_t begin, int64_t end, int worker) {
    const gguf_chunk *chunk = arg;
    const int64_t per = cti_file_dtype_elements(chunk->of->type),
                  bytes = cti_file_dtype_bits(chunk->of->type) / 8;
    (void)worker;
    for (int64_t i = begin * UNIT; i < end * UNIT && i < chunk->n; i += UNIT) {
        float narrow[UNIT];
        double wide[UNIT] = {0};
        const int64_t n = cti_min(UNIT, chunk->n - i);
        unit_gather(chunk->of, chunk->first + i, n, narrow, wide);
        unit_encode(chunk->of, narrow, wide, n, chunk->bytes + i / per * bytes);
    }
}

/* Whether the file has the tensor's own blocks, whose codes and scales are then kept. */
static bool keeps_codes(const cti_gguf_tensor *of) {
    return ((of->tensor->dtype == CT_Q8_0 && of->type == CTI_FILE_Q8_0) ||
            (of->tensor->dtype == CT_Q4_0 && of->type == CTI_FILE_Q4_0)) &&
           of->offset == 0 && of->stride[1] == 1;
}

static bool codes_write(const cti_file_new *file, const cti_gguf_tensor *of) {
    const size_t bytes = of->tensor->numel ? (size_t)(of->bytes / of->dim[0]) : 0;
    unsigned char *row = cti_take(file->context, bytes);
    bool ok = row != NULL;
    for (int64_t i = 0; ok && bytes && i < of->dim[0]; i++) {
        cti_block_matrix_get_rows(of->tensor, cti_row_in_file(of->inverse, i), 1, row);
        ok = cti_file_new_write(file, row, bytes);
    }
    cti_give(file->context, row, bytes);
    return ok;
}

static bool values_write(const cti_file_new *file, const cti_gguf_tensor *of,
                         unsigned char *bytes) {
    if (keeps_codes(of)) return codes_write(file, of);
    const int64_t numel = of->tensor->numel, per = cti_file_dtype_elements(of->type),
                  size = cti_file_dtype_bits(of->type) / 8;
    for (int64_t i = 0, n; i < numel; i += n) {
        n = cti_min(numel - i, UNIT * UNITS);
        gguf_chunk chunk = {.of = of, .first = i, .n = n, .bytes = bytes};
        cti_parallel(file->context, cti_ceil_div(n, UNIT), UNITS_OF_TASK, chunk_encode, &chunk);
        if (!cti_file_new_write(file, bytes, (size_t)(n / per * size))) return false;
    }
    return true;
}

/* ---- the file ---- */

/* Writes zeros up to the alignment behind `size` bytes. */
static bool padding_write(const cti_file_new *file, int64_t size) {
    static const char zeros[GGUF_ALIGNMENT];
    return cti_file_new_write(file, zeros, (size_t)(cti_round_up(size, GGUF_ALIGNMENT) - size));
}

static bool head_write(const cti_file_new *file, const cti_gguf_out *out) {
    unsigned char head[24] = {'G', 'G', 'U', 'F'};
    little_put(head + 4, GGUF_VERSION, 4);
    little_put(head + 8, (uint64_t)out->tensors, 8);
    little_put(head + 16, (uint64_t)out->pairs, 8);
    return cti_file_new_write(file, head, sizeof head) &&
           cti_file_new_write(file, out->text, (size_t)out->used);
}

/* The info's bytes, whose number is returned. */
static int64_t info_put(const cti_gguf_tensor *of, int64_t offset, unsigned char info[INFO_BYTES]) {
    const size_t length = strlen(of->name);
    unsigned char *at = info;
    little_put(at, length, 8);
    memcpy(at + 8, of->name, length);
    at += 8 + length;
    little_put(at, (uint64_t)of->shown, 4);
    at += 4;
    for (int d = of->shown; d-- > 0; at += 8) little_put(at, (uint64_t)of->dim[d], 8);
    little_put(at, (uint64_t)cti_gguf_type(of->type), 4);
    little_put(at + 4, (uint64_t)offset, 8);
    return at + 12 - info;
}

static bool infos_write(const cti_file_new *file, const cti_gguf_out *out) {
    unsigned char info[INFO_BYTES];
    int64_t offset = 0, size = 24 + out->used;
    for (int64_t i = 0; i < out->tensors; i++) {
        const int64_t bytes = info_put(&out->tensor[i], offset, info);
        if (!cti_file_new_write(file, info, (size_t)bytes)) return false;
        size += bytes;
        offset += cti_round_up(out->tensor[i].bytes, GGUF_ALIGNMENT);
    }
    return padding_write(file, size);
}

static bool all_values_write(const cti_file_new *file, const cti_gguf_out *out) {
    enum { CHUNK_BYTES = UNIT * UNITS * sizeof(float) };
    unsigned char *bytes = cti_take(out->context, CHUNK_BYTES);
    bool ok = bytes != NULL;
    for (int64_t i = 0; ok && i < out->tensors; i++)
        ok =
            values_write(file, &out->tensor[i], bytes) && padding_write(file, out->tensor[i].bytes);
    cti_give(out->context, bytes, CHUNK_BYTES);
    return ok;
}

/* ---- checks ---- */

static uint64_t length_of_key(const unsigned char *pair) {
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | pair[i];
    return length;
}
static cti_text written_key(const void *pair) {
    return (cti_text){(const char *)pair + 8, (size_t)length_of_key(pair)};
}
static int by_written_key(const void *a, const void *b) {
    return cti_text_compare(written_key(a), written_key(b));
}
static int by_written_name(const void *a, const void *b) {
    return strcmp(((const cti_gguf_tensor *)a)->name, ((const cti_gguf_tensor *)b)->name);
}

/* Whether no key and no tensor was put twice. */
static bool once_check(const cti_gguf_out *out) {
    const size_t bytes = cti_bytes(cti_max(out->pairs, out->tensors), sizeof(void *));
    const void **item = cti_take(out->context, bytes);
    if (!item) return false;
    for (int64_t i = 0; i < out->pairs; i++) item[i] = out->text + out->pair[i];
    bool ok = cti_list_sort(out->context, item, out->pairs, by_written_key);
    const void *repeat = ok ? cti_list_repeat(item, out->pairs, by_written_key) : NULL;
    if (repeat)
        ok = ct_fail(out->context, CT_ERR_ARGUMENT, "%s: %s: key \"%s\" is there twice", out->op,
                     out->path, NAME(written_key(repeat)));
    for (int64_t i = 0; i < out->tensors; i++) item[i] = &out->tensor[i];
    ok = ok && cti_list_sort(out->context, item, out->tensors, by_written_name);
    const cti_gguf_tensor *twice = ok ? cti_list_repeat(item, out->tensors, by_written_name) : NULL;
    if (twice) ok = tensor_fail(out, twice->name, "is there twice");
    cti_give(out->context, item, bytes);
    return ok;
}

bool cti_gguf_out_write(cti_gguf_out *out) {
    cti_file_new file;
    CTI_ASSERT(out->failed || out->missing == 0);
    if (out->failed || !once_check(out) || !cti_set_settle(out->context, out->op, out->path) ||
        !cti_file_new_open(out->context, out->op, out->path, &file))
        return false;
    cti_file_new_remove_dead(&file);
    if (head_write(&file, out) && infos_write(&file, out) && all_values_write(&file, out))
        return cti_file_new_commit(&file);
    cti_file_new_drop(&file);
    return false;
}
