/* Files at the limits of the format: headers and indices of 100 million bytes. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/files.h"

enum { MOST = 100 * 1000 * 1000 };

/* An index that is one byte too long is refused by its size, without a look at its bytes. */
START_TEST(long_index) {
    const char *path = in_folder("model.safetensors.index.json");
    ct_module *m = ct_mlp_new(context, (ct_mlp_opts){.dim = 2});
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert(fd >= 0 && ftruncate(fd, MOST + 1) == 0);
    ck_refused(ct_load(m, path, (ct_load_opts){0}), CT_ERR_FORMAT, path,
               "is not an index of safetensors files: it has 100000001 bytes, over 100000000");
    ck_assert(ftruncate(fd, 1000) == 0); /* zeros are not JSON */
    ck_refused(ct_load(m, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, "begins with zeros");
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* Metadata of control characters, each of which is six bytes of JSON: the header would be longer
 * than any reader takes. Nothing is written, and the old file stays. */
START_TEST(long_header) {
    const size_t size = MOST / 6 + 1;
    char *value = malloc(size + 1);
    memset(value, 1, size);
    value[size] = 0;
    const char *path = in_folder("tensors.safetensors");
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(3));
    const ct_named named = {"x", x};
    ck_assert(ct_tensors_save(context, path, &named, 1, (ct_save_opts){0}));
    const char *const metadata[] = {"key", value, NULL};
    const ct_save_opts opts = {.metadata = metadata};
    ck_refused(ct_tensors_save(context, path, &named, 1, opts), CT_ERR_ARGUMENT, path,
               "bytes, over 100000000");
    ck_assert_int_eq(files_in_folder(), 1);
    ct_safetensors *file = ct_safetensors_open(context, path);
    ck_assert_msg(ct_safetensors_read(file, "x") != NULL, "%s", ct_error_message(context));
    ct_safetensors_close(file);
    free(value);
}
END_TEST

/* A parameter that the module lacks, with a name that no message has room for. */
START_TEST(long_name) {
    enum { LONG = 5000 };
    static char name[LONG + 1];
    memset(name, 'n', LONG);
    const char *path = in_folder("tensors.safetensors");
    const ct_named named = {name, ct_ones(context, CT_F32, CT_SHAPE(3))};
    ck_assert(ct_tensors_save(context, path, &named, 1, (ct_save_opts){0}));
    ct_module *m = ct_linear_new(
        context, (ct_linear_opts){.in_features = 1, .out_features = 1, .no_bias = true});
    ck_refused(ct_load(m, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, "unexpected: nnn");
}
END_TEST

int main(void) {
    return run_tests("io_limits", setup, teardown,
                     TESTS(TEST(long_index), TEST(long_header), TEST(long_name)));
}
