/* Token files of NumPy (.npy): headers that are read and headers that are refused, the kinds of
 * numbers, and ids that are no ids. */
#include "token_files.h"

enum { IDS = 5 };

#define DICT(dtype, order, shape)                                                                  \
    "{'descr': '" dtype "', 'fortran_order': " order ", 'shape': " shape ", }"
#define RIGHT DICT("<u2", "False", "(5,)")

/* A file of a header and `rest` bytes of zeros. */
static const char *put_npy_file(int version, const char *dict, int rest) {
    const char *path = in_folder("0.bin");
    FILE *file = fopen(path, "wb");
    put_npy(file, version, dict);
    for (int i = 0; i < rest; i++) putc(0, file);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static void ck_opens(const char *path, int bytes, const char *says, int64_t ids) {
    const int64_t live = ct_memory(context).live;
    ct_tokens *tokens = ct_tokens_open(context, &path, 1, (ct_tokens_opts){.bytes = bytes});
    if (says) ck_refused(tokens, CT_ERR_FORMAT, path, says);
    else must(tokens);
    ck_assert_int_eq(ct_tokens_count(tokens), ids);
    ct_tokens_close(tokens);
    ck_assert_int_eq(ct_memory(context).live, live);
}

START_TEST(headers) {
    static const struct {
        int version, rest, bytes;
        const char *dict, *says; /* says: NULL if it is right */
    } cases[] = {
        {1, 10, 0, RIGHT, NULL},
        {2, 10, 0, RIGHT, NULL},
        {3, 10, 2, RIGHT, NULL},
        {1, 20, 4, DICT("<u4", "False", "(5,)"), NULL},
        {1, 20, 0, DICT("<i4", "False", "(5,)"), NULL},
        {1, 40, 8, DICT("<u8", "False", "(5,)"), NULL},
        {1, 40, 0, DICT("<i8", "True", "( 5 , )"), NULL},
        {1, 10, 0, "{\"shape\":(5,),\"descr\":\"<u2\",\"fortran_order\":False}  \n ", NULL},
        {1, 20, 2, DICT("<u4", "False", "(5,)"), "ids of 4 bytes by NumPy's header, of 2 by"},
        {1, 10, 0, DICT(">u2", "False", "(5,)"), "dtype '>u2', which is big-endian, and not of"},
        {1, 40, 0, DICT(">i8", "False", "(5,)"), "which is big-endian"},
        {1, 10, 0, DICT("<i2", "False", "(5,)"), "NumPy's dtype '<i2', and not of '<u2'"},
        {1, 5, 0, DICT("|u1", "False", "(5,)"), "NumPy's dtype '|u1', and not of"},
        {1, 20, 0, DICT("<f4", "False", "(5,)"), "NumPy's dtype '<f4', and not of"},
        {1, 10, 0, DICT("", "False", "(5,)"), "NumPy's dtype '', and not of"},
        {1, 10, 0, DICT("<U1234567890123456", "False", "(5,)"),
         "byte 40: NumPy's header: no dtype"},
        {1, 10, 0, "{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (5,)}",
         "byte 20: NumPy's header: an array of records"},
        {1, 10, 0, DICT("<u2", "False", "(5, 1)"), "a NumPy array of 2 dims, and not of one"},
        {1, 2, 0, DICT("<u2", "False", "()"), "a NumPy array of 0 dims"},
        {1, 10, 0, DICT("<u2", "False", "(5)"), "',' is missing"},
        {1, 10, 0, DICT("<u2", "False", "5"), "'(' is missing"},
        {1, 10, 0, DICT("<u2", "False", "(-5,)"), "a dim is no natural number"},
        {1, 10, 0, DICT("<u2", "False", "(,)"), "a dim is no natural number"},
        {1, 10, 0, DICT("<u2", "False", "(9223372036854775808,)"), "a dim of 2^63 or more"},
        {1, 10, 0, DICT("<u2", "False", "(9223372036854775807,)"),
         "says 9223372036854775807 ids of 2 bytes, and 10 bytes follow"},
        {1, 10, 0, DICT("<u2", "False", "(4294967296, 4294967296)"), "the size overflows"},
        {1, 8, 0, RIGHT, "NumPy's header says 5 ids of 2 bytes, and 8 bytes follow it"},
        {1, 12, 0, RIGHT, "5 ids of 2 bytes, and 12 bytes follow it"},
        {1, 11, 0, RIGHT, "5 ids of 2 bytes, and 11 bytes follow it"},
        {1, 10, 0, DICT("<u2", "None", "(5,)"), "neither True nor False"},
        {1, 10, 0, "{'descr': '<u2', 'shape': (5,)}", "or shape is missing"},
        {1, 10, 0, "{}", "or shape is missing"},
        {1, 10, 0, "", "'{' is missing"},
        {1, 10, 0, "{'descr': '<u2', 'descr': '<u2'}", "a key stands twice"},
        {1, 10, 0, "{'dtype': '<u2'}", "a key other than"},
        {1, 10, 0, "{'descr", "a string does not end"},
        {1, 10, 0, "{'descr': '<u\\x32'}", "an escape"},
        {1, 10, 0, "{'descr' '<u2'}", "':' is missing"},
        {1, 10, 0, "{'descr': '<u2' 'shape': (5,)}", "'}' is missing"},
        {1, 10, 0, RIGHT "x", "something follows '}'"},
        {0, 10, 0, RIGHT, "byte 6: NumPy's header: a version other than"},
        {4, 10, 0, RIGHT, "byte 6: NumPy's header: a version other than"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *path = put_npy_file(cases[k].version, cases[k].dict, cases[k].rest);
        ck_opens(path, cases[k].bytes, cases[k].says, cases[k].says ? 0 : IDS);
    }
}
END_TEST

/* A header that says it is longer than it is, and one of NumPy's largest size. */
START_TEST(lengths) {
    static char dict[10001];
    memset(dict, ' ', sizeof dict - 1);
    memcpy(dict, RIGHT, sizeof RIGHT - 1);
    ck_opens(put_npy_file(2, dict, 10), 0, "byte 8: NumPy's header: more than 10000 bytes", 0);
    dict[9999] = 0;
    ck_opens(put_npy_file(2, dict, 10), 0, NULL, IDS);
    const char *path = put_npy_file(1, RIGHT, 10);
    for (int size = 11 + (int)sizeof RIGHT; size >= 6; size--) { /* cut at each byte */
        ck_assert_int_eq(truncate(path, size), 0);
        ck_opens(path, 0, size < 10 + (int)sizeof RIGHT ? "the file ends inside it" : "5 ids of",
                 0);
    }
}
END_TEST

/* The numbers of each dtype: the last id of a window of 8-byte ids is read by itself. */
START_TEST(numbers) {
    static const struct {
        const char *dtype;
        int bytes;
        uint64_t last;
        int64_t is;
        const char *says;
    } cases[] = {
        {"<u2", 2, 65535, 65535, NULL},
        {"<u4", 4, 4294967295, 4294967295, NULL},
        {"<i4", 4, 2147483647, 2147483647, NULL},
        {"<i4", 4, 4294967295, 0, "id -1 is negative"},
        {"<u8", 8, INT64_MAX, INT64_MAX, NULL},
        {"<u8", 8, UINT64_MAX, 0, "id 18446744073709551615 is 2^63 or more"},
        {"<i8", 8, UINT64_C(0x123456789abcdef), INT64_C(0x123456789abcdef), NULL},
        {"<i8", 8, UINT64_MAX - 2, 0, "id -3 is negative"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int64_t at = 0; at < IDS; at++) {
            const char *path = in_folder("0.bin");
            FILE *file = fopen(path, "wb");
            put_npy_ids(file, cases[k].dtype, IDS);
            const int64_t data = ftell(file);
            for (int64_t i = 0; i < IDS; i++)
                put_number(file, i == at ? cases[k].last : (uint64_t)i + 300, cases[k].bytes);
            fclose(file);
            char says[100];
            if (cases[k].says)
                snprintf(says, sizeof says, "byte %d: %s", (int)(data + at * cases[k].bytes),
                         cases[k].says);
            ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){0});
            ct_tensor *x = NULL, *y = NULL;
            const int64_t T = IDS - 1;
            if (cases[k].says) {
                ck_batch_refused(tokens, 0, 1, T, CT_ERR_FORMAT, path, says);
            } else {
                must(tokens && ct_tokens_batch(tokens, 1, 0, 1, T, &x, &y));
                for (int64_t t = 0; t <= T; t++)
                    ck_assert_int_eq(t < T ? ct_data_i64(x)[t] : ct_data_i64(y)[T - 1],
                                     t == at ? cases[k].is : t + 300);
            }
            ct_tokens_close(tokens);
        }
}
END_TEST

/* Raw ids of 8 bytes, as ids.tofile(path) writes NumPy's int64. */
START_TEST(raw_of_8_bytes) {
    static const unsigned char bytes[] = {1, 2, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x80};
    const char *path = in_folder("0.bin");
    write_all(path, (const char *)bytes, sizeof bytes);
    ct_tokens *tokens = open_ids(context, 1, (ct_tokens_opts){.bytes = 8});
    ck_batch_refused(tokens, 0, 1, 1, CT_ERR_FORMAT, path,
                     "byte 8: id 9223372036854775815 is 2^63 or more");
    ct_tokens_close(tokens);
    write_all(path, (const char *)bytes, 15);
    ck_refused(open_ids(context, 1, (ct_tokens_opts){.bytes = 8}), CT_ERR_FORMAT, path,
               "no whole number of ids of 8 bytes: the last one is cut at byte 8");
    static unsigned char two[16] = {1, 2, 0, 0, 1, 0, 0, 0, 7};
    write_all(path, (const char *)two, sizeof two);
    tokens = open_ids(context, 1, (ct_tokens_opts){.bytes = 8});
    ct_tensor *x = NULL, *y = NULL;
    must(tokens && ct_tokens_batch(tokens, 1, 0, 1, 1, &x, &y));
    ck_assert_int_eq(ct_data_i64(x)[0], INT64_C(0x100000201));
    ck_assert_int_eq(ct_data_i64(y)[0], 7);
}
END_TEST

int main(void) {
    return run_tests("token npy", setup, teardown,
                     TESTS(TEST(headers), TEST(lengths), TEST(numbers), TEST(raw_of_8_bytes)));
}
