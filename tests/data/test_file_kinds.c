/* Files of other formats in place of safetensors, indices, checkpoints and token ids. The error has
 * the name of the format. A file that only resembles another format is read. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

#include <sys/stat.h>

#include "src/io/kind.h"

/* A file begins with these bytes; then others up to `size`. */
typedef struct {
    const char *begin;
    size_t n, size;
    const char *name; /* the kind's name in errors of loads */
    bool ids;         /* whether token files use this name too */
} sample;
#define BYTES(text) (text), sizeof(text) - 1
#define NPY                                                                                        \
    "\x93NUMPY\1\0\x76\0{'descr': '<u2', 'fortran_order': False, 'shape': (100,), }            \n"
#define ZIP(name) "PK\3\4\x14\0\0\0\0\0\0\0\0\0\x11\x22\x33\x44\0\1\0\0\0\1\0\0" name

static const sample samples[] = {
    {BYTES(NPY), 328, "a NumPy file", false},
    {BYTES(ZIP("\x10\0\0\0model_1/data.pkl")), 400, "a pickle in a zip archive", true},
    {BYTES(ZIP("\x13\0\x05\0archive/version.txtFB\0\0\0archive/data.pkl")), 400, "a pickle", true},
    {BYTES(ZIP("\7\0\0\0ids.npy\x93NUMPY")), 400, "a NumPy archive (.npz)", true},
    {BYTES(ZIP("\5\0\0\0a.txt")), 400, "a zip archive", true},
    {BYTES("PK\3\4"), 4, "a zip archive", false},
    {BYTES("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), 22, "an empty zip archive", true},
    {BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3."), 300, "a pickle", true},
    {BYTES("\x80\4\x95\x20\1\0\0\0\0\0\0}\x94\x8c\1w\x94"), 300, "a pickle", true},
    {BYTES("\x80\5\x95\x0b\0\0\0\0\0\0\0"), 22, "a pickle", true},
    {BYTES("\x80\2}q\0X\1\0\0\0wq\1"), 300, "a pickle", true},
    {BYTES("\x80\3]q\0."), 6, "a pickle", true},
    {BYTES("\x80\2ccollections\nOrderedDict\nq\0"), 300, "a pickle", true},
    {BYTES("\x80\2K\1."), 300, "a pickle", false},
    {BYTES("\x1f\x8b\x08\0\0\0\0\0\0\3\x8d\x54\0\1\2\3\4\5\6\7"), 300, "a gzip file", true},
    {BYTES("\x1f\x8b\x08\x08\x11\x22\x33\x44\2\xffname\0\1\2\3\4"), 300, "a gzip file", true},
    {BYTES("BZh91AY&SY\xd1\x3c"), 300, "a bzip2 file", true},
    {BYTES("\xfd\x37zXZ\0\0\4\xe6\xd6\xb4\x46"), 300, "an xz file", true},
    {BYTES("\x28\xb5\x2f\xfd\x24\1\2\3"), 300, "a Zstandard file", true},
    {BYTES("\4\x22\x4d\x18\x64\x40\xa7\1\2\3"), 300, "an LZ4 file", true},
    {BYTES("7z\xbc\xaf\x27\x1c\0\4"), 300, "a 7z archive", true},
    {BYTES("\x89HDF\r\n\x1a\n\0\0\0\0"), 300, "an HDF5 file", true},
    {BYTES("PAR1\x15\4\x15\x20"), 300, "a Parquet file", true},
    {BYTES("ARROW1\0\0\xff\xff\xff\xff"), 300, "an Arrow file", true},
    {BYTES("\xff\xff\xff\xff\xf8\0\0\0\x10\0\0\0\0\0\x0a\0"), 300, "an Arrow stream", true},
    {BYTES("SQLite format 3\0\x10\0"), 300, "an SQLite database", true},
    {BYTES("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08"), 300, "an index of Megatron-LM", true},
    {BYTES("GGUF\3\0\0\0\x23\1\0\0\0\0\0\0"), 300, "a GGUF file", true},
    {BYTES("\xc6\xd7\x34\1\3\0\0\0\0\4\0\0"), 2048, "a model of llm.c", true},
    {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize "
           "548105171\n"),
     0, "a git-lfs pointer", true},
    {BYTES("<!DOCTYPE html>\n<html lang=\"en\"><head><title>Not found</title></head></html>\n"), 0,
     "an HTML page", true},
    {BYTES("\xef\xbb\xbf \r\n<HTML><BODY>503 Service Unavailable</BODY></HTML>"), 0, "an HTML page",
     true},
    {BYTES("<!-- generated -->\n<html><body>Please sign in</body></html>\n"), 0, "an HTML page",
     true},
    {BYTES("<HEAD><TITLE>403 Forbidden</TITLE></HEAD>"), 0, "an HTML page", true},
    {BYTES("<!doctype html><title>Connexion refus\xe9"
           "e</title>"),
     0, "an HTML page", true}, /* Latin-1 */
    {BYTES(
         "version https://git-lfs.github.com/spec/v1\r\noid sha256:0123456789abcdef\r\nsize 3\r\n"),
     0, "a git-lfs pointer", true},
    {BYTES("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), 0, "an XML text",
     true},
    {BYTES(" \n{\"error\": \"Repository not found, or not yours\"}"), 0, "a JSON text", true},
    {BYTES("First Citizen:\nBefore we proceed any further, hear me speak.\n"), 0, "a text", true},
    {BYTES("\xd0\x92\xd1\x81\xd0\xb5 \xd1\x81\xd1\x87\xd0\xb0\xd1\x81\xd1\x82\xd0\xbb\xd0\xb8\xd0"
           "\xb2\xd1\x8b\xd0\xb5 \xd1\x81\xd0\xb5\xd0\xbc\xd1\x8c\xd0\xb8"),
     0, "a text", true},
    {BYTES("Entry not found"), 0, "a text", false},
    {BYTES("\xff\xfe"
           "E\0n\0t\0r\0y\0 \0n\0o\0t\0 \0f\0o\0u\0n\0d\0"),
     0, "a text (UTF-16)", true},
    {BYTES("\xfe\xff"
           "\0E\0n\0t\0r\0y\0 \0n\0o\0t\0 \0f\0o\0u\0n\0d"),
     0, "a text (UTF-16)", true},
    {BYTES("\0\0"), 300, "a file that begins with zeros", false},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* Behind the beginning are bytes that no text has; behind zeros, zeros. */
static const char *put_sample(const sample *s, const char *name) {
    static char bytes[4096];
    const size_t size = s->size ? s->size : s->n;
    const bool zeros = s->n == 2 && !s->begin[0];
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(zeros ? 0 : 128 + i % 32);
    memcpy(bytes, s->begin, s->n);
    write_all(in_folder(name), bytes, size);
    return in_folder(name);
}

START_TEST(loads) {
    ct_module *module = two_numbers();
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){0});
    ct_checkpoint checkpoint = {.module = module, .optim = optim};
    const int64_t live = ct_memory(context).live;
    for (int i = 0; i < SAMPLES; i++) {
        char says[100];
        snprintf(says, sizeof says, "pytorch_model.bin: is %s", samples[i].name);
        const char *path = put_sample(&samples[i], "pytorch_model.bin");
        ck_refused(ct_load(module, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, says);
        ck_refused(ct_load(module, path, (ct_load_opts){.partial = true}), CT_ERR_FORMAT,
                   "not a safetensors file", says);
        ck_refused(ct_safetensors_open(context, path), CT_ERR_FORMAT, path, says);
        ck_refused(ct_checkpoint_load(path, &checkpoint), CT_ERR_FORMAT, path, says);
        char value[8];
        ck_refused(ct_load_metadata(context, path, "k", value, sizeof value), CT_ERR_FORMAT, path,
                   says);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

START_TEST(in_sets) {
    static const char index[] = "{\"weight_map\":{\"w\":\"model-1\"}}";
    ck_assert_int_eq(mkdir(in_folder("set"), 0700), 0);
    write_all(in_folder("set/model.safetensors.index.json"), index, sizeof index - 1);
    for (int i = 0; i < SAMPLES; i++) {
        put_sample(&samples[i], "set/model-1");
        ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT,
                   "set/model-1: is ", samples[i].name);
    }
    /* the index itself */
    static const char *const others[] = {"a git-lfs pointer", "an HTML page", "a gzip file"};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < SAMPLES; i++) {
            if (strcmp(samples[i].name, others[k]) != 0) continue;
            put_sample(&samples[i], "set/model.safetensors.index.json");
            ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT,
                       "not an index of safetensors files", others[k]);
        }
    write_all(in_folder("set/model.safetensors.index.json"), "", 0);
    ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT,
               "not an index of safetensors files", "the file is empty");
    ct_tensor *w = ct_zeros(context, CT_F32, CT_SHAPE(2));
    ck_assert(ct_tensors_save(context, in_folder("set/model.safetensors.index.json"),
                              &(ct_named){"w", w}, 1, (ct_save_opts){0}));
    ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT,
               "is a safetensors file, not an index of safetensors files",
               "model.safetensors.index.json");
    remove(in_folder("set/model.safetensors.index.json"));
    remove(in_folder("set/model-1"));
    /* a folder as PyTorch's, without safetensors */
    put_sample(&samples[1], "set/pytorch_model.bin");
    ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_IO,
               "with neither model.safetensors nor", "pytorch_model.bin is a pickle");
    remove(in_folder("set/pytorch_model.bin"));
    rmdir(in_folder("set"));
}
END_TEST

/* Files of ids of either width, in any place of the list. */
START_TEST(token_files) {
    static const char ids[12] = {1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0};
    write_all(in_folder("ids"), ids, sizeof ids);
    for (int i = 0; i < SAMPLES; i++) {
        const char *path = put_sample(&samples[i], "t.npy"), *paths[] = {in_folder("ids"), path};
        char says[100];
        snprintf(says, sizeof says, "t.npy: is %s", samples[i].name);
        for (int bytes = 0; bytes <= 4; bytes += 2) {
            const int64_t live = ct_memory(context).live;
            const ct_tokens_opts opts = {.bytes = bytes};
            ct_tokens *tokens = ct_tokens_open(context, paths, 2, opts);
            if (samples[i].ids) ck_refused(tokens, CT_ERR_FORMAT, path, says);
            ct_error_clear(context); /* the size may be no whole number of ids */
            ct_tokens_close(tokens);
            ck_assert_int_eq(ct_memory(context).live, live);
        }
    }
    ct_tensor *w = ct_zeros(context, CT_F32, CT_SHAPE(2));
    const char *path = in_folder("model.safetensors");
    ck_assert(ct_tensors_save(context, path, &(ct_named){"w", w}, 1, (ct_save_opts){0}));
    ck_refused(ct_tokens_open(context, &path, 1, (ct_tokens_opts){0}), CT_ERR_FORMAT, path,
               "is a safetensors file, not a file of ids");
}
END_TEST

/* Ids that begin with the first two or four bytes of another format are ids. */
START_TEST(ids_that_look_like_others) {
    static const struct {
        const char *begin;
        size_t n;
    } ids[] = {
        {BYTES("\x80\2\x10\0")},                   /* 640, 16 */
        {BYTES("\x80\4\x95\0")},                   /* and no size of a frame */
        {BYTES("\x1f\x8b\x08\0")},                 /* 35615, 8 */
        {BYTES("\x1f\x8b\x08\x18\0\0\0\0\0\x20")}, /* no such system */
        {BYTES("BZh1")},
        {BYTES("GGUF\x01\x02\x03\0")},
        {BYTES("\4\x22\x4d\x18\0\0\0\0")},
        {BYTES("PK\3\4\0\x40")},
        {BYTES("PAR1\x10")},
        {BYTES("\xff\xff\xff\xff\1\0\0\0")},
        {BYTES("\0\0\0\0\0\0\0\0")},
        {BYTES("{\"a\":[1,2]}")}, /* 12 bytes of a text */
        {BYTES("<html>")},
        {BYTES("\2\0\0\0\0\0\0\0[]")},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\x7f{}")},
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char bytes[400];
        for (int k = 0; k < 400; k++) bytes[k] = (char)(k % 2 ? 1 + k / 64 : 7 * k);
        memcpy(bytes, ids[i].begin, ids[i].n);
        const char *path = in_folder("ids");
        write_all(path, bytes, sizeof bytes);
        ct_tokens *tokens = ct_tokens_open(context, &path, 1, (ct_tokens_opts){0});
        ck_assert_msg(ct_tokens_count(tokens) == 200, "%zu: %s", i, ct_error_message(context));
        ct_tokens_close(tokens);
        write_all(path, ids[i].begin, ids[i].n / 2 * 2); /* no more than this */
        tokens = ct_tokens_open(context, &path, 1, (ct_tokens_opts){0});
        ck_assert_msg(tokens != NULL, "%zu: %s", i, ct_error_message(context));
        ct_tokens_close(tokens);
    }
}
END_TEST

/* No ids that are drawn at random are taken for another format. */
START_TEST(random_ids) {
    for (int i = 0; i < 20000; i++) {
        uint64_t state = (uint64_t)i * 0x9E3779B97F4A7C15u + 1;
        unsigned char bytes[64];
        for (int k = 0; k < 64; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            bytes[k] = (unsigned char)(state >> 20);
        }
        ck_assert_msg(!cti_kind_of(bytes, 64, 64, true), "%d: %s", i,
                      cti_kind_of(bytes, 64, 64, true)->name);
    }
}
END_TEST

/* Cut at any byte, a sample is still refused by a load, and reading stays inside the file. */
START_TEST(cut_anywhere) {
    ct_module *module = two_numbers();
    for (int i = 0; i < SAMPLES; i++)
        for (size_t n = 1; n < samples[i].n; n++) {
            unsigned char *exact = malloc(n);
            memcpy(exact, samples[i].begin, n);
            cti_kind_of(exact, n, (int64_t)n, true);
            cti_kind_of(exact, n, (int64_t)n, false);
            write_all(in_folder("cut"), (char *)exact, n);
            free(exact);
            ck_refused(ct_load(module, in_folder("cut"), (ct_load_opts){0}), CT_ERR_FORMAT, "cut",
                       "not a safetensors file");
        }
}
END_TEST

int main(void) {
    return run_tests("file kinds", setup, teardown,
                     TESTS(TEST(loads), TEST(in_sets), TEST(token_files),
                           TEST(ids_that_look_like_others), TEST(random_ids), TEST(cut_anywhere)));
}
