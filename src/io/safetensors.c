/* Reads and checks the header of a safetensors file. */
#include "safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "checksum.h"
#include "kind.h"
#include "list.h"

/* ---- faults ---- */

CT_FORMAT(2, 3) static bool refuse_header(const cti_file *file, const char *format, ...) {
    char what[CTI_NAME_TEXT + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %s", file->op, file->path, what);
}

#define NO_FILE "is not a safetensors file: "

static bool json_refuse(const cti_safetensors *header, const cti_json *json) {
    return refuse_header(&header->file, "header: %s at byte %lld", json->fault,
                         (long long)(8 + (json->at - json->text)));
}

/* ---- one tensor's entry ---- */

static bool dtype_read(cti_json *json, cti_file_tensor *tensor) {
    cti_text name;
    if (!cti_json_string(json, &name)) return false;
    if (cti_file_dtype_find(name, &tensor->dtype)) return true;
    return cti_json_fail(json, "an unknown dtype");
}

static bool shape_read(cti_json *json, cti_file_tensor *tensor) {
    tensor->numel = 1;
    for (bool first = cti_json_open(json, '['); cti_json_next(json, ']', &first); tensor->ndim++) {
        int64_t size;
        if (!cti_json_natural(json, &size)) return false;
        if (size > 0 && tensor->numel > INT64_MAX / size)
            return cti_json_fail(json, "the shape's product overflows");
        tensor->numel *= size;
        if (tensor->ndim < CT_MAX_DIMS) tensor->shape.dim[tensor->shape.ndim++] = size;
    }
    return !json->fault;
}

static bool offsets_read(cti_json *json, cti_file_tensor *tensor) {
    int64_t offset[2], n = 0;
    for (bool first = cti_json_open(json, '['); cti_json_next(json, ']', &first); n++) {
        if (n == 2) return cti_json_fail(json, "data_offsets are two numbers");
        if (!cti_json_natural(json, &offset[n])) return false;
    }
    if (json->fault) return false;
    if (n != 2) return cti_json_fail(json, "data_offsets are two numbers");
    tensor->begin = offset[0];
    tensor->end = offset[1];
    return true;
}

static bool tensor_entry_read(cti_json *json, cti_file_tensor *tensor) {
    static bool (*const read[])(cti_json *, cti_file_tensor *) = {dtype_read, shape_read,
                                                                  offsets_read};
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    static const char *const missing[] = {"dtype is missing", "shape is missing",
                                          "data_offsets are missing"};
    bool seen[3] = {false};
    for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) {
        cti_text key;
        if (!cti_json_key(json, &key)) return false;
        int k = 0;
        while (k < 3 && cti_text_compare(key, cti_text_of(keys[k])) != 0) k++;
        if (k == 3) return cti_json_fail(json, "a key other than dtype, shape and data_offsets");
        if (seen[k]) return cti_json_fail(json, "a key is there twice");
        seen[k] = true;
        if (!read[k](json, tensor)) return false;
    }
    for (int k = 0; k < 3 && !json->fault; k++) {
        if (!seen[k]) return cti_json_fail(json, missing[k]);
    }
    return !json->fault;
}

/* Whether the offsets lie inside the data and enclose as many bytes as dtype and shape need. */
static bool range_check(const cti_safetensors *header, const cti_file_tensor *tensor) {
    long long begin = tensor->begin, end = tensor->end;
    if (end < begin)
        return refuse_header(&header->file,
                             "tensor \"%s\": data_offsets [%lld, %lld] end before they begin",
                             NAME(tensor->name), begin, end);
    if (end > header->data_size) {
        return refuse_header(
            &header->file,
            "tensor \"%s\": data_offsets [%lld, %lld] reach beyond the %lld bytes of data",
            NAME(tensor->name), begin, end, (long long)header->data_size);
    }
    const int bits = cti_file_dtype_bits(tensor->dtype);
    if (tensor->numel > INT64_MAX / bits)
        return refuse_header(&header->file, "tensor \"%s\": the size of its shape overflows",
                             NAME(tensor->name));
    if (tensor->numel * bits % 8 != 0 || tensor->numel * bits / 8 != end - begin) {
        return refuse_header(
            &header->file,
            "tensor \"%s\": %lld elements of %s are not the %lld bytes of data_offsets "
            "[%lld, %lld]",
            NAME(tensor->name), (long long)tensor->numel, cti_file_dtype_name(tensor->dtype),
            end - begin, begin, end);
    }
    return true;
}

/* ---- the header ---- */

static bool metadata_read(cti_safetensors *header, cti_json *json) {
    for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) {
        cti_file_pair pair;
        if (!cti_json_key(json, &pair.key) || !cti_json_string(json, &pair.value)) break;
        void *items = cti_list_grow(header->file.context, header->pair, header->pairs,
                                    &header->pair_capacity, sizeof pair);
        if (!items) return false;
        header->pair = items;
        header->pair[header->pairs++] = pair;
    }
    return !json->fault || json_refuse(header, json);
}

static bool members_read(cti_safetensors *header) {
    cti_json json = cti_json_read(header->text, header->text_size);
    bool metadata = false;
    if (!header->text_size || header->text[0] != '{')
        return refuse_header(&header->file, NO_FILE "header: '{' is expected at byte 8");
    for (bool first = cti_json_open(&json, '{'); cti_json_next(&json, '}', &first);) {
        cti_file_tensor tensor = {.file = &header->file, .data = header->data};
        if (!cti_json_key(&json, &tensor.name)) break;
        if (cti_text_compare(tensor.name, cti_text_of("__metadata__")) == 0) {
            if (metadata) cti_json_fail(&json, "__metadata__ is there twice");
            metadata = true;
            if (!json.fault && !metadata_read(header, &json)) return false;
            continue;
        }
        if (!tensor_entry_read(&json, &tensor)) {
            return refuse_header(&header->file, "header: tensor \"%s\": %s at byte %lld",
                                 NAME(tensor.name), json.fault,
                                 (long long)(8 + (json.at - json.text)));
        }
        if (!range_check(header, &tensor)) return false;
        void *items = cti_list_grow(header->file.context, header->tensor, header->tensors,
                                    &header->tensor_capacity, sizeof tensor);
        if (!items) return false;
        header->tensor = items;
        header->tensor[header->tensors++] = tensor;
    }
    while (!json.fault && json.at < json.end && *json.at == ' ') json.at++;
    if (json.at < json.end) cti_json_fail(&json, "something other than spaces behind the header");
    return !json.fault || json_refuse(header, &json);
}

static int tensor_by_name(const void *a, const void *b) {
    return cti_text_compare(((const cti_file_tensor *)a)->name, ((const cti_file_tensor *)b)->name);
}
static int by_key(const void *a, const void *b) {
    return cti_text_compare(((const cti_file_pair *)a)->key, ((const cti_file_pair *)b)->key);
}

static int by_offset(const void *a, const void *b) {
    const cti_file_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Checks that the metadata have no key twice. order is scratch. */
static bool keys_check(const cti_safetensors *header, const void **order) {
    for (int64_t i = 0; i < header->pairs; i++) order[i] = &header->pair[i];
    if (!cti_list_sort(header->file.context, order, header->pairs, by_key)) return false;
    const cti_file_pair *repeat = cti_list_repeat(order, header->pairs, by_key);
    return !repeat ||
           refuse_header(&header->file, "__metadata__: \"%s\" is there twice", NAME(repeat->key));
}

/* Sets by_name, and checks that no tensor is there twice. */
static bool tensors_sort(cti_safetensors *header) {
    ct_context *context = header->file.context;
    const int64_t n = header->tensors;
    header->by_name = cti_take(context, cti_bytes(n, sizeof *header->by_name));
    if (!header->by_name) return false;
    for (int64_t i = 0; i < n; i++) header->by_name[i] = &header->tensor[i];
    if (!cti_list_sort(context, header->by_name, n, tensor_by_name)) return false;
    const cti_file_tensor *repeat = cti_list_repeat(header->by_name, n, tensor_by_name);
    return !repeat ||
           refuse_header(&header->file, "tensor \"%s\" is there twice", NAME(repeat->name));
}

/* Checks invariant 6: in the order of their offsets, each tensor begins where the tensor before it
 * ends, the first begins at 0, and the last ends at the end of the data. order is scratch. */
static bool offsets_check(const cti_safetensors *header, const void **order) {
    for (int64_t i = 0; i < header->tensors; i++) order[i] = &header->tensor[i];
    if (!cti_list_sort(header->file.context, order, header->tensors, by_offset)) return false;
    int64_t end = 0;
    for (int64_t i = 0; i < header->tensors; i++) {
        const cti_file_tensor *tensor = order[i];
        if (tensor->begin < end) {
            return refuse_header(
                &header->file,
                "tensor \"%s\": its data begins at %lld and overlaps what ends at %lld",
                NAME(tensor->name), (long long)tensor->begin, (long long)end);
        }
        if (tensor->begin > end) {
            return refuse_header(
                &header->file, "tensor \"%s\": its data begins at %lld behind a hole from %lld on",
                NAME(tensor->name), (long long)tensor->begin, (long long)end);
        }
        end = tensor->end;
    }
    if (end == header->data_size) return true;
    return refuse_header(&header->file,
                         "the tensors end at byte %lld of the data, the file at byte %lld",
                         (long long)end, (long long)header->data_size);
}

bool cti_safetensors_parse(cti_safetensors *header) {
    ct_context *context = header->file.context;
    header->data = 8 + (int64_t)header->text_size;
    header->data_size = header->file.size - header->data;
    size_t valid = cti_json_utf8(header->text, header->text_size);
    if (valid < header->text_size)
        return refuse_header(&header->file, NO_FILE "header: not UTF-8 at byte %lld",
                             (long long)(8 + valid));
    if (!members_read(header)) return false;
    const size_t bytes = cti_bytes(cti_max(header->tensors, header->pairs), sizeof(void *));
    const void **order = cti_take(context, bytes);
    const bool ok = order && offsets_check(header, order) && keys_check(header, order);
    cti_give(context, order, bytes);
    return ok && tensors_sort(header);
}

static uint64_t length_of(const unsigned char first[8]) {
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | first[i];
    return length;
}

int64_t cti_safetensors_length(const cti_file *file, const unsigned char first[8]) {
    const uint64_t length = length_of(first);
    if (length > CTI_LARGEST_HEADER) {
        refuse_header(file, NO_FILE "its header's length is %llu, over %d",
                      (unsigned long long)length, CTI_LARGEST_HEADER);
        return -1;
    }
    if ((int64_t)length > file->size - 8) {
        refuse_header(file, NO_FILE "a header of %llu bytes does not fit in a file of %lld",
                      (unsigned long long)length, (long long)file->size);
        return -1;
    }
    return (int64_t)length;
}

/* Whether the file may begin with a header. If it may not, a file of a known other kind is refused
 * with that kind's name; for any other the result is true, and the caller reports the fault. */
static bool kind_check(const cti_file *file, const unsigned char first[9]) {
    if (file->size > 8 && first[8] == '{' && length_of(first) <= CTI_LARGEST_HEADER &&
        (int64_t)length_of(first) <= file->size - 8)
        return true;
    unsigned char begin[CTI_KIND_BYTES];
    const size_t n = (size_t)cti_min(file->size, CTI_KIND_BYTES);
    return cti_file_read(file, 0, begin, n) &&
           !cti_kind_refuse(file, begin, n, "a safetensors file");
}

static bool safetensors_header_read(cti_safetensors *header) {
    const cti_file *file = &header->file;
    unsigned char first[9] = {0};
    if (file->size == 0) return refuse_header(file, NO_FILE "the file is empty");
    if (!cti_file_read(file, 0, first, (size_t)cti_min(file->size, sizeof first)) ||
        !kind_check(file, first))
        return false;
    if (file->size < 8)
        return refuse_header(file,
                             NO_FILE "the file has %lld bytes, and the header's length takes 8",
                             (long long)file->size);
    int64_t length = cti_safetensors_length(file, first);
    if (length < 0) return false;
    header->text_size = (size_t)length;
    header->text = cti_take(file->context, header->text_size + 1);
    return header->text && cti_file_read(file, 8, header->text, header->text_size) &&
           cti_safetensors_parse(header);
}

bool cti_safetensors_open(ct_context *context, const char *op, const char *path,
                          cti_safetensors *header) {
    *header = (cti_safetensors){0};
    if (!cti_file_open(context, op, path, &header->file)) return false;
    if (safetensors_header_read(header)) return true;
    cti_safetensors_close(header);
    return false;
}

bool cti_safetensors_open_checked(ct_context *context, const char *op, const char *path,
                                  cti_safetensors *header) {
    *header = (cti_safetensors){0};
    if (!cti_file_open(context, op, path, &header->file)) return false;
    bool ok = true;
    header->checked = cti_checksum_is_there(&header->file, &ok);
    if (ok && (!header->checked || cti_checksum_compare(&header->file)) &&
        safetensors_header_read(header))
        return true;
    cti_safetensors_close(header);
    return false;
}

void cti_safetensors_close(cti_safetensors *header) {
    ct_context *context = header->file.context;
    cti_give(context, header->text, header->text_size + 1);
    cti_give(context, header->tensor, (size_t)header->tensor_capacity * sizeof *header->tensor);
    cti_give(context, header->by_name, (size_t)header->tensors * sizeof *header->by_name);
    cti_give(context, header->pair, (size_t)header->pair_capacity * sizeof *header->pair);
    header->text = NULL;
    header->tensor = NULL;
    header->by_name = NULL;
    header->pair = NULL;
    cti_file_close(&header->file);
}

const cti_file_tensor *cti_safetensors_find(const cti_safetensors *header, cti_text name) {
    const cti_file_tensor key = {.name = name};
    return cti_list_find(header->by_name, header->tensors, &key, tensor_by_name);
}

const cti_text *cti_safetensors_metadata(const cti_safetensors *header, cti_text key) {
    for (int64_t i = 0; i < header->pairs; i++) {
        if (cti_text_compare(key, header->pair[i].key) == 0) return &header->pair[i].value;
    }
    return NULL;
}
