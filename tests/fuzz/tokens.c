/* Files of token ids of any bytes, with any options, batches of any numbers, and a file that
 * changes while it is in use. A simple second reader computes the correct batch, or decides that
 * the call must be refused. A call that is refused changes nothing. */
#include <fcntl.h>
#include <sys/stat.h>

#include "fuzz.h"

#include "src/core/context.h"
#include "src/io/kind.h"
#include "ext/data/shuffle.h"

enum { FILES = 3, ROOM = 8192 };

typedef struct {
    uint8_t bytes[ROOM];
    size_t size;
    int width; /* bytes of an id */
    int64_t data, ids;
} content;
static content files[FILES];

static ct_context *context;
static const uint8_t *input, *input_end;

static uint8_t byte(void) { return input < input_end ? *input++ : 0; }

/* Small, or one of those that are hard. */
static int64_t number(void) {
    static const int64_t hard[] = {
        INT64_MAX,        INT64_MAX - 1,    INT64_MIN, -1,    INT64_MAX / 2, INT64_MAX / 3,
        (int64_t)1 << 32, (int64_t)1 << 59, 65535,     65536, 50257,         INT32_MAX};
    const uint8_t which = byte();
    if (which < 240) return which % 64;
    return hard[(which - 240) % 12] - (which & 1 ? byte() : 0);
}

/* ---- the files ---- */

static uint32_t little(const uint8_t *at, int n) {
    uint32_t value = 0;
    for (int i = n; i-- > 0;) value = value << 8 | at[i];
    return value;
}

/* A header of three numbers from the input, or none; then bytes of the input. */
static void make(content *file, int more) {
    file->size = 0;
    const uint8_t kind = byte();
    if (kind & 1) {
        static const uint32_t magic[] = {20240520, 20240801, 20240520, 20240522},
                              version[] = {1, 7, 7, 2};
        memset(file->bytes, 0, 1024);
        const int which = kind >> 1 & 3;
        const uint32_t count = (uint32_t)number();
        for (int i = 0; i < 4; i++) {
            file->bytes[i] = (uint8_t)(magic[which] >> 8 * i);
            file->bytes[4 + i] = (uint8_t)(version[kind >> 3 & 3] >> 8 * i);
            file->bytes[8 + i] = (uint8_t)(count >> 8 * i);
        }
        file->size = kind & 64 ? (size_t)byte() * 4 + 3 : 1024; /* a part of it */
    }
    size_t rest = (size_t)(input_end - input);
    if (more) rest = byte() < rest ? byte() : rest / 2; /* leaves some for the next file */
    for (size_t i = 0; i < rest && file->size < ROOM && input < input_end; i++)
        file->bytes[file->size++] = byte();
}

/* Whether it is a file of ids, and its fields. test_file_kinds says which files are of another
 * kind. */
static bool understand(content *file, int asked) {
    const uint32_t magic = file->size < 4 ? 0 : little(file->bytes, 4);
    file->width = asked ? asked : 2;
    file->data = 0;
    if (magic == 20240520 || magic == 20240801) {
        if (file->size < 1024) return false;
        const uint32_t version = little(file->bytes + 4, 4);
        file->width = version == 1 ? 2 : version == 7 ? 4 : 0;
        file->data = 1024;
        if (!file->width || (asked && asked != file->width)) return false;
        if ((uint64_t)little(file->bytes + 8, 4) * (uint64_t)file->width != file->size - 1024)
            return false;
    }
    const size_t begin = file->size < CTI_KIND_BYTES ? file->size : CTI_KIND_BYTES;
    if (!file->data && cti_kind_of(file->bytes, begin, (int64_t)file->size, true)) return false;
    file->ids = ((int64_t)file->size - file->data) / file->width;
    return ((int64_t)file->size - file->data) % file->width == 0;
}

static int64_t windows_of(const content *file, int64_t T) {
    return file->ids < 1 ? 0 : (file->ids - 1) / T;
}

/* ---- a batch ---- */

/* The required result of a call. */
typedef enum { RIGHT, REFUSED, ANY } outcome;

/* Compares a row with window w, unless x is NULL; REFUSED: it is in the file that has changed, or
 * has an id outside the vocabulary. */
static outcome check_row(int n, int changed, int64_t vocabulary, int64_t w, int64_t T,
                         const int64_t *x, const int64_t *y) {
    int f = 0;
    for (; f < n && w >= windows_of(&files[f], T); f++) w -= windows_of(&files[f], T);
    MUST(f < n);
    if (f == changed) return REFUSED;
    const uint8_t *at = files[f].bytes + files[f].data + w * T * files[f].width;
    for (int64_t t = 0; t <= T; t++) {
        const int64_t id = little(at + t * files[f].width, files[f].width);
        if (vocabulary && id >= vocabulary) return REFUSED;
        if (x && t < T) MUST(x[t] == id);
        if (x && t) MUST(y[t - 1] == id);
    }
    return RIGHT;
}

static outcome check_batch(int n, int changed, int64_t vocabulary, uint64_t seed, int64_t index,
                           int64_t B, int64_t T, const int64_t *x, const int64_t *y) {
    int64_t windows = 0;
    if (B < 1 || T < 1 || index < 0) return REFUSED;
    if (index > (INT64_MAX - (B - 1)) / B) return REFUSED; /* the last window's number overflows */
    for (int f = 0; f < n; f++) windows += windows_of(&files[f], T);
    if (!windows) return REFUSED;
    if (B > 4096) return ANY; /* too slow to look at, or no memory */
    for (int64_t b = 0; b < B; b++) {
        const int64_t i = index * B + b,
                      w = cti_index_shuffle(seed, (uint64_t)(i / windows), windows, i % windows);
        if (check_row(n, changed, vocabulary, w, T, x ? x + b * T : NULL, y ? y + b * T : NULL) !=
            RIGHT)
            return REFUSED;
    }
    return RIGHT;
}

static void batch(ct_tokens *tokens, int n, int changed, int64_t vocabulary) {
    const uint64_t seed = (uint64_t)number();
    const int64_t index = number(), B = number(), T = number();
    ct_scope scope = ct_scope_open(context);
    ct_tensor *const before = ct_zeros(context, CT_F32, CT_SCALAR), *x = before, *y = before;
    const bool done = ct_tokens_batch(tokens, seed, index, B, T, &x, &y);
    const outcome expected =
        check_batch(n, changed, vocabulary, seed, index, B, T, done ? ct_data_i64(x) : NULL,
                    done ? ct_data_i64(y) : NULL);
    MUST(done == (ct_error(context) == CT_OK));
    MUST(expected == ANY || done == (expected == RIGHT));
    MUST(done || (x == before && y == before && *ct_error_message(context)));
    ct_error_clear(context);
    ct_scope_close(scope);
    int64_t windows = 0;
    for (int f = 0; f < n && T > 0; f++) windows += windows_of(&files[f], T);
    MUST(ct_tokens_windows(tokens, T) == windows);
    ct_error_clear(context);
}

static void change(const char *path, const content *file) {
    const char *other = fuzz_path("other");
    switch (byte() % 6) {
    case 0: MUST(truncate(path, (off_t)file->size / 2 + !file->size) == 0); break;
    case 1: MUST(truncate(path, (off_t)file->size + 1 + byte()) == 0); break;
    case 2: MUST(unlink(path) == 0); break;
    case 3: MUST(rename(path, other) == 0); break;
    case 4:
        fuzz_write(other, file->bytes, file->size);
        MUST(rename(other, path) == 0);
        break;
    case 5: MUST(unlink(path) == 0 && mkdir(path, 0700) == 0); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!context) {
        fuzz_begin();
        context = ct_context_new((ct_context_opts){.threads = 1, .memory_limit = 8 << 20});
    }
    const int64_t live = ct_memory(context).live;
    input = data;
    input_end = data + size;
    const uint8_t head = byte();
    const int n = 1 + head % FILES, asked = (head >> 2 & 3) == 3 ? 4 : (head >> 2 & 3) == 2 ? 2 : 0;
    const int64_t vocabulary = head & 16 ? number() : 0;
    const uint8_t *numbers =
        input; /* the numbers of the batches lie before the bytes of the files */
    input += input_end - input < 24 ? input_end - input : 24;
    const char *paths[FILES];
    static const char *const names[] = {"a", "b", "c"};
    bool valid = vocabulary >= 0;
    for (int f = 0; f < n; f++) {
        make(&files[f], n - 1 - f);
        paths[f] = fuzz_path(names[f]);
        rmdir(paths[f]);
        fuzz_write(paths[f], files[f].bytes, files[f].size);
        valid &= understand(&files[f], asked);
    }
    const ct_tokens_opts opts = {.vocabulary = vocabulary, .bytes = asked};
    ct_tokens *tokens = ct_tokens_open(context, paths, n, opts);
    MUST((tokens != NULL) == valid && valid == (ct_error(context) == CT_OK));
    MUST(valid || vocabulary < 0 || strstr(ct_error_message(context), fuzz_folder));
    ct_error_clear(context);
    input = numbers;
    for (int i = 0; tokens && i < 3; i++) batch(tokens, n, -1, vocabulary);
    if (tokens) {
        const int changed = head >> 5 & 1 ? n - 1 : 0;
        change(paths[changed], &files[changed]);
        for (int i = 0; i < 3; i++) batch(tokens, n, changed, vocabulary);
    }
    ct_tokens_close(tokens);
    MUST(ct_memory(context).live == live);
    return 0;
}
