/* A safetensors file or an index of any bytes. The parser gets them as a whole file and as a header
 * with the right length, so that the fuzzer need not find the length. ct_load and the reader get
 * them from a file, and as the index of a set with one valid shard. A file that is accepted must be
 * consistent. A load that is refused changes nothing. */
#include "fuzz.h"

#include "src/core/context.h"
#include "src/io/safetensors.h"

static ct_context *context;
static ct_module *module;

static void check(const cti_safetensors *h) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < h->tensors; i++) {
        const cti_file_tensor *t = &h->tensor[i];
        MUST(t->begin >= 0 && t->end >= t->begin && t->end <= h->data_size && t->numel >= 0);
        MUST(cti_safetensors_find(h, t->name) == t && t->name.at[t->name.size] == 0);
        MUST(cti_json_utf8(t->name.at, t->name.size) == t->name.size);
        bytes += t->end - t->begin;
    }
    MUST(bytes == h->data_size);
    for (int64_t i = 0; i < h->pairs; i++)
        MUST(cti_safetensors_metadata(h, h->pair[i].key) == &h->pair[i].value);
}

static void parse(const uint8_t *header, size_t length, int64_t size) {
    cti_safetensors h = {
        .file = {.context = context, .op = "fuzz", .path = "input", .fd = -1, .size = size},
        .text_size = length};
    h.text = cti_take(context, length + 1);
    memcpy(h.text, header, length);
    bool ok = cti_safetensors_parse(&h);
    MUST(ok == (ct_error(context) == CT_OK));
    if (ok) check(&h);
    cti_safetensors_close(&h);
    ct_error_clear(context);
}

/* Succeeds, or fails with a message that has the file's name. */
static bool finished(bool done, const char *path) {
    MUST(done == (ct_error(context) == CT_OK));
    MUST(done || strstr(ct_error_message(context), path));
    ct_error_clear(context);
    return done;
}

static void load(const uint8_t *data, size_t size) {
    const char *path = fuzz_path("input"), *saved = fuzz_path("saved");
    static const float before[] = {5, 7};
    float *w = ct_data_f32(ct_module_get(module, "w"));
    double *b = ct_data_f64(ct_module_get(module, "child.b"));
    char value[16];
    fuzz_write(path, data, size);
    for (int partial = 0; partial < 2; partial++) {
        memcpy(w, before, sizeof before);
        b[0] = 3;
        if (!finished(ct_load(module, path, (ct_load_opts){.partial = partial}), path)) {
            MUST(!memcmp(w, before, sizeof before) && b[0] == 3);
            continue;
        }
        float now[2];
        double b_now = b[0];
        memcpy(now, w, sizeof now);
        MUST(ct_save(module, saved, (ct_save_opts){0}));
        w[0] = w[1] = 0, b[0] = 0;
        MUST(ct_load(module, saved, (ct_load_opts){0}));
        MUST(!memcmp(w, now, sizeof now) && !memcmp(b, &b_now, sizeof b_now));
        const ct_load_map rows[] = {{.param = "w", .file = "top", .rows = 1},
                                    {.param = "w", .file = "rest", .param_start = 1},
                                    {.param = "child.b", .file = "t", .transposed = true}};
        MUST(ct_save(module, saved, (ct_save_opts){.map = rows, .n_map = 3}));
        w[0] = w[1] = 0, b[0] = 0;
        MUST(ct_load(module, saved, (ct_load_opts){.map = rows, .n_map = 3}));
        MUST(!memcmp(w, now, sizeof now) && !memcmp(b, &b_now, sizeof b_now));
    }
    static const ct_load_map map[] = {
        {.param = "w", .file = "v", .rows = 1},
        {.param = "w", .file = "w", .param_start = 1, .file_start = 1},
        {.param = "child.*", .file = "*", .transposed = true},
    };
    static const char *const ignore[] = {"", "v?*w", "*", NULL};
    ct_load_report report;
    ct_load_opts opts = {
        .partial = true, .map = map, .n_map = 3, .report = &report, .ignore = ignore};
    const bool mapped = finished(ct_load(module, path, opts), path);
    MUST(mapped == (report.loaded > 0) && report.loaded <= 2 && report.unexpected == 0);
    if (finished(ct_load_metadata(context, path, "key", value, sizeof value), path))
        MUST(memchr(value, 0, sizeof value));
}

/* Every tensor that the reader lists can be read, or an error says why not. */
static void read_all(const char *path) {
    ct_scope scope = ct_scope_open(context);
    ct_safetensors *file = ct_safetensors_open(context, path);
    MUST(!file == (ct_error(context) != CT_OK));
    MUST(file || strstr(ct_error_message(context), fuzz_folder));
    ct_error_clear(context);
    if (file) {
        for (ct_safetensors_entry entry = {0}; ct_safetensors_next(file, &entry);) {
            MUST(entry.shape.ndim >= 0 && entry.shape.ndim <= CT_MAX_DIMS && *entry.dtype);
            ct_tensor *t = ct_safetensors_read(file, entry.name);
            MUST(!t == (ct_error(context) != CT_OK));
            if (t && strlen(entry.name) > 0) MUST(ct_numel(t) >= 0);
            ct_error_clear(context);
        }
        const char *value = ct_safetensors_metadata(file, "key");
        MUST(!value || strlen(value) < 1 << 20);
    }
    ct_safetensors_close(file);
    ct_scope_close(scope);
}

/* The same bytes as an index. The shard has each tensor that an accepted index lists. */
static void index_of(const uint8_t *data, size_t size) {
    const char *path = fuzz_path("input.index.json");
    static const float before[] = {5, 7};
    float *w = ct_data_f32(ct_module_get(module, "w"));
    fuzz_write(path, data, size);
    read_all(path);
    memcpy(w, before, sizeof before);
    /* messages name the index or a shard: the folder is in both */
    if (ct_load(module, path, (ct_load_opts){.partial = true})) return;
    MUST(strstr(ct_error_message(context), fuzz_folder) && !memcmp(w, before, sizeof before));
    ct_error_clear(context);
}

static void begin(void) {
    fuzz_begin();
    context = ct_context_new((ct_context_opts){.threads = 1});
    module = ct_module_new(context, "Two");
    ct_module_add_param(module, "w", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    ct_module *child = ct_module_add_child(module, "child", ct_module_new(context, "One"));
    ct_module_add_param(child, "b", ct_zeros(context, CT_F64, CT_SHAPE(1, 1)));
    ct_module_add_param(child, "v", ct_module_get(module, "w"));
    MUST(ct_save(module, fuzz_path("shard"), (ct_save_opts){0}));
    MUST(ct_error(context) == CT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!context) begin();
    int64_t live = ct_memory(context).live;
    if (size >= 8) {
        cti_file file = {
            .context = context, .op = "fuzz", .path = "input", .fd = -1, .size = (int64_t)size};
        int64_t length = cti_safetensors_length(&file, data);
        ct_error_clear(context);
        if (length >= 0) parse(data + 8, (size_t)length, (int64_t)size);
        parse(data + 8, size - 8, (int64_t)size + data[0]);
    }
    load(data, size);
    read_all(fuzz_path("input"));
    index_of(data, size);
    MUST(ct_memory(context).live == live);
    return 0;
}
