/* Reading files: a malformed one is refused with a message that says what is wrong and where, and
 * nothing changes; numbers of every dtype are converted as specified. Writing is in test_save.c. */
#include <math.h>
#include <sys/stat.h>
#include <utime.h>

#include "tests/support/files.h"
#include "tests/support/suite.h"

/* ---- malformed ---- */

static const struct {
    const char *header;
    size_t data;
    const char *says;
} malformed[] = {
    {"", 0, "is not a safetensors file: header: '{' is expected at byte 8"},
    {" " GOOD, 8, "'{' is expected"},
    {"[]", 0, "'{' is expected"},
    {"{", 0, "a string is expected at byte 9"},
    {"{,}", 0, "a string is expected"},
    {"{\"w\"}", 0, "':' is expected"},
    {"{\"w\":}", 0, "tensor \"w\": an object is expected at byte 13"},
    {"{\"w\":[[[[[[[[[[[[[[[[", 0, "an object is expected"},
    {"{\"w", 0, "the string does not end"},
    {"{\"\x01\":0}", 0, "control character"},
    {"{\"\\x\":0}", 0, "unknown escape"},
    {"{\"\\u12g4\":0}", 0, "hex digits"},
    {"{\"\\ud800\":0}", 0, "surrogate"},
    {"{\"\\ud800\\u0041\":0}", 0, "surrogate"},
    {"{\"\\udc00\":0}", 0, "surrogate"},
    {"{\"\xff\":0}", 0, "not UTF-8 at byte 10"},
    {"{\"\xc0\xaf\":0}", 0, "not UTF-8 at byte 10"},
    {"{\"\xed\xa0\x80\":0}", 0, "not UTF-8"},
    {"{\"\xf4\x90\x80\x80\":0}", 0, "not UTF-8"},
    {"{\"\xe2\x82", 0, "not UTF-8"},
    {GOOD "x", 8, "behind the header at byte 62"},
    {GOOD "\n", 8, "behind the header"},
    {GOOD "{}", 8, "behind the header"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},}", 8,
     "a string is expected"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,],\"data_offsets\":[0,8]}}", 8,
     "a whole number is expected"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2] \"data_offsets\":[0,8]}}", 8, "',' or '}'"},
    {W("F32", "[2]", "[-8,0]"), 8, "a number is negative"},
    {W("F32", "[-2]", "[0,8]"), 8, "tensor \"w\": a number is negative"},
    {W("F32", "[2.0]", "[0,8]"), 8, "not a whole one"},
    {W("F32", "[2e0]", "[0,8]"), 8, "not a whole one"},
    {W("F32", "[02]", "[0,8]"), 8, "begins with 0"},
    {W("F32", "[\"2\"]", "[0,8]"), 8, "a whole number is expected"},
    {W("F32", "[null]", "[0,8]"), 8, "a whole number is expected"},
    {W("F32", "2", "[0,8]"), 8, "an array is expected"},
    {W("F32", "[9223372036854775808]", "[0,8]"), 8, "too large"},
    {W("F32", "[99999999999999999999999]", "[0,8]"), 8, "too large"},
    {W("F32", "[4294967296,4294967296]", "[0,8]"), 8, "product overflows"},
    {W("F32", "[4611686018427387904]", "[0,8]"), 8, "overflows"},
    {W("F32", "[2]", "[0,8,8]"), 8, "two numbers"},
    {W("F32", "[2]", "[8]"), 8, "two numbers"},
    {W("F32", "[2]", "[]"), 8, "two numbers"},
    {W("F32", "[2]", "[8,0]"), 8, "tensor \"w\": data_offsets [8, 0] end before they begin"},
    {W("F32", "[3]", "[0,12]"), 8, "beyond the 8 bytes of data"},
    {W("F32", "[2]", "[0,9223372036854775807]"), 8, "beyond the 8 bytes of data"},
    {W("F32", "[3]", "[0,8]"), 8, "3 elements of F32 are not the 8 bytes"},
    {W("F64", "[2]", "[0,8]"), 8, "2 elements of F64 are not the 8 bytes"},
    {W("F4", "[3]", "[0,2]"), 2, "3 elements of F4"},
    {W("F31", "[2]", "[0,8]"), 8, "an unknown dtype"},
    {W("f32", "[2]", "[0,8]"), 8, "an unknown dtype"},
    {W("F32\\u0000", "[2]", "[0,8]"), 8, "an unknown dtype"},
    {W("F32", "[2]", "[0,8]"), 9, "the tensors end at byte 8 of the data, the file at byte 9"},
    {W("F32", "[2]", "[1,9]"), 9, "tensor \"w\": its data begins at 1 behind a hole from 0"},
    {TWO("[0,4]", "[5,9]"), 9, "tensor \"b\": its data begins at 5 behind a hole from 4"},
    {TWO("[0,4]", "[3,7]"), 7, "tensor \"b\": its data begins at 3 and overlaps"},
    {TWO("[0,4]", "[0,4]"), 4, "overlaps"},
    {"{}", 1, "the tensors end at byte 0"},
    {"{\"w\":{}}", 0, "dtype is missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "shape is missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "data_offsets are missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"scale\":1}}", 8,
     "a key other than"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"sh\\u0061pe\":[2],\"data_offsets\":[0,8]}}", 8,
     "a key is there twice"},
    {PLUS("\"\\u0077\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}"), 8,
     "tensor \"w\" is there twice"},
    {PLUS("\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"\\u0061\":\"3\"}"), 8,
     "__metadata__: \"a\" is there twice"},
    {PLUS("\"__metadata__\":{},\"__met\\u0061data__\":{}"), 8, "__metadata__ is there twice"},
    {PLUS("\"__metadata__\":{\"a\":1}"), 8, "a string is expected"},
    {PLUS("\"__metadata__\":{\"a\":{\"b\":{}}}"), 8, "a string is expected"},
    {PLUS("\"__metadata__\":null"), 8, "an object is expected"},
    {PLUS("\"__metadata__\":{\"a\":\"1\""), 8, "',' or '}'"},
};

START_TEST(malformed_header) {
    ct_module *module = two_numbers();
    int64_t live = ct_memory(context).live;
    const char *path =
        put(malformed[_i].header, strlen(malformed[_i].header), -1, NULL, malformed[_i].data);
    ck_refused(ct_load(module, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, malformed[_i].says);
    ck_refused(ct_load(module, path, (ct_load_opts){.partial = true}), CT_ERR_FORMAT, path,
               malformed[_i].says);
    char value[8] = "before";
    ck_refused(ct_load_metadata(context, path, "a", value, sizeof value), CT_ERR_FORMAT, path,
               malformed[_i].says);
    ck_assert_str_eq(value, "before");
    ck_assert(ct_data_f32(ct_module_get(module, "w"))[0] == 5 &&
              ct_data_f32(ct_module_get(module, "w"))[1] == 7);
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

START_TEST(malformed_length) {
    ct_module *module = two_numbers();
    ct_load_opts strict = {0};
    const char *path = in_folder("file.safetensors");
    fclose(fopen(path, "wb"));
    ck_refused(ct_load(module, path, strict), CT_ERR_FORMAT, path, "the file is empty");
    for (int n = 1; n < 8; n++) {
        FILE *file = fopen(path, "wb");
        fwrite("\2\0\0\0\0\0\0", 1, (size_t)n, file);
        fclose(file);
        ck_refused(ct_load(module, path, strict), CT_ERR_FORMAT, path, "takes 8");
    }
    ck_refused(ct_load(module, put(GOOD, strlen(GOOD), 70, NULL, 8), strict), CT_ERR_FORMAT, path,
               "a header of 70 bytes does not fit in a file of 70");
    ck_refused(ct_load(module, put(GOOD, strlen(GOOD), 100000001, NULL, 8), strict), CT_ERR_FORMAT,
               path, "100000001, over 100000000");
    ck_refused(ct_load(module, put(GOOD, strlen(GOOD), INT64_MAX, NULL, 8), strict), CT_ERR_FORMAT,
               path, "over 100000000");
    ck_refused(ct_load(module, put(GOOD, strlen(GOOD), (int64_t)strlen(GOOD) - 1, NULL, 8), strict),
               CT_ERR_FORMAT, path, "',' or '}'");
    /* cut off at every byte: never accepted */
    for (size_t n = 0; n < strlen(GOOD) + 8; n++) {
        size_t head = n < strlen(GOOD) ? n : strlen(GOOD);
        ck_refused(ct_load(module, put(GOOD, head, (int64_t)strlen(GOOD), NULL, n - head), strict),
                   CT_ERR_FORMAT, path, "file");
        ct_load(module, put(GOOD, head, -1, NULL, n - head), strict);
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        ct_error_clear(context);
    }
    ck_assert(ct_load(module, put(GOOD, strlen(GOOD), -1, NULL, 8), strict));
}
END_TEST

/* A name from a hostile file is escaped in the message and shortened. */
START_TEST(hostile_name) {
    char header[3000] = "{\"\\u001b[2J";
    memset(header + strlen(header), 'x', 2000);
    strcat(header, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}");
    ck_refused(ct_load(two_numbers(), put(header, strlen(header), -1, NULL, 2), (ct_load_opts){0}),
               CT_ERR_FORMAT, "tensor \"\\u001b[2J", "xxx...\": 1 elements");
}
END_TEST

START_TEST(not_an_ordinary_file) {
    ct_module *module = two_numbers();
    ct_load_opts strict = {0};
    ck_refused(ct_load(module, in_folder("none"), strict), CT_ERR_IO, "none", "No such file");
    ck_refused(ct_load(module, "", strict), CT_ERR_IO, "load", "No such file");
    ck_refused(ct_load(module, folder, strict), CT_ERR_IO, folder, "is a folder");
    ck_assert_int_eq(mkfifo(in_folder("fifo"), 0600), 0);
    ck_refused(ct_load(module, in_folder("fifo"), strict), CT_ERR_IO, "fifo",
               "is not an ordinary file");
    ck_refused(ct_load(module, "/dev/zero", strict), CT_ERR_IO, "/dev/zero",
               "is not an ordinary file");
    ck_refused(ct_load(module, NULL, strict), CT_ERR_ARGUMENT, "load", "NULL");
    ck_assert(!ct_load(NULL, "x", strict));

    ck_refused(ct_save(module, in_folder("none/file"), (ct_save_opts){0}), CT_ERR_IO, "none/file",
               "No such file");
    ck_refused(ct_save(module, folder, (ct_save_opts){0}), CT_ERR_IO, folder, "is a folder");
    ck_refused(ct_save(module, in_folder("fifo"), (ct_save_opts){0}), CT_ERR_IO, "fifo",
               "is not an ordinary file");
    ck_refused(ct_save(module, "/dev/null", (ct_save_opts){0}), CT_ERR_IO, "/dev/null",
               "is not an ordinary file");
    ck_refused(ct_save(module, "", (ct_save_opts){0}), CT_ERR_IO, "save", "");
    ck_refused(ct_save(module, NULL, (ct_save_opts){0}), CT_ERR_ARGUMENT, "save", "NULL");
    ck_assert(!ct_save(NULL, "x", (ct_save_opts){0}));
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

/* ---- accepted ---- */

static const struct {
    const char *header;
    size_t data;
} accepted[] = {
    {"{}", 0},
    {"{}      ", 0},
    {GOOD "   ", 8},
    {"{ \"w\"\t:\n{ \"shape\" : [ 2 ] ,\r\"data_offsets\":[0 , 8],\"dtype\":\"F32\" } }", 8},
    {W("F32", "[]", "[0,4]"), 4},
    {W("F32", "[0]", "[0,0]"), 0},
    {W("F32", "[0,9223372036854775807]", "[0,0]"), 0},
    {W("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8},
    {W("F4", "[4]", "[0,2]"), 2},
    {W("F8_E4M3", "[4]", "[0,4]"), 4},
    {W("C64", "[1]", "[0,8]"), 8},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7]},\"a\":{\"dtype\":\"U8\","
     "\"shape\":[3],\"data_offsets\":[0,3]}}",
     7},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]},\"a\":{\"dtype\":\"U8\","
     "\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]},\"d\":{\"dtype\":\"U8\","
     "\"shape\":[0],\"data_offsets\":[0,0]}}",
     3},
    {"{\"__metadata__\":{}}", 0},
    {"{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
    {"{\"w\\u0000\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
    {"{\"\\ud83d\\ude00\\/"
     "\\\"\xc3\xa9\xf0\x9f\x98\x80\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0},
};

START_TEST(accepted_header) {
    const char *path =
        put(accepted[_i].header, strlen(accepted[_i].header), -1, NULL, accepted[_i].data);
    ct_safetensors *file = ct_safetensors_open(context, path);
    ck_assert_msg(file, "%s", ct_error_message(context));
    ct_safetensors_close(file);
    ck_assert(ct_load(ct_module_new(context, "Nothing"), path, (ct_load_opts){.partial = true}));
}
END_TEST

START_TEST(metadata) {
    static const char header[] = "{\"__metadata__\":{\"k\\u00e9y\":\"\\ud83d\\ude00\\n\\/"
                                 "\\u0041\",\"\":\"empty\",\"none\":\"\"}}";
    const char *path = put(header, strlen(header), -1, NULL, 0);
    char out[16] = "";
    ck_assert(ct_load_metadata(context, path, "k\xc3\xa9y", out, sizeof out));
    ck_assert_str_eq(out, "\xf0\x9f\x98\x80\n/A");
    ck_assert(ct_load_metadata(context, path, "k\xc3\xa9y", out, 8));
    ck_refused(ct_load_metadata(context, path, "k\xc3\xa9y", out, 7), CT_ERR_ARGUMENT, path,
               "takes 8 bytes");
    ck_refused(ct_load_metadata(context, path, "k\xc3\xa9y", out, 0), CT_ERR_ARGUMENT, path,
               "out has 0");
    ck_assert(ct_load_metadata(context, path, "", out, sizeof out));
    ck_assert_str_eq(out, "empty");
    ck_assert(ct_load_metadata(context, path, "none", out, 1));
    ck_refused(ct_load_metadata(context, path, "other", out, sizeof out), CT_ERR_ARGUMENT, path,
               "no metadata key \"other\"");
    ck_refused(ct_load_metadata(context, NULL, "other", out, sizeof out), CT_ERR_ARGUMENT,
               "load_metadata", "NULL");
    ck_assert(!ct_load_metadata(NULL, path, "none", out, sizeof out));
}
END_TEST

/* 100,000 tensors, listed in another order than their data. A quadratic algorithm would time out.
 */
START_TEST(many_tensors) {
    enum { N = 100003 };
    char *header = malloc(N * 80), *at = header;
    *at++ = '{';
    for (int64_t i = 0; i < N; i++) {
        int64_t k = i * 7919 % N;
        at +=
            sprintf(at, "%s\"t%lld\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%lld,%lld]}",
                    i ? "," : "", (long long)k, (long long)k, (long long)k + 1);
    }
    *at++ = '}';
    const char *path = put(header, (size_t)(at - header), -1, NULL, N);
    free(header);
    ck_refused(ct_load(two_numbers(), path, (ct_load_opts){.partial = true}), CT_ERR_FORMAT, path,
               "nothing in it fits the module");
    ck_refused(ct_load(two_numbers(), path, (ct_load_opts){0}), CT_ERR_FORMAT, path,
               "missing: w; unexpected: t0, t7919, ");
    ck_assert(!ct_load(two_numbers(), path, (ct_load_opts){0}));
    int named = 0, more = 0; /* mismatches that do not fit the message are counted */
    for (const char *c = ct_error_message(context); (c = strpbrk(c, ":,")); c++)
        named += c[1] == ' ' && c[2] == 't';
    ck_assert_int_eq(sscanf(strstr(ct_error_message(context), "; and "), "; and %d more", &more),
                     1);
    ck_assert_int_eq(named + more, N);
    ck_refused(false, CT_ERR_FORMAT, path, " more");
}
END_TEST

/* Wherever the message is cut, it ends after a whole name. */
START_TEST(names_are_whole) {
    enum { N = 300 };
    static char header[N * 80];
    char *at = header;
    *at++ = '{';
    for (int i = 0; i < N; i++)
        at += sprintf(at, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      i ? "," : "", i, i, i + 1);
    *at++ = '}';
    const char *path = put(header, (size_t)(at - header), -1, NULL, N);
    for (int n = 1; n < 9; n++) {
        char name[16];
        snprintf(name, sizeof name, "%0*d", n, 0);
        ct_module *m = ct_module_new(context, "M");
        ct_module_add_param(m, name, ct_zeros(context, CT_F32, CT_SHAPE(1)));
        ck_assert(!ct_load(m, path, (ct_load_opts){0}));
        const char *end = strstr(ct_error_message(context), "; and ");
        ck_assert(end && end[-1] >= '0' && end[-1] <= '9');
        ct_error_clear(context);
    }
}
END_TEST

/* ---- values ---- */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* The value of an IEEE float of 1 + e + f bits by its definition. */
static double by_definition(unsigned bits, int exponent_bits, int fraction_bits) {
    unsigned fraction = bits & ((1u << fraction_bits) - 1),
             exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
    double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
    int bias = (1 << (exponent_bits - 1)) - 1;
    if (exponent == (1u << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(1 + ldexp(fraction, -fraction_bits), (int)exponent - bias);
}

static const struct {
    const char *name;
    int exponent, fraction;
} halves[] = {{"F16", 5, 10}, {"BF16", 8, 7}};

START_TEST(every_half) {
    enum { N = 65536 };
    static unsigned char data[2 * N];
    for (int i = 0; i < N; i++)
        data[2 * i] = (unsigned char)i, data[2 * i + 1] = (unsigned char)(i >> 8);
    char header[128];
    sprintf(header, "{\"w\":{\"dtype\":\"%s\",\"shape\":[65536],\"data_offsets\":[0,131072]}}",
            halves[_i].name);
    const char *path = put(header, strlen(header), -1, data, sizeof data);
    for (int wide = 0; wide < 2; wide++) {
        ct_module *module = ct_module_new(context, "M");
        ct_tensor *w = ct_module_add_param(module, "w",
                                           ct_zeros(context, wide ? CT_F64 : CT_F32, CT_SHAPE(N)));
        ck_assert_msg(ct_load(module, path, (ct_load_opts){0}), "%s", ct_error_message(context));
        for (int i = 0; i < N; i++) {
            double want = by_definition((unsigned)i, halves[_i].exponent, halves[_i].fraction);
            double got = wide ? ct_data_f64(w)[i] : (double)ct_data_f32(w)[i];
            ck_assert_msg(isnan(want) ? isnan(got) : want == got && !signbit(want) == !signbit(got),
                          "%04x: %a, not %a", (unsigned)i, got, want);
            /* the payload of a NaN moves up with the fraction */
            if (!wide && isnan(want))
                ck_assert_uint_eq(bits_of(ct_data_f32(w)[i]) & 0x7fffff,
                                  (uint32_t)(i & ((1 << halves[_i].fraction) - 1))
                                      << (23 - halves[_i].fraction));
        }
    }
}
END_TEST

START_TEST(between_f32_and_f64) {
    static const double values[] = {0.1,      -0.0,
                                    1e-310,   1e300,
                                    -1e39,    3.4028235677973366e38,
                                    1e-46,    5e-45,
                                    INFINITY, 1.0000000596046448};
    enum { N = 10 };
    const char *path = put_numbers(W("F64", "[10]", "[0,80]"), values, 8, N);
    ct_module *narrow = ct_module_new(context, "M"), *wide = ct_module_new(context, "M");
    float *f =
        ct_data_f32(ct_module_add_param(narrow, "w", ct_zeros(context, CT_F32, CT_SHAPE(N))));
    double *d = ct_data_f64(ct_module_add_param(wide, "w", ct_zeros(context, CT_F64, CT_SHAPE(N))));
    ck_assert(ct_load(narrow, path, (ct_load_opts){0}));
    for (int i = 0; i < N; i++) ck_assert_uint_eq(bits_of(f[i]), bits_of((float)values[i]));
    ck_assert(ct_save(narrow, path, (ct_save_opts){0}) && ct_load(wide, path, (ct_load_opts){0}));
    for (int i = 0; i < N; i++) ck_assert(d[i] == (double)f[i] && !signbit(d[i]) == !signbit(f[i]));
}
END_TEST

/* Files are little-endian on every machine. */
START_TEST(bytes_of_numbers) {
    static const unsigned char want[] = {0, 0, 0,    0,    0,    0,    0xf8, 0xbf,
                                         0, 0, 0x80, 0x3f, 0x56, 0x34, 0x12, 0xc0};
    ct_module *module = ct_module_new(context, "M");
    float *f =
        ct_data_f32(ct_module_add_param(module, "single", ct_zeros(context, CT_F32, CT_SHAPE(2))));
    ct_data_f64(ct_module_add_param(module, "wide", ct_zeros(context, CT_F64, CT_SHAPE(1))))[0] =
        -1.5;
    f[0] = 1, f[1] = -0x1.2468acp+1f;
    const char *path = in_folder("bytes");
    ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
    FILE *file = fopen(path, "rb");
    unsigned char got[sizeof want];
    ck_assert(fseek(file, -(long)sizeof got, SEEK_END) == 0 &&
              fread(got, 1, sizeof got, file) == sizeof got);
    fclose(file);
    ck_assert_mem_eq(got, want, sizeof got);
}
END_TEST

/* ---- loading ---- */

/* Loading counts as a write, so backward through values saved before is an error. A load leaves no
 * scope or tensor behind. */
START_TEST(load_counts_as_a_write) {
    ct_module *module = two_numbers();
    const char *path = put(GOOD, strlen(GOOD), -1, NULL, 8);
    ct_tensor *w = ct_module_get(module, "w");
    ct_tensor *loss = ct_sum(ct_mul(w, w), CT_ALL, false);
    int64_t live = ct_memory(context).live;
    ck_assert(ct_load(module, path, (ct_load_opts){0}));
    ck_assert_int_eq(ct_memory(context).live, live);
    ck_assert(!ct_backward(loss));
    ck_assert_int_eq(ct_error(context), CT_ERR_GRAD);
}
END_TEST

START_TEST(tied_names) {
    ct_module *module = ct_module_new(context, "M"), *head = ct_module_new(context, "Head");
    ct_tensor *w = ct_module_add_param(module, "w", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    ct_module_add_child(module, "head", head);
    ct_module_add_param(head, "weight", w);
    float data[] = {1, 2, 3, 4};
#define TENSOR(name, begin, end)                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" #begin "," #end "]}"
    static const char other[] = "{" TENSOR("head.weight", 0, 8) "}",
                      both[] = "{" TENSOR("head.weight", 0, 8) "," TENSOR("w", 8, 16) "}";
    static const char wrong[] =
        "{\"head.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}," TENSOR(
            "w", 8, 16) "}";
    static const char nul[] = "{" TENSOR("w\\u0000", 0, 8) "}";
    ct_load_opts strict = {0};
    ck_assert_msg(ct_load(module, put_numbers(other, data, 4, 2), strict), "%s",
                  ct_error_message(context));
    ck_assert(ct_data_f32(w)[0] == 1 && ct_data_f32(w)[1] == 2);
    /* both names, and then with the same values */
    ck_refused(ct_load(module, put_numbers(both, data, 4, 4), strict), CT_ERR_FORMAT, "load",
               "w and head.weight are one tensor of the module");
    ck_assert(ct_data_f32(w)[0] == 1 && ct_data_f32(w)[1] == 2);
    float same[] = {3, 4, 3, 4};
    ck_assert_msg(ct_load(module, put_numbers(both, same, 4, 4), strict), "%s",
                  ct_error_message(context));
    ck_assert(ct_data_f32(w)[0] == 3 && ct_data_f32(w)[1] == 4);
    ck_refused(ct_load(module, put_numbers(wrong, data, 4, 4), strict), CT_ERR_FORMAT, "load",
               "head.weight has shape (2), file has (1, 2)");
    ck_refused(ct_load(module, put_numbers(nul, data, 4, 2), strict), CT_ERR_FORMAT, "load",
               "missing: w; unexpected: w\\u0000");
    ck_assert(ct_data_f32(w)[0] == 3);
    static const char behind[] = "{" TENSOR("a", 0, 8) "," TENSOR("head.weight", 8, 16) "}";
    ct_module_add_param(module, "a", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    data[2] = 5;
    ck_assert_msg(ct_load(module, put_numbers(behind, data, 4, 4), strict), "%s",
                  ct_error_message(context));
    ck_assert(ct_data_f32(w)[0] == 5);
    ct_module *second = ct_module_new(context, "M"), *tail = ct_module_new(context, "Tail");
    ct_module_add_param(second, "a", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    ct_tensor *v = ct_module_add_param(second, "v", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    ct_module_add_child(second, "head", tail);
    ct_module_add_param(tail, "weight", v);
    ck_assert_msg(ct_load(second, put_numbers(behind, data, 4, 4), strict), "%s",
                  ct_error_message(context));
    ck_assert(ct_data_f32(v)[0] == 5);
    /* the tensor with its own name if that matches, otherwise another that does; of two none */
    const ct_load_opts partial = {.partial = true};
    ck_refused(ct_load(module, put_numbers(both, data, 4, 4), partial), CT_ERR_FORMAT, "load",
               "nothing in it fits the module");
    ck_assert(ct_load(module, put_numbers(both, same, 4, 4), partial) && ct_data_f32(w)[0] == 3 &&
              ct_data_f32(w)[1] == 4);
    static const char unfit[] = "{" TENSOR(
        "head.weight", 0, 8) ",\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]}}";
    ck_assert(ct_load(module, put_numbers(unfit, data, 4, 4), partial) && ct_data_f32(w)[0] == 1 &&
              ct_data_f32(w)[1] == 2);
}
END_TEST

START_TEST(mismatches_are_all_named) {
    ct_module *module = ct_module_new(context, "M");
    const char *names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++)
        ct_module_add_param(module, names[i], ct_zeros(context, CT_F32, CT_SHAPE(2)));
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]},"
        "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[32,40]},"
        "\"d\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[40,48]}}";
    float data[12] = {[10] = 3, [11] = 4};
    const char *path = put_numbers(header, data, 4, 12);
    ck_refused(ct_load(module, path, (ct_load_opts){0}), CT_ERR_FORMAT, path,
               ": missing: c; unexpected: x, y; a has shape (2), file has (1, 2); b is f32, file "
               "has I32; e has shape (2), file has 9 dims");
    ck_assert(ct_data_f32(ct_module_get(module, "d"))[0] == 0);
    ck_assert(ct_load(module, path, (ct_load_opts){.partial = true}));
    ck_assert(ct_data_f32(ct_module_get(module, "d"))[0] == 3);
    ck_assert(ct_data_f32(ct_module_get(module, "a"))[0] == 0);
}
END_TEST

/* Times have 64 bits also on systems whose long has 32. */
START_TEST(of_after_2038) {
    const time_t then = (time_t)INT64_C(2208988800); /* 2040 */
    if (sizeof(time_t) < 8) return;                  /* glibc before 2.34 */
    ct_module *module = two_numbers();
    const char *path = in_folder("file");
    ck_assert(ct_save(module, path, (ct_save_opts){0}));
    ck_assert_int_eq(utime(path, &(struct utimbuf){then, then}), 0);
    ck_assert_msg(ct_load(module, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
}
END_TEST

int main(void) {
    return run_cases(
        "io",
        CASES({.name = "files",
               .before = setup,
               .after = teardown,
               .tests = TESTS(LOOP(malformed_header, (int)(sizeof malformed / sizeof *malformed)),
                              TEST(malformed_length), TEST(hostile_name),
                              LOOP(accepted_header, (int)(sizeof accepted / sizeof *accepted)),
                              TEST(metadata), TEST(many_tensors), TEST(names_are_whole),
                              LOOP(every_half, 2), TEST(between_f32_and_f64),
                              TEST(bytes_of_numbers), TEST(load_counts_as_a_write),
                              TEST(tied_names), TEST(mismatches_are_all_named))},
              {.name = "links, FIFOs and modes",
               .tags = "posix",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(not_an_ordinary_file), TEST(of_after_2038))}));
}
