/* Helpers of the tests of token files: files of known ids, and batches compared with them. */
#ifndef TOKEN_FILES_H
#define TOKEN_FILES_H

#include "tests/support/files.h"

#include <stdarg.h>
#include <sys/stat.h>

enum { MAGIC = 20240520, LLAMA3 = 20240801 };
/* A version for put_ids that stands for NumPy's header: '<u2', '<u4' or '<i8'. */
enum { NPY_VERSION = 1000 };

/* Id i of file f. It identifies both f and i, and has 16 bits in small files. */
static inline int64_t id_of(int f, int64_t i) { return f * 4096 + i; }

static inline void put_number(FILE *file, uint64_t number, int bytes) {
    for (int b = 0; b < bytes; b++) putc((int)(number >> 8 * b & 255), file);
}

static inline void put_header(FILE *file, uint32_t magic, uint32_t version, uint32_t count) {
    put_number(file, magic, 4);
    put_number(file, version, 4);
    put_number(file, count, 4);
    for (int i = 3; i < 256; i++) put_number(file, 0, 4);
}

/* Writes NumPy's header with this dict. A text longer than 65535 bytes needs version 2. */
static inline void put_npy(FILE *file, int version, const char *dict) {
    const size_t size = strlen(dict) + 1;
    fwrite("\x93NUMPY", 1, 6, file);
    put_number(file, (uint64_t)version, 2);
    put_number(file, size, version == 1 ? 2 : 4);
    fprintf(file, "%s\n", dict);
}

static inline void put_npy_ids(FILE *file, const char *dtype, int64_t n) {
    char dict[100];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,), }",
             dtype, (long long)n);
    put_npy(file, 1, dict);
}

/* Writes file f of n ids. With version 0 the file has no header. */
static inline const char *put_ids(int f, int64_t n, int bytes, uint32_t version) {
    char name[32];
    snprintf(name, sizeof name, "%d.bin", f);
    const char *path = in_folder(name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    if (version == NPY_VERSION)
        put_npy_ids(file, bytes == 2 ? "<u2" : bytes == 4 ? "<u4" : "<i8", n);
    else if (version) put_header(file, version == 7 ? LLAMA3 : MAGIC, version, (uint32_t)n);
    for (int64_t i = 0; i < n; i++) put_number(file, (uint64_t)id_of(f, i), bytes);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

/* Opens files 0 ... n - 1 of the folder. */
static inline ct_tokens *open_ids(ct_context *c, int n, ct_tokens_opts opts) {
    static char names[300][128];
    const char *paths[300];
    for (int f = 0; f < n; f++) {
        snprintf(names[f], sizeof names[f], "%s/%d.bin", folder, f);
        paths[f] = names[f];
    }
    return ct_tokens_open(c, paths, n, opts);
}

static inline void must(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

/* Checks that a batch is refused: the message has all of the words, and x and y are unchanged. */
static inline void ck_batch_refused(ct_tokens *tokens, int64_t index, int64_t B, int64_t T,
                                    ct_status status, const char *path, const char *says) {
    ct_tensor *const before = ct_full(context, CT_F32, CT_SCALAR, 7), *x = before, *y = NULL;
    const int64_t live = ct_memory(context).live;
    ck_refused(ct_tokens_batch(tokens, 1, index, B, T, &x, &y), status, path, says);
    ck_assert(x == before && !y && ct_item(x) == 7);
    ck_assert_int_eq(ct_memory(context).live, live);
    ct_release(before);
}

#endif
