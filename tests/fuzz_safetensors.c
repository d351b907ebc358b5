/* The header's parser on hostile bytes: clang -fsanitize=fuzzer,address. The input is a whole file; a second run hands it over as a
 * header of the right length, so that the search need not find the length. What is accepted must keep its promises. */
#include <string.h>

#include "../src/core/context.h"
#include "../src/io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const cti_safetensors *h) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < h->tensors; i++) {
        const cti_file_tensor *t = &h->tensor[i];
        if (t->begin < 0 || t->end < t->begin || t->end > h->data_size || t->numel < 0) __builtin_trap();
        if (cti_safetensors_find(h, t->name) != t || t->name.at[t->name.size] != 0) __builtin_trap();
        if (cti_json_utf8(t->name.at, t->name.size) != t->name.size) __builtin_trap();
        bytes += t->end - t->begin;
    }
    if (bytes != h->data_size) __builtin_trap();
    for (int64_t i = 0; i < h->pairs; i++)
        if (cti_safetensors_metadata(h, h->pair[i].key) != &h->pair[i].value) __builtin_trap();
}

static void parse(ct_context *context, const uint8_t *header, size_t length, int64_t size) {
    cti_safetensors h = {.file = {.context = context, .op = "fuzz", .path = "input", .fd = -1, .size = size}, .text_size = length};
    h.text = cti_take(context, length + 1);
    memcpy(h.text, header, length);
    bool ok = cti_safetensors_parse(&h);
    if (ok != (ct_error(context) == CT_OK)) __builtin_trap();
    if (ok) check(&h);
    cti_safetensors_close(&h);
    ct_error_clear(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ct_context *context;
    if (!context) context = ct_context_new((ct_context_opts){.threads = 1});
    int64_t live = ct_memory(context).live;
    if (size >= 8) {
        cti_file file = {.context = context, .op = "fuzz", .path = "input", .fd = -1, .size = (int64_t)size};
        int64_t length = cti_safetensors_length(&file, data);
        ct_error_clear(context);
        if (length >= 0) parse(context, data + 8, (size_t)length, (int64_t)size);
        parse(context, data + 8, size - 8, (int64_t)size + data[0]);
    }
    if (ct_memory(context).live != live) __builtin_trap();
    return 0;
}
