/* A GGUF file of any bytes, parsed in memory and opened as a file. A header that is accepted must
 * be consistent, each value of a key is read or refused, and so are the values of each tensor and
 * the tokenizer in the keys. */
#include "fuzz.h"

#include "ext/text/gguf_tokens.h"
#include "src/core/context.h"
#include "src/io/shards.h"

static ct_context *context;

static void settle(bool done) {
    MUST(done == (ct_error(context) == CT_OK));
    MUST(done || strstr(ct_error_message(context), fuzz_folder));
    ct_error_clear(context);
}

/* Reads the value in each way. */
static void read_key(const cti_gguf *gguf, const cti_gguf_pair *pair) {
    static const cti_gguf_kind kinds[] = {CTI_GGUF_STRING, CTI_GGUF_I64, CTI_GGUF_F64,
                                          CTI_GGUF_BOOL};
    int64_t integer;
    double real;
    bool flag;
    cti_text text;
    const char *key = pair->key.at;
    MUST(key[pair->key.size] == 0 && strlen(key) == pair->key.size && pair->key.size > 0);
    MUST(cti_gguf_find(gguf, key) == pair);
    settle(cti_gguf_integer(gguf, key, &integer));
    settle(cti_gguf_real(gguf, key, &real));
    settle(cti_gguf_flag(gguf, key, &flag));
    const bool is_text = cti_gguf_text(gguf, key, &text);
    MUST(!is_text || (text.at[text.size] == 0 && strlen(text.at) == text.size));
    settle(is_text);
    for (int k = 0; k < 4; k++) {
        const cti_gguf_pair *array = NULL;
        const bool ok = cti_gguf_array(gguf, key, kinds[k], &array);
        settle(ok);
        if (!ok) continue;
        MUST(array == pair && array->count >= 0);
        cti_gguf_cursor cursor = {0};
        for (int64_t i = 0; i < array->count; i++) {
            if (k == 0) MUST(cti_gguf_next_text(array, &cursor).size < INT32_MAX);
            if (k == 1 || k == 3) integer = cti_gguf_integer_at(array, i);
            if (k == 2) real = cti_gguf_real_at(array, i);
        }
    }
}

static void check(const cti_gguf *gguf) {
    int64_t end = 0;
    for (int64_t i = 0; i < gguf->tensors; i++) {
        const cti_file_tensor *t = &gguf->tensor[i];
        MUST(t->begin >= end && t->end >= t->begin && t->numel >= 0 && t->name.size < 64);
        MUST(t->end == t->begin || t->data + t->end <= gguf->file.size);
        MUST(t->name.at[t->name.size] == 0 && strlen(t->name.at) == t->name.size);
        MUST(t->begin % gguf->alignment == 0 && t->ndim <= 4 && t->ndim == t->shape.ndim);
        end = t->end;
    }
    for (int64_t i = 0; i < gguf->pairs; i++) read_key(gguf, &gguf->pair[i]);
}

static void parse(const uint8_t *data, size_t size, const char *path) {
    cti_gguf gguf = {.context = context, .op = "fuzz", .path = path};
    gguf.file =
        (cti_file){.context = context, .op = "fuzz", .path = path, .fd = -1, .size = (int64_t)size};
    gguf.text = cti_take(context, size);
    gguf.room = gguf.loaded = (int64_t)size;
    memcpy(gguf.text, data, size);
    const bool ok = cti_gguf_parse(&gguf);
    settle(ok);
    if (ok) check(&gguf);
    cti_gguf_close(&gguf);
}

static cti_visited visit(void *arg, cti_shards *shards, cti_file_tensor *tensor) {
    (void)arg;
    if (tensor->name.size % 3 == 2) return CTI_VISIT_DROP;
    if (tensor->shape.ndim && tensor->shape.dim[0] % 6 == 0)
        tensor->grid = (cti_row_grid){2, 3, 1, 0};
    tensor->offset = (double)(tensor->name.size % 2);
    MUST(cti_shards_set_name(shards, tensor, tensor->name.at));
    return CTI_VISIT_KEEP;
}

static void open_file(const char *path) {
    cti_shards shards;
    const bool ok = cti_shards_open(context, "fuzz", path, &shards);
    settle(ok);
    if (!ok) return;
    if (shards.gguf && cti_shards_rename(&shards, visit, NULL)) {
        for (int64_t i = 0; i < shards.tensors; i++) {
            const cti_file_tensor *t = shards.tensor[i];
            const ct_dtype to = cti_file_tensor_fits(t->dtype, CT_I64) ? CT_I64 : CT_F32;
            if (!cti_file_tensor_fits(t->dtype, to) || t->numel > 1 << 20) continue;
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = ct_empty(context, to, t->shape);
            /* A file may have a size of 0 beside sizes whose product overflows, and a tensor not.
             */
            MUST(x || t->numel == 0);
            if (x) settle(cti_file_tensor_read(t, 0, t->numel, x, 0));
            else ct_error_clear(context);
            ct_scope_close(scope);
        }
    }
    cti_shards_close(&shards);
}

static int64_t encode(const ct_tokenizer *tokenizer, int64_t ids[64]) {
    static const char text[] = "ab a  12<e></s>\u00e9! b";
    return ct_encode(tokenizer, text, sizeof text - 1, (ct_encode_opts){0}, ids, NULL, 64);
}

/* Opens a tokenizer that the library has written itself; it has these ids. */
static void open_again(const char *path, const int64_t *want, int64_t n) {
    int64_t got[64];
    ct_tokenizer *again = ct_tokenizer_open(context, path);
    MUST(again);
    MUST(encode(again, got) == n);
    for (int64_t i = 0; i < n && i < 64; i++) MUST(got[i] == want[i]);
    ct_tokenizer_close(again);
}

/* A tokenizer that is accepted has the same ids as the tokenizer.json that it is saved as, and as
 * the GGUF file that it is written into, if that is not refused. */
static void open_tokenizer(const char *path) {
    int64_t ids[64];
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    settle(tokenizer != NULL);
    if (!tokenizer) return;
    const int64_t n = encode(tokenizer, ids);
    const char *saved = fuzz_path("again.json");
    MUST(ct_tokenizer_save(tokenizer, saved));
    open_again(saved, ids, n);
    cti_gguf_out out;
    const char *written = fuzz_path("again.gguf");
    MUST(cti_gguf_out_begin(context, "fuzz", written, &out));
    cti_gguf_put_text(&out, "general.architecture", cti_text_of("llama"));
    const bool put = cti_tokenizer_put(tokenizer, &out, ct_tokenizer_size(tokenizer) + 2, NULL, 0);
    settle(put);
    if (put) {
        MUST(cti_gguf_out_write(&out));
        ct_tokenizer *again = ct_tokenizer_open(context, written);
        MUST(again);
        ct_tokenizer_close(again);
    }
    cti_gguf_out_end(&out);
    ct_tokenizer_close(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!context) {
        fuzz_begin();
        context = ct_context_new((ct_context_opts){.threads = 1});
    }
    const int64_t live = ct_memory(context).live;
    const char *path = fuzz_path("input.gguf");
    parse(data, size, path);
    fuzz_write(path, data, size);
    open_file(path);
    open_tokenizer(path);
    MUST(ct_memory(context).live == live);
    return 0;
}
