/* ct_tokens: batches of windows from files of token ids, in the order of a keyed permutation. */
#include <cotangent/tokens.h>

#include <cotangent/autograd.h>
#include <cotangent/scope.h>
#include <cotangent/tensor.h>

#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/memory.h"
#include "../../src/core/object.h"
#include "shuffle.h"
#include "token_file.h"

/* At most this many files stay open. File i stays open until another file with the same i %
 * OPEN_FILES is read. */
enum { OPEN_FILES = 64 };

struct ct_tokens {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    int64_t vocabulary;
    int64_t count; /* number of ids in all files */
    int n;
    cti_token_file *file; /* [n] */
    int open[OPEN_FILES]; /* open[k]: the file i with i % OPEN_FILES = k that may be open; k < n */
    /* before[i]: number of windows of `window` + 1 ids in the files before file i; [n + 1] */
    int64_t window, *before;
};
_Static_assert(sizeof(ct_tokens) <= CTI_OBJECT_BYTES, "a set of files is an object");

/* The number of windows of T + 1 ids in a file. T + 1 could overflow, so it is not computed. */
static int64_t windows_of(const cti_token_file *file, int64_t T) {
    return file->ids ? (file->ids - 1) / T : 0;
}

/* ---- open and close ---- */

/* Closes the first `opened` files, frees the memory and ends the object; `name` is its name in
 * debug mode. */
static void tokens_end(ct_tokens *tokens, int opened, const char *name) {
    ct_context *context = tokens->context;
    for (int i = 0; i < opened; i++) cti_token_file_free(&tokens->file[i]);
    cti_give_any(context, tokens->file, cti_bytes(tokens->n, sizeof *tokens->file));
    cti_give_any(context, tokens->before,
                 cti_bytes((int64_t)tokens->n + 1, sizeof *tokens->before));
    cti_object_end(&tokens->object, name);
}

static void tokens_close_with_context(cti_hook *self) { ct_tokens_close((ct_tokens *)self); }

void ct_tokens_close(ct_tokens *tokens) {
    if (!tokens || tokens->object.self != &tokens->object) return;
    char name[CTI_OBJECT_NAME];
    snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, tokens->file[0].path);
    tokens_end(tokens, tokens->n, name);
}

/* Makes room for file i: closes the file that has its place in .open, unless that is file i. */
static void file_room_make(ct_tokens *tokens, int i) {
    int *place = &tokens->open[i % OPEN_FILES];
    if (*place != i) cti_file_close(&tokens->file[*place].file);
    *place = i;
}

/* Opens all files and fills in the struct. *opened is the number of files opened. */
static bool files_open(ct_tokens *tokens, const char *const *paths, int bytes, int *opened) {
    ct_context *context = tokens->context;
    tokens->file = cti_take_any(context, cti_bytes(tokens->n, sizeof *tokens->file));
    if (!tokens->file) return false;
    tokens->before =
        cti_take_any(context, cti_bytes((int64_t)tokens->n + 1, sizeof *tokens->before));
    if (!tokens->before) return false;
    for (int i = 0; i < tokens->n; i++) {
        cti_token_file *file = &tokens->file[i];
        if (!paths[i])
            return ct_fail(context, CT_ERR_ARGUMENT, "tokens_open: path %d of %d is NULL", i,
                           tokens->n);
        if (i < OPEN_FILES) tokens->open[i] = i;
        else file_room_make(tokens, i);
        if (!cti_token_file_open(context, paths[i], bytes, file)) return false;
        ++*opened;
        if (__builtin_add_overflow(tokens->count, file->ids, &tokens->count))
            return ct_fail(context, CT_ERR_FORMAT,
                           "tokens: %s: with it the number of ids overflows", file->path);
    }
    cti_object_end_with_context(&tokens->object, tokens_close_with_context);
    return true;
}

static bool tokens_check_opts(ct_context *context, const char *const *paths, int n,
                              ct_tokens_opts opts) {
    static const char function[] = "tokens_open";
    if (!paths) return ct_fail(context, CT_ERR_ARGUMENT, "%s: paths is NULL", function);
    if (n < 1)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %d files, and not at least one", function, n);
    if (opts.bytes != 0 && opts.bytes != 2 && opts.bytes != 4 && opts.bytes != 8)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: ids of %d bytes, and not of 2, 4 or 8",
                       function, opts.bytes);
    if (opts.vocabulary < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: a vocabulary of %lld", function,
                       (long long)opts.vocabulary);
    return true;
}

ct_tokens *ct_tokens_open(ct_context *context, const char *const *paths, int n,
                          ct_tokens_opts opts) {
    ct_tokens *tokens = cti_object_new(context, sizeof *tokens, "set of token files");
    if (!tokens) return NULL;
    int opened = 0;
    if (tokens_check_opts(context, paths, n, opts)) {
        tokens->vocabulary = opts.vocabulary;
        tokens->n = n;
        if (files_open(tokens, paths, opts.bytes, &opened)) return tokens;
    }
    tokens_end(tokens, opened, "");
    return NULL;
}

/* ---- sizes ---- */

int64_t ct_tokens_count(const ct_tokens *tokens) {
    if (!tokens || !cti_object_is_open(&tokens->object, "ct_tokens_count")) return 0;
    return tokens->count;
}

int64_t ct_tokens_windows(const ct_tokens *tokens, int64_t T) {
    if (!tokens || !cti_object_is_open(&tokens->object, "ct_tokens_windows")) return 0;
    if (T < 1) {
        ct_fail(tokens->context, CT_ERR_ARGUMENT, "tokens_windows: T is %lld, and not at least 1",
                (long long)T);
        return 0;
    }
    int64_t windows = 0;
    for (int i = 0; i < tokens->n; i++) windows += windows_of(&tokens->file[i], T);
    return windows;
}

/* ---- batches ---- */

static void windows_count(ct_tokens *tokens, int64_t T) {
    if (tokens->window == T) return;
    tokens->before[0] = 0;
    for (int i = 0; i < tokens->n; i++)
        tokens->before[i + 1] = tokens->before[i] + windows_of(&tokens->file[i], T);
    tokens->window = T;
}

/* The file that has window w of all windows. */
static int file_of(const ct_tokens *tokens, int64_t w) {
    int low = 0, high = tokens->n; /* before[low] <= w < before[high] */
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (tokens->before[middle] <= w) low = middle;
        else high = middle;
    }
    return low;
}

static bool id_refuse(const ct_tokens *tokens, const cti_token_file *file, int64_t i, int64_t id) {
    const long long offset = file->data + i * file->bytes;
    if (id < 0 && !file->is_signed)
        return ct_fail(tokens->context, CT_ERR_FORMAT,
                       "tokens: %s: byte %lld: id %llu is 2^63 or more", file->path, offset,
                       (unsigned long long)id);
    if (!tokens->vocabulary)
        return ct_fail(tokens->context, CT_ERR_FORMAT, "tokens: %s: byte %lld: id %lld is negative",
                       file->path, offset, (long long)id);
    return ct_fail(tokens->context, CT_ERR_FORMAT,
                   "tokens: %s: byte %lld: id %lld is not in the vocabulary of %lld", file->path,
                   offset, (long long)id, (long long)tokens->vocabulary);
}

/* Reads ids [first, first + T + 1) of a file: the first T into x, the last T into y. */
static bool ids_read(cti_token_file *file, int64_t first, int64_t T, int64_t *x, int64_t *y) {
    /* The row of x first holds the window's bytes as they are in the file: 4 (T + 1) <= 8 T. It has
     * no room for the last id of 8 bytes, which is read into its place in y. */
    const bool is_wide = file->bytes == sizeof *x;
    if (!cti_token_file_read(file, first, is_wide ? T : T + 1, x)) return false;
    if (is_wide && !cti_token_file_read(file, first + T, 1, &y[T - 1])) return false;
    const int64_t id = cti_token_id(file, x, 0);
    for (int64_t t = 0; t < T - is_wide; t++) y[t] = cti_token_id(file, x, t + 1);
    if (is_wide) y[T - 1] = cti_token_id(file, &y[T - 1], 0);
    x[0] = id;
    memcpy(x + 1, y, (size_t)(T - 1) * sizeof *x);
    return true;
}

/* Reads window w of all windows: its first T ids into a row of x, its last T into a row of y. */
static bool window_read(ct_tokens *tokens, int64_t w, int64_t T, int64_t *x, int64_t *y) {
    const int i = file_of(tokens, w);
    cti_token_file *file = &tokens->file[i];
    const int64_t first = (w - tokens->before[i]) * T;
    file_room_make(tokens, i);
    if (!ids_read(file, first, T, x, y)) return false;
    const uint64_t most =
        tokens->vocabulary ? (uint64_t)tokens->vocabulary : INT64_MAX + UINT64_C(1);
    if ((uint64_t)x[0] >= most) return id_refuse(tokens, file, first, x[0]);
    for (int64_t t = 0; t < T; t++)
        if ((uint64_t)y[t] >= most) return id_refuse(tokens, file, first + t + 1, y[t]);
    return true;
}

static const char batch_op[] = "tokens_batch";

/* The number of windows of an epoch. If the sizes of the batch are wrong, records an error and
 * returns 0. */
static int64_t batch_check(ct_tokens *tokens, int64_t index, int64_t B, int64_t T) {
    ct_context *context = tokens->context;
    if (B < 1 || T < 1) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: a batch (%lld, %lld), and not at least (1, 1)",
                batch_op, (long long)B, (long long)T);
    } else if (index < 0) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: the index is %lld", batch_op, (long long)index);
    } else if (index > (INT64_MAX - (B - 1)) / B) {
        ct_fail(context, CT_ERR_ARGUMENT,
                "%s: batch %lld of %lld windows is too far: a window's number overflows", batch_op,
                (long long)index, (long long)B);
    } else {
        windows_count(tokens, T);
        const int64_t windows = tokens->before[tokens->n];
        int64_t most = 0;
        for (int i = 0; i < tokens->n; i++) most = cti_max(most, tokens->file[i].ids);
        if (!windows)
            ct_fail(context, CT_ERR_ARGUMENT,
                    "%s: %s: the longest of %d file%s has %lld ids, and a window of T = %lld has "
                    "one more than T",
                    batch_op, tokens->file[0].path, tokens->n, tokens->n == 1 ? "" : "s",
                    (long long)most, (long long)T);
        if (!windows || B <= INT64_MAX / (int64_t)sizeof(int64_t) / T) return windows;
        ct_fail(context, CT_ERR_MEMORY, "%s: the size of (%lld, %lld) overflows", batch_op,
                (long long)B, (long long)T);
    }
    return 0;
}

static bool batch_read(ct_tokens *tokens, int64_t windows, uint64_t seed, int64_t index,
                       ct_tensor *x, ct_tensor *y) {
    const ct_shape shape = ct_shape_of(x);
    const int64_t B = shape.dim[0], T = shape.dim[1];
    int64_t *ids = ct_data_i64(x), *next = ct_data_i64(y);
    for (int64_t b = 0; b < B; b++) {
        const int64_t number = index * B + b, epoch = number / windows;
        const int64_t w = cti_index_shuffle(seed, (uint64_t)epoch, windows, number % windows);
        if (!window_read(tokens, w, T, ids + b * T, next + b * T)) return false;
    }
    return true;
}

bool ct_tokens_batch(ct_tokens *tokens, uint64_t seed, int64_t index, int64_t B, int64_t T,
                     ct_tensor **x, ct_tensor **y) {
    if (!tokens || !cti_object_is_ready(&tokens->object, "ct_tokens_batch", "tokens", NULL))
        return false;
    ct_context *context = tokens->context;
    if (!x || !y)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", batch_op, x ? "y" : "x");
    const int64_t windows = batch_check(tokens, index, B, T);
    if (!windows) return false;
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *ids = ct_empty(context, CT_I64, CT_SHAPE(B, T)),
              *next = ct_empty(context, CT_I64, CT_SHAPE(B, T));
    const bool done = next && batch_read(tokens, windows, seed, index, ids, next);
    if (done) {
        *x = ct_scope_keep(scope, ids);
        *y = ct_scope_keep(scope, next);
    }
    ct_scope_close(scope);
    return done;
}
