/* Reading and checking the header of a safetensors file. */
#include "safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../context.h"
#include "sort.h"


typedef struct {
    const char *name;
    int bits;
} dtype_info;
#define CT_FILE_DTYPE(name, bits) {#name, bits},
static const dtype_info dtypes[] = {CT_FILE_DTYPES(CT_FILE_DTYPE)};
#undef CT_FILE_DTYPE

const char *ct_file_dtype_name(ct_file_dtype dtype) { return dtypes[dtype].name; }

const char *ct_name_text(ct_text name, char text[CT_NAME_TEXT]) {
    ct_writer out = {text, CT_NAME_TEXT - 1, 0};
    ct_text shown = name;
    if (name.size > CT_NAME_SHOWN) { /* cut between characters */
        for (shown.size = CT_NAME_SHOWN; shown.size > 0 && (name.at[shown.size] & 0xC0) == 0x80;) shown.size--;
    }
    ct_write_escaped(&out, shown);
    if (shown.size < name.size) ct_write(&out, "...");
    text[out.used] = 0;
    return text;
}

/* ---- faults ---- */

__attribute__((format(printf, 2, 3))) static bool refuse(const ct_file *file, const char *format, ...) {
    char what[CT_NAME_TEXT + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %s", file->op, file->path, what);
}

static bool refuse_json(const ct_safetensors *header, const ct_json *json) {
    return refuse(&header->file, "header: %s at byte %lld", json->fault, (long long)(8 + (json->at - json->text)));
}

/* ---- one tensor's entry ---- */

static bool read_dtype(ct_json *json, ct_file_tensor *tensor) {
    ct_text name;
    if (!ct_json_string(json, &name)) return false;
    for (int i = 0; i < CT_FILE_DTYPE_COUNT; i++) {
        tensor->dtype = (ct_file_dtype)i;
        if (ct_text_compare(name, ct_text_of(dtypes[i].name)) == 0) return true;
    }
    return ct_json_fail(json, "an unknown dtype");
}

static bool read_shape(ct_json *json, ct_file_tensor *tensor) {
    tensor->numel = 1;
    for (bool first = ct_json_open(json, '['); ct_json_next(json, ']', &first); tensor->ndim++) {
        int64_t size;
        if (!ct_json_natural(json, &size)) return false;
        if (size > 0 && tensor->numel > INT64_MAX / size) return ct_json_fail(json, "the shape's product overflows");
        tensor->numel *= size;
        if (tensor->ndim < CT_MAX_DIMS) tensor->shape.dim[tensor->shape.ndim++] = size;
    }
    return !json->fault;
}

static bool read_offsets(ct_json *json, ct_file_tensor *tensor) {
    int64_t offset[2], n = 0;
    for (bool first = ct_json_open(json, '['); ct_json_next(json, ']', &first); n++) {
        if (n == 2) return ct_json_fail(json, "data_offsets are two numbers");
        if (!ct_json_natural(json, &offset[n])) return false;
    }
    if (json->fault) return false;
    if (n != 2) return ct_json_fail(json, "data_offsets are two numbers");
    tensor->begin = offset[0];
    tensor->end = offset[1];
    return true;
}

static bool read_tensor(ct_json *json, ct_file_tensor *tensor) {
    static bool (*const read[])(ct_json *, ct_file_tensor *) = {read_dtype, read_shape, read_offsets};
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    static const char *const missing[] = {"dtype is missing", "shape is missing", "data_offsets are missing"};
    bool seen[3] = {false};
    for (bool first = ct_json_open(json, '{'); ct_json_next(json, '}', &first);) {
        ct_text key;
        if (!ct_json_key(json, &key)) return false;
        int k = 0;
        while (k < 3 && ct_text_compare(key, ct_text_of(keys[k])) != 0) k++;
        if (k == 3) return ct_json_fail(json, "a key other than dtype, shape and data_offsets");
        if (seen[k]) return ct_json_fail(json, "a key is there twice");
        seen[k] = true;
        if (!read[k](json, tensor)) return false;
    }
    for (int k = 0; k < 3 && !json->fault; k++) {
        if (!seen[k]) return ct_json_fail(json, missing[k]);
    }
    return !json->fault;
}

/* Do the offsets lie in the data, and hold the shape? */
static bool check_tensor(const ct_safetensors *header, const ct_file_tensor *tensor) {
    long long begin = tensor->begin, end = tensor->end;
    if (end < begin)
        return refuse(&header->file, "tensor \"%s\": data_offsets [%lld, %lld] end before they begin", NAME(tensor->name), begin, end);
    if (end > header->data_size) {
        return refuse(&header->file, "tensor \"%s\": data_offsets [%lld, %lld] reach beyond the %lld bytes of data", NAME(tensor->name),
                      begin, end, (long long)header->data_size);
    }
    int bits = dtypes[tensor->dtype].bits;
    if (tensor->numel > INT64_MAX / bits)
        return refuse(&header->file, "tensor \"%s\": the size of its shape overflows", NAME(tensor->name));
    if (tensor->numel * bits % 8 != 0 || tensor->numel * bits / 8 != end - begin) {
        return refuse(&header->file, "tensor \"%s\": %lld elements of %s are not the %lld bytes of data_offsets [%lld, %lld]",
                      NAME(tensor->name), (long long)tensor->numel, dtypes[tensor->dtype].name, end - begin, begin, end);
    }
    return true;
}

/* ---- the header ---- */

/* Room for one more of n items. The old block goes back when the new one is filled. */
static void *grow(ct_context *context, void *items, int64_t n, int64_t *room, size_t size) {
    if (n < *room) return items;
    int64_t more = *room ? 2 * *room : 16;
    void *block = ct_take(context, ct_bytes(more, size));
    if (!block) return NULL;
    if (n) memcpy(block, items, (size_t)n * size);
    ct_give(context, items, (size_t)*room * size);
    *room = more;
    return block;
}

static bool read_metadata(ct_safetensors *header, ct_json *json) {
    for (bool first = ct_json_open(json, '{'); ct_json_next(json, '}', &first);) {
        ct_file_pair pair;
        if (!ct_json_key(json, &pair.key) || !ct_json_string(json, &pair.value)) break;
        void *items = grow(header->file.context, header->pair, header->pairs, &header->pair_room, sizeof pair);
        if (!items) return false;
        header->pair = items;
        header->pair[header->pairs++] = pair;
    }
    return !json->fault || refuse_json(header, json);
}

static bool read_members(ct_safetensors *header) {
    ct_json json = ct_json_read(header->text, header->text_size);
    bool metadata = false;
    if (header->text_size && header->text[0] != '{') ct_json_fail(&json, "'{' is expected");
    for (bool first = ct_json_open(&json, '{'); ct_json_next(&json, '}', &first);) {
        ct_file_tensor tensor = {0};
        if (!ct_json_key(&json, &tensor.name)) break;
        if (ct_text_compare(tensor.name, ct_text_of("__metadata__")) == 0) {
            if (metadata) ct_json_fail(&json, "__metadata__ is there twice");
            metadata = true;
            if (!json.fault && !read_metadata(header, &json)) return false;
            continue;
        }
        if (!read_tensor(&json, &tensor)) {
            return refuse(&header->file, "header: tensor \"%s\": %s at byte %lld", NAME(tensor.name), json.fault,
                          (long long)(8 + (json.at - json.text)));
        }
        if (!check_tensor(header, &tensor)) return false;
        void *items = grow(header->file.context, header->tensor, header->tensors, &header->tensor_room, sizeof tensor);
        if (!items) return false;
        header->tensor = items;
        header->tensor[header->tensors++] = tensor;
    }
    while (!json.fault && json.at < json.end && *json.at == ' ') json.at++;
    if (json.at < json.end) ct_json_fail(&json, "something other than spaces behind the header");
    return !json.fault || refuse_json(header, &json);
}

static int by_name(const void *a, const void *b) {
    return ct_text_compare(((const ct_file_tensor *)a)->name, ((const ct_file_tensor *)b)->name);
}
static int by_key(const void *a, const void *b) { return ct_text_compare(((const ct_file_pair *)a)->key, ((const ct_file_pair *)b)->key); }

static int by_place(const void *a, const void *b) {
    const ct_file_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Nothing twice. Leaves the order by name. */
static bool check_names(const ct_safetensors *header, const void **order, const void **scratch) {
    for (int64_t i = 0; i < header->pairs; i++) order[i] = &header->pair[i];
    ct_sort(order, scratch, header->pairs, by_key);
    for (int64_t i = 1; i < header->pairs; i++) {
        if (by_key(order[i - 1], order[i]) == 0) {
            return refuse(&header->file, "__metadata__: \"%s\" is there twice", NAME(((const ct_file_pair *)order[i])->key));
        }
    }
    for (int64_t i = 0; i < header->tensors; i++) order[i] = &header->tensor[i];
    ct_sort(order, scratch, header->tensors, by_name);
    for (int64_t i = 1; i < header->tensors; i++) {
        if (by_name(order[i - 1], order[i]) == 0) {
            return refuse(&header->file, "tensor \"%s\" is there twice", NAME(((const ct_file_tensor *)order[i])->name));
        }
    }
    return true;
}

/* Each tensor begins where the one before ended, the first at 0, the last at the end: no byte is two tensors', none is nobody's. */
static bool check_places(const ct_safetensors *header, const void **order, const void **scratch) {
    for (int64_t i = 0; i < header->tensors; i++) order[i] = &header->tensor[i];
    ct_sort(order, scratch, header->tensors, by_place);
    int64_t end = 0;
    for (int64_t i = 0; i < header->tensors; i++) {
        const ct_file_tensor *tensor = order[i];
        if (tensor->begin < end) {
            return refuse(&header->file, "tensor \"%s\": its data begins at %lld and overlaps what ends at %lld", NAME(tensor->name),
                          (long long)tensor->begin, (long long)end);
        }
        if (tensor->begin > end) {
            return refuse(&header->file, "tensor \"%s\": its data begins at %lld behind a hole from %lld on", NAME(tensor->name),
                          (long long)tensor->begin, (long long)end);
        }
        end = tensor->end;
    }
    if (end == header->data_size) return true;
    return refuse(&header->file, "the tensors end at byte %lld of the data, the file at byte %lld", (long long)end,
                  (long long)header->data_size);
}

bool ct_safetensors_parse(ct_safetensors *header) {
    ct_context *context = header->file.context;
    header->data = 8 + (int64_t)header->text_size;
    header->data_size = header->file.size - header->data;
    size_t valid = ct_json_utf8(header->text, header->text_size);
    if (valid < header->text_size) return refuse(&header->file, "header: not UTF-8 at byte %lld", (long long)(8 + valid));
    if (!read_members(header)) return false;
    int64_t n = header->tensors > header->pairs ? header->tensors : header->pairs;
    size_t bytes = ct_bytes(n, sizeof(void *)), named = ct_bytes(header->tensors, sizeof(void *));
    const void **order = ct_take(context, bytes), **scratch = order ? ct_take(context, bytes) : NULL;
    bool ok = scratch && check_places(header, order, scratch) && check_names(header, order, scratch);
    if (ok) ok = (header->by_name = ct_take(context, named)) != NULL;
    if (ok && named) memcpy(header->by_name, order, named);
    ct_give(context, order, bytes);
    ct_give(context, scratch, bytes);
    return ok;
}

int64_t ct_safetensors_length(const ct_file *file, const unsigned char first[8]) {
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | first[i];
    bool ok = length <= CT_LARGEST_HEADER
                  ? true
                  : refuse(file, "its header's length is %llu, over %d", (unsigned long long)length, CT_LARGEST_HEADER);
    if (ok && (int64_t)length > file->size - 8) {
        ok = refuse(file, "a header of %llu bytes does not fit in a file of %lld", (unsigned long long)length, (long long)file->size);
    }
    return ok ? (int64_t)length : -1;
}

static bool read_header(ct_safetensors *header) {
    const ct_file *file = &header->file;
    if (file->size == 0) return refuse(file, "the file is empty");
    if (file->size < 8) return refuse(file, "the file has %lld bytes, the header's length alone takes 8", (long long)file->size);
    unsigned char first[8];
    if (!ct_file_read(file, 0, first, 8)) return false;
    int64_t length = ct_safetensors_length(file, first);
    if (length < 0) return false;
    header->text_size = (size_t)length;
    header->text = ct_take(file->context, header->text_size + 1);
    return header->text && ct_file_read(file, 8, header->text, header->text_size) && ct_safetensors_parse(header);
}

bool ct_safetensors_open(ct_context *context, const char *op, const char *path, ct_safetensors *header) {
    *header = (ct_safetensors){0};
    if (!ct_file_open(context, op, path, &header->file)) return false;
    if (read_header(header)) return true;
    ct_safetensors_close(header);
    return false;
}

void ct_safetensors_close(ct_safetensors *header) {
    ct_context *context = header->file.context;
    ct_give(context, header->text, header->text_size + 1);
    ct_give(context, header->tensor, (size_t)header->tensor_room * sizeof *header->tensor);
    ct_give(context, header->by_name, (size_t)header->tensors * sizeof *header->by_name);
    ct_give(context, header->pair, (size_t)header->pair_room * sizeof *header->pair);
    header->text = NULL;
    header->tensor = NULL;
    header->by_name = NULL;
    header->pair = NULL;
    ct_file_close(&header->file);
}

const ct_file_tensor *ct_safetensors_find(const ct_safetensors *header, ct_text name) {
    for (int64_t low = 0, high = header->tensors; low < high;) {
        int64_t middle = low + (high - low) / 2;
        const ct_file_tensor *tensor = header->by_name[middle];
        int order = ct_text_compare(name, tensor->name);
        if (order == 0) return tensor;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

const ct_text *ct_safetensors_metadata(const ct_safetensors *header, ct_text key) {
    for (int64_t i = 0; i < header->pairs; i++) {
        if (ct_text_compare(key, header->pair[i].key) == 0) return &header->pair[i].value;
    }
    return NULL;
}
