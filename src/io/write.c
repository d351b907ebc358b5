/* Writes a safetensors file: checks, the header, and the data, which are converted in chunks. */
#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "../core/block_matrix.h"
#include "../kernels/half.h"
#include "list.h"
#include "safetensors.h"

enum { WRITE_CHUNK = 1 << 16 }; /* bytes converted and written at a time */

/* ---- checks ---- */

static bool text_check(ct_context *context, const char *op, const char *path, const char *what,
                       const char *text) {
    if (cti_json_utf8(text, strlen(text)) == strlen(text)) return true;
    return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: %s is not UTF-8 at byte %zu", op, path, what,
                   cti_json_utf8(text, strlen(text)));
}

static int by_string(const void *a, const void *b) { return strcmp(a, b); }

/* Sorts the strings and checks that no two are equal. */
static bool names_check_twice(ct_context *context, const char *op, const char *path,
                              const char *what, const void **string, int64_t n) {
    if (!cti_list_sort(context, string, n, by_string)) return false;
    const char *repeat = cti_list_repeat(string, n, by_string);
    return !repeat || ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: %s \"%s\" is there twice", op,
                              path, what, NAME(cti_text_of(repeat)));
}

static bool metadata_check(ct_context *context, const char *op, const char *path,
                           const char *const *metadata) {
    int64_t n = 0;
    for (; metadata && metadata[2 * n]; n++) {
        if (!metadata[2 * n + 1])
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: a metadata key without a value", op,
                           path);
        if (!text_check(context, op, path, "a metadata key", metadata[2 * n]) ||
            !text_check(context, op, path, "a metadata value", metadata[2 * n + 1])) {
            return false;
        }
    }
    size_t bytes = cti_bytes(n, sizeof(void *));
    const void **key = cti_take(context, bytes);
    if (!key) return false;
    for (int64_t i = 0; i < n; i++) key[i] = metadata[2 * i];
    bool ok = names_check_twice(context, op, path, "metadata key", key, n);
    cti_give(context, key, bytes);
    return ok;
}

static bool written_tensor_check(ct_context *context, const char *op, const char *path,
                                 const ct_named *named, int64_t i) {
    if (!named->name)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: the name of tensor %lld is NULL", op,
                       path, (long long)i);
    if (!text_check(context, op, path, "a name", named->name)) return false;
    if (strcmp(named->name, "__metadata__") == 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: no tensor can have the name __metadata__",
                       op, path);
    if (!named->tensor)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: tensor \"%s\" is NULL", op, path,
                       NAME(cti_text_of(named->name)));
    return cti_tensor_in(named->tensor, context, op) && cti_tensor_has_values(named->tensor, op);
}

bool cti_safetensors_check(ct_context *context, const char *op, const char *path,
                           const ct_named *named, int64_t n, ct_save_opts opts) {
    if (opts.floats == CT_FILE_Q8_0 || opts.floats == CT_FILE_Q4_0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: a safetensors file has no blocks", op,
                       path);
    if (opts.floats < CT_FILE_SAME || opts.floats > CT_FILE_Q4_0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: floats is %d, no ct_file_float", op, path,
                       (int)opts.floats);
    if (opts.shard_bytes < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: shard_bytes is %lld, must be at least 0",
                       op, path, (long long)opts.shard_bytes);
    if (!metadata_check(context, op, path, opts.metadata)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!written_tensor_check(context, op, path, &named[i], i)) return false;
    size_t bytes = cti_bytes(n, sizeof(void *));
    const void **name = cti_take(context, bytes);
    if (!name) return false;
    for (int64_t i = 0; i < n; i++) name[i] = named[i].name;
    bool ok = names_check_twice(context, op, path, "tensor", name, n);
    cti_give(context, name, bytes);
    return ok;
}

/* ---- dtypes ---- */

/* The file's dtype for floats. `same` is the file's dtype that equals their own. */
static cti_file_dtype stored_float(ct_file_float floats, cti_file_dtype same) {
    switch (floats) {
    case CT_FILE_SAME: return same;
    case CT_FILE_F32: return CTI_FILE_F32;
    case CT_FILE_F16: return CTI_FILE_F16;
    case CT_FILE_BF16: return CTI_FILE_BF16;
    case CT_FILE_Q8_0:
    case CT_FILE_Q4_0: break;
    }
    CTI_ASSERT(false); /* cti_safetensors_check refuses other numbers */
    return same;
}

static cti_file_dtype stored_as(ct_dtype dtype, ct_file_float floats) {
    switch (dtype) {
    case CT_F32: return stored_float(floats, CTI_FILE_F32);
    case CT_F64: return stored_float(floats, CTI_FILE_F64);
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0: return stored_float(floats, CTI_FILE_BF16);
    case CT_I64: return CTI_FILE_I64;
    case CT_BOOL: return CTI_FILE_BOOL;
    }
    CTI_ASSERT(false); /* no tensor has another dtype */
    return CTI_FILE_DTYPE_COUNT;
}

/* The bytes of an element in the file. */
static int64_t stored_size(const ct_tensor *tensor, ct_file_float floats) {
    return cti_file_dtype_bits(stored_as(tensor->dtype, floats)) / 8;
}

int64_t cti_file_bytes(const ct_tensor *tensor, ct_file_float floats) {
    return tensor->numel * stored_size(tensor, floats);
}

/* ---- the header ---- */

static void metadata_write(cti_writer *out, const char *const *metadata) {
    cti_string_write(out, "\"__metadata__\":{");
    for (int64_t i = 0; metadata[i]; i += 2) {
        if (i) cti_string_write(out, ",");
        cti_quoted_write(out, cti_text_of(metadata[i]));
        cti_string_write(out, ":");
        cti_quoted_write(out, cti_text_of(metadata[i + 1]));
    }
    cti_string_write(out, "}");
}

static int64_t entry_write(cti_writer *out, const ct_named *named, ct_file_float floats,
                           int64_t begin) {
    const ct_tensor *tensor = named->tensor;
    int64_t end = begin + cti_file_bytes(tensor, floats);
    cti_quoted_write(out, cti_text_of(named->name));
    cti_string_write(out, ":{\"dtype\":\"");
    cti_string_write(out, cti_file_dtype_name(stored_as(tensor->dtype, floats)));
    cti_string_write(out, "\",\"shape\":[");
    for (int d = 0; d < tensor->shape.ndim; d++) {
        if (d) cti_string_write(out, ",");
        cti_natural_write(out, tensor->shape.dim[d]);
    }
    cti_string_write(out, "],\"data_offsets\":[");
    cti_natural_write(out, begin);
    cti_string_write(out, ",");
    cti_natural_write(out, end);
    cti_string_write(out, "]}");
    return end;
}

/* A visit of the tensors in the order of the file: by the size of their elements, largest first.
 * Tensors of one size are visited in the given order. */
typedef struct {
    const ct_named *named;
    int64_t n, i;
    ct_file_float floats;
    int64_t size; /* the size that is visited now, of tensors i to n - 1; 0 at the end */
} file_order;
enum { LARGEST_ELEMENT = 8 };

static const ct_named *next(file_order *order) {
    while (order->size) {
        while (order->i < order->n) {
            const ct_named *entry = &order->named[order->i++];
            if (stored_size(entry->tensor, order->floats) == order->size) return entry;
        }
        order->size /= 2;
        order->i = 0;
    }
    return NULL;
}

static file_order order_of(const ct_named *named, int64_t n, ct_file_float floats) {
    return (file_order){.named = named, .n = n, .floats = floats, .size = LARGEST_ELEMENT};
}

/* Writes the length, then the JSON, padded with spaces so that the data begin at a multiple of 8.
 */
static void header_write(cti_writer *out, const ct_named *named, int64_t n, ct_save_opts opts,
                         uint64_t length) {
    const char *const *metadata = opts.metadata;
    for (int i = 0; i < 8; i++) cti_bytes_write(out, &(char){(char)(length >> 8 * i & 0xFF)}, 1);
    cti_string_write(out, "{");
    bool first = !(metadata && metadata[0]);
    if (!first) metadata_write(out, metadata);
    int64_t offset = 0;
    file_order order = order_of(named, n, opts.floats);
    for (const ct_named *entry = next(&order); entry; entry = next(&order)) {
        if (!first) cti_string_write(out, ",");
        first = false;
        offset = entry_write(out, entry, opts.floats, offset);
    }
    cti_string_write(out, "}");
    while (out->used % 8) cti_string_write(out, " ");
}

/* ---- the data ---- */

/* Copies elements [first, first + n) of a tensor, in row-major order, into out; of blocks as f32.
 */
static void elements_gather(const ct_tensor *tensor, int64_t first, int64_t n, char *out) {
    const int64_t cols = cti_is_blocks(tensor->dtype) ? tensor->shape.dim[1] : 0;
    for (int64_t i = 0, count; cols && i < n; i += count) {
        const int64_t row = (first + i) / cols, at = (first + i) % cols;
        count = cti_min(cols - at, n - i);
        cti_block_row_widen(tensor, row, at, count, (float *)(void *)out + i);
    }
    if (cols) return;
    const size_t size = cti_dtype_size(tensor->dtype);
    if (tensor->contiguous) {
        memcpy(out, tensor->data + (size_t)first * size, (size_t)n * size);
        return;
    }
    int64_t index[CT_MAX_DIMS] = {0}, offset = 0, left = first;
    const int dims = tensor->shape.ndim;
    for (int d = dims; d-- > 0; left /= tensor->shape.dim[d]) {
        index[d] = left % tensor->shape.dim[d];
        offset += index[d] * tensor->stride[d];
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(out + (size_t)i * size, tensor->data + offset * (int64_t)size, size);
        for (int d = dims; d-- > 0;) {
            offset += tensor->stride[d];
            if (++index[d] < tensor->shape.dim[d]) break;
            offset -= index[d] * tensor->stride[d];
            index[d] = 0;
        }
    }
}

/* The number in an element of a float dtype. */
static double real_at(ct_dtype dtype, const char *at) {
    double wide;
    float narrow;
    uint16_t half;
    uint32_t bits;
    switch (dtype) {
    case CT_F64: memcpy(&wide, at, sizeof wide); return wide;
    case CT_F32: memcpy(&narrow, at, sizeof narrow); return (double)narrow;
    case CT_BF16:
        memcpy(&half, at, sizeof half);
        bits = cti_bf16_widen(half);
        memcpy(&narrow, &bits, sizeof narrow);
        return (double)narrow;
    case CT_I64:
    case CT_BOOL:
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    CTI_ASSERT(false); /* integers and bools are not converted, and blocks are f32 here */
    return (double)NAN;
}

/* The bits of an element as the file has it, in their lowest bytes. */
static uint64_t element_encode(ct_dtype from, cti_file_dtype to, const char *at) {
    uint64_t bits = 0;
    uint32_t low;
    uint16_t half;
    float value;
    switch (to) {
    case CTI_FILE_F16: return cti_f16_narrow(real_at(from, at));
    case CTI_FILE_BF16:
        if (from != CT_BF16) return cti_bf16_narrow(real_at(from, at));
        memcpy(&half, at, sizeof half); /* copies all bits, also of a NaN */
        return half;
    case CTI_FILE_F32:
        memcpy(&low, at, sizeof low); /* copies all bits of a float, also of a NaN */
        if (from == CT_F32) return low;
        value = (float)real_at(from, at);
        memcpy(&low, &value, sizeof low);
        return low;
    case CTI_FILE_BOOL: return (unsigned char)*at;
    default:
        CTI_ASSERT(to == CTI_FILE_F64 || to == CTI_FILE_I64);
        memcpy(&bits, at, sizeof bits);
        return bits;
    }
}

/* Encodes n elements. f32 to bf16 has a loop that compilers vectorize: it takes a sixth of
 * the time. */
static void elements_encode(ct_dtype from, cti_file_dtype to, const char *in, unsigned char *out,
                            int64_t n) {
    const int64_t size = (int64_t)cti_dtype_size(from), bytes = cti_file_dtype_bits(to) / 8;
    if (from == CT_F32 && to == CTI_FILE_BF16) {
        for (int64_t i = 0; i < n; i++) {
            float value;
            memcpy(&value, in + 4 * i, sizeof value);
            const uint16_t bits = cti_bf16_of_f32(value);
            out[2 * i] = (unsigned char)bits, out[2 * i + 1] = (unsigned char)(bits >> 8);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = element_encode(from, to, in + i * size);
        for (int64_t b = 0; b < bytes; b++) out[i * bytes + b] = (unsigned char)(bits >> 8 * b);
    }
}

/* Writes a tensor in chunks: elements in the first half of the room, and what the file has of them
 * in the second. */
static bool converted_write(const cti_file_new *file, const ct_tensor *tensor, cti_file_dtype to) {
    char *room = cti_take(file->context, 2 * WRITE_CHUNK);
    bool ok = room != NULL;
    const ct_dtype from = cti_is_blocks(tensor->dtype) ? CT_F32 : tensor->dtype;
    const int64_t size = (int64_t)cti_dtype_size(from), bytes = cti_file_dtype_bits(to) / 8,
                  step = WRITE_CHUNK / cti_max(size, bytes);
    for (int64_t i = 0; ok && i < tensor->numel; i += step) {
        const int64_t n = cti_min(tensor->numel - i, step);
        elements_gather(tensor, i, n, room);
        elements_encode(from, to, room, (unsigned char *)room + WRITE_CHUNK, n);
        ok = cti_file_new_write(file, room + WRITE_CHUNK, (size_t)(n * bytes));
    }
    cti_give(file->context, room, 2 * WRITE_CHUNK);
    return ok;
}

static bool tensor_write(const cti_file_new *file, const ct_tensor *tensor, ct_file_float floats) {
    const cti_file_dtype to = stored_as(tensor->dtype, floats);
    const size_t size = cti_dtype_size(tensor->dtype);
    if (tensor->numel == 0) return true;
    if (tensor->contiguous && cti_file_dtype_is_memory(to, tensor->dtype))
        return cti_file_new_write(file, tensor->data, (size_t)tensor->numel * size);
    return converted_write(file, tensor, to);
}

bool cti_safetensors_write(const cti_file_new *file, const ct_named *named, int64_t n,
                           ct_save_opts opts) {
    cti_writer out = {0}; /* without a buffer it measures the header */
    header_write(&out, named, n, opts, 0);
    if (out.used - 8 > CTI_LARGEST_HEADER) {
        return ct_fail(file->context, CT_ERR_ARGUMENT, "%s: %s: a header of %zu bytes, over %d",
                       file->op, file->path, out.used - 8, CTI_LARGEST_HEADER);
    }
    size_t bytes = out.used;
    char *header = cti_take(file->context, bytes);
    if (!header) return false;
    out = (cti_writer){.at = header, .size = bytes};
    header_write(&out, named, n, opts, bytes - 8);
    bool ok = cti_file_new_write(file, header, bytes);
    cti_give(file->context, header, bytes);
    file_order order = order_of(named, n, opts.floats);
    for (const ct_named *entry = next(&order); ok && entry; entry = next(&order))
        ok = tensor_write(file, entry->tensor, opts.floats);
    return ok;
}
