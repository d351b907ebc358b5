/* Writing a safetensors file. */
#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "safetensors.h"
#include "sort.h"

enum { CHUNK = 1 << 16 }; /* bytes written at a time where they are reversed */

/* ---- checks ---- */

static bool check_text(ct_context *context, const char *op, const char *path, const char *what,
                       const char *text) {
    if (cti_json_utf8(text, strlen(text)) == strlen(text)) return true;
    return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: %s is not UTF-8 at byte %zu", op, path, what,
                   cti_json_utf8(text, strlen(text)));
}

static int by_string(const void *a, const void *b) { return strcmp(a, b); }

/* Sorts the strings; no two are equal. */
static bool check_twice(ct_context *context, const char *op, const char *path, const char *what,
                        const void **string, int64_t n) {
    const void **scratch = cti_take(context, cti_bytes(n, sizeof *scratch));
    if (!scratch) return false;
    cti_sort(string, scratch, n, by_string);
    cti_give(context, scratch, cti_bytes(n, sizeof *scratch));
    for (int64_t i = 1; i < n; i++) {
        if (strcmp(string[i - 1], string[i]) == 0) {
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: %s \"%s\" is there twice", op, path,
                           what, NAME(cti_text_of(string[i])));
        }
    }
    return true;
}

static bool check_metadata(ct_context *context, const char *op, const char *path,
                           const char *const *metadata) {
    int64_t n = 0;
    for (; metadata && metadata[2 * n]; n++) {
        if (!metadata[2 * n + 1])
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: a metadata key without a value", op,
                           path);
        if (!check_text(context, op, path, "a metadata key", metadata[2 * n]) ||
            !check_text(context, op, path, "a metadata value", metadata[2 * n + 1])) {
            return false;
        }
    }
    size_t bytes = cti_bytes(n, sizeof(void *));
    const void **key = cti_take(context, bytes);
    if (!key) return false;
    for (int64_t i = 0; i < n; i++) key[i] = metadata[2 * i];
    bool ok = check_twice(context, op, path, "metadata key", key, n);
    cti_give(context, key, bytes);
    return ok;
}

static bool check_named(ct_context *context, const char *op, const char *path,
                        const cti_named *named, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!check_text(context, op, path, "a name", named[i].name)) return false;
        if (strcmp(named[i].name, "__metadata__") == 0) {
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: %s: no tensor can have the name __metadata__", op, path);
        }
        if (!named[i].tensor->contiguous) {
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: tensor \"%s\" is not contiguous", op,
                           path, NAME(cti_text_of(named[i].name)));
        }
    }
    size_t bytes = cti_bytes(n, sizeof(void *));
    const void **name = cti_take(context, bytes);
    if (!name) return false;
    for (int64_t i = 0; i < n; i++) name[i] = named[i].name;
    bool ok = check_twice(context, op, path, "tensor", name, n);
    cti_give(context, name, bytes);
    return ok;
}

/* ---- the header ---- */

static void write_metadata(cti_writer *out, const char *const *metadata) {
    cti_write(out, "\"__metadata__\":{");
    for (int64_t i = 0; metadata[i]; i += 2) {
        if (i) cti_write(out, ",");
        cti_write_quoted(out, cti_text_of(metadata[i]));
        cti_write(out, ":");
        cti_write_quoted(out, cti_text_of(metadata[i + 1]));
    }
    cti_write(out, "}");
}

static int64_t write_entry(cti_writer *out, const cti_named *named, int64_t begin) {
    const ct_tensor *tensor = named->tensor;
    int64_t end = begin + tensor->numel * (int64_t)cti_dtype_size(tensor->dtype);
    cti_write_quoted(out, cti_text_of(named->name));
    cti_write(out, ":{\"dtype\":\"");
    cti_write(out, cti_dtype_table[tensor->dtype].file);
    cti_write(out, "\",\"shape\":[");
    for (int d = 0; d < tensor->shape.ndim; d++) {
        if (d) cti_write(out, ",");
        cti_write_natural(out, tensor->shape.dim[d]);
    }
    cti_write(out, "],\"data_offsets\":[");
    cti_write_natural(out, begin);
    cti_write(out, ",");
    cti_write_natural(out, end);
    cti_write(out, "]}");
    return end;
}

/* Visits the tensors in the order of the file: by the size of their elements, largest first, else
 * as given. */
typedef struct {
    const cti_named *named;
    int64_t n, i;
    size_t size; /* the visit is at tensors of this size, from i on */
} file_order;
enum { LARGEST_ELEMENT = 8 };

static const cti_named *next(file_order *order) {
    while (order->size) {
        while (order->i < order->n) {
            const cti_named *entry = &order->named[order->i++];
            if (cti_dtype_size(entry->tensor->dtype) == order->size) return entry;
        }
        order->size /= 2;
        order->i = 0;
    }
    return NULL;
}

/* The length, then the JSON, padded with spaces so that the data begins at a multiple of 8. */
static void write_header(cti_writer *out, const char *const *metadata, const cti_named *named,
                         int64_t n, uint64_t length) {
    for (int i = 0; i < 8; i++) cti_write_bytes(out, &(char){(char)(length >> 8 * i & 0xFF)}, 1);
    cti_write(out, "{");
    bool first = !(metadata && metadata[0]);
    if (!first) write_metadata(out, metadata);
    int64_t offset = 0;
    file_order order = {.named = named, .n = n, .size = LARGEST_ELEMENT};
    for (const cti_named *entry = next(&order); entry; entry = next(&order)) {
        if (!first) cti_write(out, ",");
        first = false;
        offset = write_entry(out, entry, offset);
    }
    cti_write(out, "}");
    while (out->used % 8) cti_write(out, " ");
}

/* ---- the data ---- */

static bool little_endian(void) {
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    return low == 1;
}

/* On a big-endian machine: with the bytes of each element reversed. */
static bool write_reversed(const cti_file_new *file, const char *data, int64_t n, size_t size) {
    char *chunk = cti_take(file->context, CHUNK);
    bool ok = chunk != NULL;
    for (int64_t i = 0, step = CHUNK / (int64_t)size; ok && i < n; i += step) {
        const size_t bytes = (size_t)cti_min(n - i, step) * size;
        for (size_t b = 0; b < bytes; b++)
            chunk[b] = data[(size_t)i * size + b / size * size + (size - 1 - b % size)];
        ok = cti_file_new_write(file, chunk, bytes);
    }
    cti_give(file->context, chunk, CHUNK);
    return ok;
}

static bool write_tensor(const cti_file_new *file, const ct_tensor *tensor) {
    size_t size = cti_dtype_size(tensor->dtype);
    if (size == 1 || little_endian())
        return cti_file_new_write(file, tensor->data, (size_t)tensor->numel * size);
    return write_reversed(file, tensor->data, tensor->numel, size);
}

static bool write_all(const cti_file_new *file, const char *header, size_t bytes,
                      const cti_named *named, int64_t n) {
    bool ok = cti_file_new_write(file, header, bytes);
    file_order order = {.named = named, .n = n, .size = LARGEST_ELEMENT};
    for (const cti_named *entry = next(&order); ok && entry; entry = next(&order))
        ok = write_tensor(file, entry->tensor);
    return ok;
}

bool cti_safetensors_write(ct_context *context, const char *op, const char *path,
                           const char *const *metadata, const cti_named *named, int64_t n) {
    if (!check_metadata(context, op, path, metadata) || !check_named(context, op, path, named, n))
        return false;
    cti_writer out = {0}; /* without a buffer: measures */
    write_header(&out, metadata, named, n, 0);
    if (out.used - 8 > CTI_LARGEST_HEADER) {
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: a header of %zu bytes, over %d", op, path,
                       out.used - 8, CTI_LARGEST_HEADER);
    }
    size_t bytes = out.used;
    char *header = cti_take(context, bytes);
    if (!header) return false;
    out = (cti_writer){.at = header, .size = bytes};
    write_header(&out, metadata, named, n, bytes - 8);
    cti_file_new file;
    bool ok = cti_file_new_open(context, op, path, &file);
    if (ok) {
        ok = write_all(&file, header, bytes, named, n);
        if (ok) ok = cti_file_new_commit(&file);
        else cti_file_new_drop(&file);
    }
    cti_give(context, header, bytes);
    return ok;
}
