/* Tensors of one's own in files: ct_tensors_save writes what ct_safetensors_read gives back, floats
 * are rounded to narrower ones as they should be, and unreadable files are errors that give the
 * reason. */
#include <math.h>

#include "tests/support/files.h"
#include "tests/support/suite.h"

static void no_error(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

static bool save_one(const char *path, const char *name, ct_tensor *tensor, ct_file_float floats) {
    return ct_tensors_save(context, path, &(ct_named){name, tensor}, 1,
                           (ct_save_opts){.floats = floats});
}

/* ---- round trips ---- */

static void ck_same(ct_tensor *a, ct_tensor *b) {
    ck_assert_msg(a && b, "%s", ct_error_message(context));
    const ct_shape x = ct_shape_of(a), y = ct_shape_of(b);
    ck_assert(ct_dtype_of(a) == ct_dtype_of(b) && x.ndim == y.ndim);
    for (int d = 0; d < x.ndim; d++) ck_assert_int_eq(x.dim[d], y.dim[d]);
    const int64_t n = ct_numel(a);
    const size_t size = ct_dtype_of(a) == CT_F32 ? 4 : ct_dtype_of(a) == CT_BOOL ? 1 : 8;
    char *p = malloc((size_t)n * size + 1), *q = malloc((size_t)n * size + 1);
    switch (ct_dtype_of(a)) {
    case CT_F32: ck_assert(ct_to_f32(a, (float *)p, n) && ct_to_f32(b, (float *)q, n)); break;
    case CT_F64: ck_assert(ct_to_f64(a, (double *)p, n) && ct_to_f64(b, (double *)q, n)); break;
    case CT_I64: ck_assert(ct_to_i64(a, (int64_t *)p, n) && ct_to_i64(b, (int64_t *)q, n)); break;
    case CT_BOOL: ck_assert(ct_to_bool(a, (bool *)p, n) && ct_to_bool(b, (bool *)q, n)); break;
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0:
        memcpy(p, ct_data_bf16(a), 2 * (size_t)n), memcpy(q, ct_data_bf16(b), 2 * (size_t)n);
        break;
    }
    ck_assert(!memcmp(p, q, (size_t)n * size));
    free(p);
    free(q);
}

static ct_tensor *random_i64(ct_shape shape) {
    ct_tensor *t = ct_empty(context, CT_I64, shape);
    for (int64_t i = 0; i < ct_numel(t); i++)
        ct_data_i64(t)[i] = ct_random_below(context, INT64_MAX) - INT64_MAX / 2;
    return t;
}

START_TEST(any_dtype_and_strides) {
    ct_tensor *f = ct_randn(context, CT_F32, CT_SHAPE(7, 3, 5)),
              *large = ct_randn(context, CT_F64, CT_SHAPE(301, 77)),
              *i = random_i64(CT_SHAPE(5, 13)), *row = ct_randn(context, CT_F32, CT_SHAPE(1, 9));
    bool bits[11] = {true, false, true, true, false, false, true};
    const ct_named named[] = {
        {"f", f},
        {"f transposed", ct_transpose(f, 0, 2)},
        {"f narrow", ct_narrow(ct_transpose(f, 0, 1), 1, 2, 3)},
        {"large transposed", ct_transpose(large, 0, 1)}, /* more than a chunk */
        {"large", large},
        {"i", i},
        {"i transposed", ct_transpose(i, 0, 1)},
        {"expanded", ct_expand(row, CT_SHAPE(4, 9))},
        {"bools", ct_from_bool(context, CT_SHAPE(11), bits)},
        {"none", ct_zeros(context, CT_I64, CT_SHAPE(3, 0, 2))},
        {"scalar", ct_full(context, CT_F64, CT_SCALAR, -0.5)},
        {"", ct_full(context, CT_F32, CT_SCALAR, 3)},
        {"\xf0\x9f\x98\x80 \"\\\n\x7f\xc3\xa9", ct_full(context, CT_F32, CT_SHAPE(1), 4)},
    };
    enum { N = sizeof named / sizeof *named };
    no_error();
    const char *path = in_folder("own.safetensors");
    static const char *const metadata[] = {"key", "value", "", "\xc3\xa9", NULL};
    ck_assert(ct_tensors_save(context, path, named, N, (ct_save_opts){.metadata = metadata}));
    no_error();
    ct_safetensors *file = ct_safetensors_open(context, path);
    ck_assert_msg(file, "%s", ct_error_message(context));
    for (int k = 0; k < N; k++) ck_same(ct_safetensors_read(file, named[k].name), named[k].tensor);
    ck_assert_str_eq(ct_safetensors_metadata(file, "key"), "value");
    ck_assert_str_eq(ct_safetensors_metadata(file, ""), "\xc3\xa9");
    ck_assert_ptr_null(ct_safetensors_metadata(file, "other"));
    int seen = 0;
    int64_t elements = 0;
    for (ct_safetensors_entry entry = {0}; ct_safetensors_next(file, &entry); seen++) {
        int k = 0;
        while (k < N && strcmp(named[k].name, entry.name)) k++;
        ck_assert_int_lt(k, N);
        static const char *const dtype[] = {"F32", "F64", "I64", "BOOL"};
        ck_assert_str_eq(entry.dtype, dtype[ct_dtype_of(named[k].tensor)]);
        int64_t n = 1;
        for (int d = 0; d < entry.shape.ndim; d++) n *= entry.shape.dim[d];
        ck_assert_int_eq(n, ct_numel(named[k].tensor));
        elements += n;
    }
    ck_assert(seen == N && elements > 301 * 77);
    ct_safetensors_close(file);
    no_error();
}
END_TEST

/* ---- narrower floats ---- */

/* The data part of a file with one tensor. */
static size_t data_of(const char *path, unsigned char *out, size_t room) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    unsigned char head[8];
    ck_assert_uint_eq(fread(head, 1, 8, file), 8);
    fseek(file, (long)(8 + (head[0] | head[1] << 8)), SEEK_SET);
    const size_t size = fread(out, 1, room, file);
    fclose(file);
    return size;
}

/* The value of 16 bits, by their definition. */
static double value_of(unsigned bits, int fraction, int bias) {
    const int exponent = (int)(bits & 0x7FFF) >> fraction, most = 0x7FFF >> fraction;
    const double part = bits & ((1u << fraction) - 1), sign = bits & 0x8000 ? -1 : 1;
    if (exponent == most) return part > 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(part, 1 - bias - fraction);
    return sign * ldexp(part + (1 << fraction), exponent - bias - fraction);
}

/* Each 16-bit float comes back as it is, and a number between two of them goes to the nearer one
 * or, from the middle, to the even one. _i: f16 or bf16, from f32 or f64. */
START_TEST(rounds_to_nearest_even) {
    const int fraction = _i & 1 ? 7 : 10, bias = _i & 1 ? 127 : 15;
    const ct_file_float to = _i & 1 ? CT_FILE_BF16 : CT_FILE_F16;
    const bool wide = _i & 2;
    const unsigned infinity = 0x7FFFu >> fraction << fraction;
    enum { EACH = 4 };
    const int64_t n = 65536 * EACH;
    double *in = calloc((size_t)n, sizeof *in);
    unsigned *want = calloc((size_t)n, sizeof *want);
    unsigned char *got = calloc((size_t)n, 2);
    for (unsigned bits = 0; bits < 65536; bits++) {
        const unsigned magnitude = bits & 0x7FFF;
        double *x = in + EACH * bits, value = value_of(bits, fraction, bias);
        unsigned *y = want + EACH * bits;
        for (int k = 0; k < EACH; k++) x[k] = value, y[k] = bits;
        if (magnitude >= infinity) continue;
        /* beyond the largest, the middle is where the next number would be half way */
        const double step = magnitude + 1 == infinity
                                ? fabs(value) - fabs(value_of(bits - 1, fraction, bias))
                                : fabs(value_of(bits + 1, fraction, bias)) - fabs(value);
        const double middle = fabs(value) + step / 2, sign = bits & 0x8000 ? -1 : 1;
        const double toward = wide ? nextafter(middle, 0) : (double)nextafterf((float)middle, 0);
        const double away = wide ? nextafter(middle, (double)INFINITY)
                                 : (double)nextafterf((float)middle, INFINITY);
        x[1] = sign * middle, y[1] = bits + (bits & 1);
        x[2] = sign * toward, y[2] = bits;
        x[3] = sign * away, y[3] = bits + 1;
    }
    ct_tensor *t;
    if (wide) {
        t = ct_from_f64(context, CT_SHAPE(n), in);
    } else {
        t = ct_empty(context, CT_F32, CT_SHAPE(n));
        for (int64_t i = 0; i < n; i++) ct_data_f32(t)[i] = (float)in[i];
    }
    const char *path = in_folder("half");
    ck_assert_msg(save_one(path, "t", t, to), "%s", ct_error_message(context));
    ck_assert_uint_eq(data_of(path, got, (size_t)n * 2), (size_t)n * 2);
    for (int64_t i = 0; i < n; i++) {
        const unsigned bits = got[2 * i] | (unsigned)got[2 * i + 1] << 8;
        const unsigned magnitude = bits & 0x7FFF;
        if (isnan(in[i])) ck_assert(magnitude > infinity);
        else ck_assert_msg(bits == want[i], "%a is %04x, must be %04x", in[i], bits, want[i]);
    }
    ct_safetensors *file = ct_safetensors_open(context, path);
    ct_tensor *back = ct_safetensors_read(file, "t");
    ck_assert(back && ct_dtype_of(back) == CT_F32);
    for (int64_t i = 0; i < n; i++) {
        const double value = value_of(got[2 * i] | (unsigned)got[2 * i + 1] << 8, fraction, bias);
        const double now = (double)ct_data_f32(back)[i];
        ck_assert(now == value || (isnan(now) && isnan(value)));
    }
    free(in);
    free(want);
    free(got);
}
END_TEST

START_TEST(f64_becomes_f32) {
    double in[] = {1.0 / 3, -1e300, 1e-320, (double)NAN, 0x1.000001p0, 0x1.000003p0, -0.0};
    const char *path = in_folder("narrow");
    unsigned char bytes[64];
    ck_assert(save_one(path, "t", ct_from_f64(context, CT_SHAPE(7), in), CT_FILE_F32));
    ck_assert_uint_eq(data_of(path, bytes, sizeof bytes), 28);
    for (int i = 0; i < 7; i++) {
        uint32_t bits = 0;
        for (int b = 0; b < 4; b++) bits |= (uint32_t)bytes[4 * i + b] << 8 * b;
        float value, want = (float)in[i];
        memcpy(&value, &bits, 4);
        ck_assert((isnan(value) && isnan(want)) || !memcmp(&value, &want, 4));
    }
    /* integers and bools stay */
    int64_t number = INT64_MIN;
    ck_assert(save_one(path, "t", ct_from_i64(context, CT_SHAPE(1), &number), CT_FILE_F16));
    ck_assert_uint_eq(data_of(path, bytes, sizeof bytes), 8);
}
END_TEST

/* ---- every dtype of a file ---- */

START_TEST(integers_become_i64) {
    static const struct {
        const char *dtype;
        int size;
        bool is_signed;
    } kinds[] = {{"I8", 1, true},  {"U8", 1, false},  {"I16", 2, true}, {"U16", 2, false},
                 {"I32", 4, true}, {"U32", 4, false}, {"I64", 8, true}, {"U64", 8, false}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const int size = kinds[k].size;
        const uint64_t most = UINT64_MAX >> (64 - 8 * size), top = most / 2 + 1;
        uint64_t values[] = {0, 1, 2, top - 1, top, most, 0x0123456789abcdef & most};
        unsigned char bytes[64];
        if (k == 7) values[4] = values[5] = 7; /* beyond i64: below */
        for (int i = 0; i < 7; i++)
            for (int b = 0; b < size; b++)
                bytes[i * size + b] = (unsigned char)(values[i] >> 8 * b);
        char header[128];
        snprintf(header, sizeof header,
                 "{\"w\":{\"dtype\":\"%s\",\"shape\":[7],\"data_offsets\":[0,%d]}}", kinds[k].dtype,
                 7 * size);
        ct_safetensors *file = ct_safetensors_open(
            context, put(header, strlen(header), -1, bytes, (size_t)(7 * size)));
        ct_tensor *t = ct_safetensors_read(file, "w");
        ck_assert_msg(t && ct_dtype_of(t) == CT_I64, "%s", ct_error_message(context));
        for (int i = 0; i < 7; i++) {
            int64_t want = (int64_t)values[i];
            if (kinds[k].is_signed && size < 8 && values[i] >= top) want -= (int64_t)most + 1;
            ck_assert_msg(ct_data_i64(t)[i] == want, "%s %d", kinds[k].dtype, i);
        }
        ct_safetensors_close(file);
    }
}
END_TEST

START_TEST(what_cannot_be_read) {
    static const struct {
        const char *header;
        size_t size;
        ct_status status;
        const char *says;
    } wrong[] = {
        {W("U64", "[2]", "[0,16]"), 16, CT_ERR_DTYPE,
         "tensor \"w\": the U64 18446744073709551615 is beyond i64, at byte"},
        {W("F8_E4M3", "[4]", "[0,4]"), 4, CT_ERR_DTYPE, "tensor \"w\" is F8_E4M3, which no dtype"},
        {W("F8_E5M2", "[4]", "[0,4]"), 4, CT_ERR_DTYPE, "tensor \"w\" is F8_E5M2, which no dtype"},
        {W("F4", "[4]", "[0,2]"), 2, CT_ERR_DTYPE, "tensor \"w\" is F4, which no dtype"},
        {W("C64", "[1]", "[0,8]"), 8, CT_ERR_DTYPE, "tensor \"w\" is C64, which no dtype"},
        {W("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, CT_ERR_SHAPE, "has 9 dims, a tensor at most"},
        {W("BOOL", "[2]", "[0,2]"), 2, CT_ERR_FORMAT, "the byte of a bool is 255, not 0 or 1"},
    };
    unsigned char ones[16];
    memset(ones, 255, sizeof ones);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *path = put(wrong[i].header, strlen(wrong[i].header), -1, ones, wrong[i].size);
        ct_safetensors *file = ct_safetensors_open(context, path);
        ct_safetensors_entry entry = {0};
        ck_assert(file && ct_safetensors_next(file, &entry) && !strcmp(entry.name, "w"));
        const int64_t live = ct_memory(context).live;
        ck_refused(ct_safetensors_read(file, "w"), wrong[i].status, path, wrong[i].says);
        ck_assert_int_eq(ct_memory(context).live, live);
        ct_safetensors_close(file);
    }
}
END_TEST

START_TEST(uses_of_a_reader) {
    const char *path = in_folder("own");
    ck_assert(save_one(path, "t", ct_ones(context, CT_F32, CT_SHAPE(2)), CT_FILE_SAME));
    ct_safetensors *file = ct_safetensors_open(context, path);
    ck_assert_ptr_nonnull(file);
    ct_safetensors_entry entry = {0};
    ck_refused(ct_safetensors_read(file, "none"), CT_ERR_ARGUMENT, path, "no tensor \"none\"");
    ck_refused(ct_safetensors_read(file, NULL), CT_ERR_ARGUMENT, "read", "name is NULL");
    ck_refused(ct_safetensors_next(file, NULL), CT_ERR_ARGUMENT, "next", "entry is NULL");
    ck_refused(ct_safetensors_metadata(file, NULL), CT_ERR_ARGUMENT, "metadata", "key is NULL");
    ck_refused(ct_safetensors_open(context, NULL), CT_ERR_ARGUMENT, "open", "path is NULL");
    ck_refused(ct_safetensors_open(context, in_folder("no")), CT_ERR_IO, "no", "No such file");
    ck_assert(!ct_safetensors_open(NULL, path) && !ct_safetensors_read(NULL, "t"));
    ck_assert(!ct_safetensors_next(NULL, &entry) && !ct_safetensors_metadata(NULL, "k"));
    ct_safetensors_close(NULL);

    /* while an error is pending: everything but a read */
    ct_add(ct_ones(context, CT_F32, CT_SHAPE(2)), ct_ones(context, CT_F32, CT_SHAPE(3)));
    ck_assert(ct_safetensors_next(file, &entry) && !ct_safetensors_next(file, &entry));
    ck_assert(!ct_safetensors_read(file, "t") && !ct_safetensors_open(context, path));
    ck_assert(ct_tensors_save(context, in_folder("more"), NULL, 0, (ct_save_opts){0}));
    ct_error_clear(context);
    ck_assert(ct_safetensors_read(file, "t"));

    ct_safetensors_close(file);
    ct_safetensors_close(file);
    no_error();
    ck_refused(ct_safetensors_read(file, "t"), CT_ERR_ARGUMENT, "safetensors_read",
               "the file has ended");
    ck_refused(ct_safetensors_next(file, &entry), CT_ERR_ARGUMENT, "safetensors_next", "ended");
    ck_refused(ct_safetensors_metadata(file, "k"), CT_ERR_ARGUMENT, "metadata", "ended");
}
END_TEST

static int open_files(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) return -1;
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

START_TEST(a_context_closes_its_files) {
    const char *path = in_folder("own");
    ck_assert(save_one(path, "t", ct_ones(context, CT_F32, CT_SHAPE(2)), CT_FILE_SAME));
    const int before = open_files();
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_safetensors *file[5];
    for (int i = 0; i < 5; i++) file[i] = ct_safetensors_open(other, path);
    ck_assert(before < 0 || open_files() == before + 5);
    ct_safetensors_close(file[2]);
    ct_safetensors_close(file[4]);
    ct_safetensors_close(file[0]);
    ct_context_free(other);
    ck_assert_int_eq(open_files(), before);
}
END_TEST

START_TEST(save_refuses) {
    ct_tensor *t = ct_ones(context, CT_F32, CT_SHAPE(2));
    const char *path = in_folder("own");
    const ct_save_opts opts = {0};
    const ct_named twice[] = {{"a", t}, {"b", t}, {"a", t}}, latin[] = {{"\xe9", t}},
                   none[] = {{"a", NULL}}, unnamed[] = {{"a", t}, {NULL, t}},
                   reserved[] = {{"__metadata__", t}};
    ck_refused(ct_tensors_save(context, path, twice, 3, opts), CT_ERR_ARGUMENT, path,
               "tensor \"a\" is there twice");
    ck_refused(ct_tensors_save(context, path, latin, 1, opts), CT_ERR_ARGUMENT, path, "not UTF-8");
    ck_refused(ct_tensors_save(context, path, none, 1, opts), CT_ERR_ARGUMENT, path,
               "tensor \"a\" is NULL");
    ck_refused(ct_tensors_save(context, path, unnamed, 2, opts), CT_ERR_ARGUMENT, path,
               "the name of tensor 1 is NULL");
    ck_refused(ct_tensors_save(context, path, reserved, 1, opts), CT_ERR_ARGUMENT, path,
               "__metadata__");
    ck_refused(ct_tensors_save(context, path, NULL, 1, opts), CT_ERR_ARGUMENT, "tensors_save",
               "tensors is NULL");
    ck_refused(ct_tensors_save(context, NULL, twice, 1, opts), CT_ERR_ARGUMENT, "tensors_save",
               "path is NULL");
    ck_refused(ct_tensors_save(context, path, twice, -1, opts), CT_ERR_ARGUMENT, path, "n is -1");
    ck_refused(save_one(path, "t", t, (ct_file_float)7), CT_ERR_ARGUMENT, path, "floats is 7");
    ck_refused(ct_tensors_save(context, path, twice, 1, (ct_save_opts){.shard_bytes = -1}),
               CT_ERR_ARGUMENT, path, "shard_bytes is -1");
    ck_assert(!ct_tensors_save(NULL, path, twice, 1, opts));
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    const ct_named theirs[] = {{"a", ct_ones(other, CT_F32, CT_SHAPE(1))}};
    ck_assert(!ct_tensors_save(context, path, theirs, 1, opts));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ct_context_free(other);
    ct_scope scope = ct_scope_open(context);
    ct_named ended = {"a", ct_ones(context, CT_F32, CT_SHAPE(1))};
    ct_scope_close(scope);
    ck_refused(ct_tensors_save(context, path, &ended, 1, opts), CT_ERR_ARGUMENT, "tensors_save",
               "has ended");
    ck_assert_int_eq(files_in_folder(), 0);
}
END_TEST

int main(void) {
    return run_tests("safetensors", setup, teardown,
                     TESTS(TEST(any_dtype_and_strides), LOOP(rounds_to_nearest_even, 4),
                           TEST(f64_becomes_f32), TEST(integers_become_i64),
                           TEST(what_cannot_be_read), TEST(uses_of_a_reader),
                           TEST(a_context_closes_its_files), TEST(save_refuses)));
}
