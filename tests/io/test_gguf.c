/* Headers of GGUF files: what is accepted and what is refused, each with its words; values of keys
 * of each kind. What ggml's own reader accepts is accepted, and what it refuses is refused. */
#include "gguf_bytes.h"
#include "tests/support/suite.h"

#define F32_4 GGUF_VECTOR("x", 4, 0, 0)
#define DATA  "p:32 z:16 p:32"

/* ---- whole files ---- */

static const struct {
    const char *what, *words;
    const char *error; /* NULL: accepted */
} files[] = {
    {"a tensor", GGUF_HEAD(1, 0) F32_4 DATA, NULL},
    {"no padding behind the last tensor", GGUF_HEAD(1, 0) F32_4 "p:32 z:16", NULL},
    {"bytes behind the data", GGUF_HEAD(1, 0) F32_4 DATA " s:more", NULL},
    {"alignment 8",
     GGUF_HEAD(2, 1)
         GGUF_KEY("general.alignment", 4) "4:8 " F32_4 GGUF_VECTOR("y", 4, 0, 16) "p:8 z:32",
     NULL},
    {"alignment 1",
     GGUF_HEAD(2, 1) GGUF_KEY("general.alignment", 4) "4:1 " GGUF_VECTOR("x", 3, 24, 0)
         GGUF_VECTOR("y", 4, 24, 3) "z:7",
     NULL},
    {"an empty array", GGUF_HEAD(0, 1) GGUF_LIST("a", 8, 0), NULL},
    {"a dim of 0", GGUF_HEAD(1, 0) "s:x 4:2 8:0 8:5 4:8 8:0", NULL},
    {"a dim of 0 beside a huge one", GGUF_HEAD(1, 0) "s:x 4:2 8:0 8:0x7fffffffffffffff 4:0 8:0",
     NULL},
    {"a scalar", GGUF_HEAD(1, 0) "s:x 4:0 4:0 8:0 p:32 z:4", NULL},
    {"version 2", "G 4:2 8:1 8:0 " F32_4 DATA, NULL},
    {"bool 2", GGUF_HEAD(0, 1) GGUF_KEY("b", 7) "1:2", NULL},
    {"nothing", GGUF_HEAD(0, 0), NULL},
    {"a tensor of no name", GGUF_HEAD(1, 0) GGUF_VECTOR("", 4, 0, 0) DATA, NULL},
    {"a type that is not read", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 256, 23, 0) "p:32 z:136", NULL},
    {"two tensors", GGUF_HEAD(2, 0) F32_4 GGUF_VECTOR("y", 1, 0, 32) "p:32 z:36", NULL},
    {"a name of 63 bytes",
     GGUF_HEAD(1, 0) GGUF_VECTOR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                 4, 0, 0) DATA,
     NULL},

    {"an empty file", "", "is not a GGUF file: the file is empty"},
    {"another file", "s:GGUF", "it does not begin with GGUF"},
    {"a beginning", "1:71 1:71 1:0", "it does not begin with GGUF"},
    {"a text", "1:71 1:71", "is a text, not a GGUF file"},
    {"only the magic", "G", "the file ends inside the header: 4 bytes from byte 4"},
    {"no counts", "G 4:3 8:0", "ends inside the header: 8 bytes from byte 16"},
    {"version 1", "G 4:1 8:0 8:0", "version 1, which is no longer read"},
    {"version 4", "G 4:4 8:0 8:0", "version 4, and versions 2 and 3 are read"},
    {"version 0", "G 4:0 8:0 8:0", "version 0, and"},
    {"the other byte order", "G 4:0x03000000 8:0 8:0", "big-endian GGUF file"},
    {"too many keys", GGUF_HEAD(0, 0x4000000000000000) "z:99", "4611686018427387904 keys do not"},
    {"all keys", GGUF_HEAD(0, 0xffffffffffffffff) "z:99", "18446744073709551615 keys do not fit"},
    {"too many tensors", GGUF_HEAD(0x4000000000000000, 0) "z:99", "4611686018427387904 tensors do"},
    {"too many tensors by one", GGUF_HEAD(2, 0) "z:47", "2 tensors do not fit in the file, at by"},
    {"a long key", GGUF_HEAD(0, 1) "8:0x4000000000000000 z:20",
     "key 0: a text of 4611686018427387904 bytes does not fit in the file, at byte 24"},
    {"a key of 2^64 - 1", GGUF_HEAD(0, 1) "8:0xffffffffffffffff z:20",
     "key 0: a text of 18446744073709551615 bytes"},
    {"an empty key", GGUF_HEAD(0, 1) "s: 4:4 4:1", "key 0 is empty, at byte 24"},
    {"a key that is no UTF-8", GGUF_HEAD(0, 1) GGUF_KEY("a\xff", 4) "4:1", "is not UTF-8 without"},
    {"a key with U+0000", GGUF_HEAD(0, 1) "8:2 1:65 1:0 4:4 4:1",
     "key \"A\\u0000\" is not UTF-8 without U+0000, at byte 24"},
    {"control characters", GGUF_HEAD(0, 1) GGUF_KEY("\x1b[31m", 99) "4:1",
     "key \"\\u001b[31m\": kind 99 is none of GGUF's, at byte 37"},
    {"a kind", GGUF_HEAD(0, 1) GGUF_KEY("a", 13) "8:1", "key \"a\": kind 13 is none of GGUF's"},
    {"a key twice", GGUF_HEAD(0, 2) GGUF_KEY("a", 4) "4:1 " GGUF_KEY("a", 4) "4:2",
     "key \"a\" is there twice"},
    {"a long text", GGUF_HEAD(0, 1) GGUF_KEY("a", 8) "8:0x4000000000000000",
     "key \"a\": a text of 4611686018427387904 bytes does not fit in the file, at byte 37"},
    {"a text that ends early", GGUF_HEAD(0, 1) GGUF_KEY("a", 8) "8:9 z:8",
     "a text of 9 bytes does"},
    {"a value that ends early", GGUF_HEAD(0, 1) GGUF_KEY("a", 10) "4:1",
     "key \"a\": 1 elements do not fit in the file, at byte 37"},
    {"a long array", GGUF_HEAD(0, 1) GGUF_LIST("a", 4, 0x4000000000000000) "z:64",
     "key \"a\": 4611686018427387904 elements do not fit in the file, at byte 49"},
    {"an array of 2^64 - 1", GGUF_HEAD(0, 1) GGUF_LIST("a", 0, 0xffffffffffffffff) "z:64",
     "key \"a\": 18446744073709551615 elements do not fit in the file, at byte 41"},
    {"a long array of texts", GGUF_HEAD(0, 1) GGUF_LIST("a", 8, 9) "z:64", "9 elements do not fit"},
    {"an array's text that ends early", GGUF_HEAD(0, 1) GGUF_LIST("a", 8, 2) "s:a 8:1",
     "key \"a\": a text of 1 bytes does not fit in the file, at byte 58"},
    {"an array of arrays", GGUF_HEAD(0, 1) GGUF_LIST("a", 9, 1) "4:4 8:0", "an array of arrays"},
    {"an array of a kind", GGUF_HEAD(0, 1) GGUF_LIST("a", 14, 1) "8:0", "kind 14 is none"},
    {"alignment 0", GGUF_HEAD(1, 1) GGUF_KEY("general.alignment", 4) "4:0 " F32_4 DATA,
     "key \"general.alignment\": is 0, not a power of two"},
    {"alignment 24", GGUF_HEAD(1, 1) GGUF_KEY("general.alignment", 4) "4:24 " F32_4 DATA,
     "is 24, not a power"},
    {"alignment of another kind",
     GGUF_HEAD(1, 1) GGUF_KEY("general.alignment", 5) "4:32 " F32_4 DATA, "is i32, not u32"},
    {"alignments", GGUF_HEAD(1, 1) GGUF_LIST("general.alignment", 4, 1) "4:32 " F32_4 DATA,
     "is an array of u32, not u32"},
    {"5 dims", GGUF_HEAD(1, 0) "s:x 4:5 8:1 8:1 8:1 8:1 8:1 4:0 8:0 p:32 z:4",
     "tensor \"x\" has 5 dims, and 4 at most can be, at byte 33"},
    {"a name of 64 bytes",
     GGUF_HEAD(1, 0) GGUF_VECTOR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                 4, 0, 0) DATA,
     "a name of 64 bytes, over 63"},
    {"a name that is no UTF-8", GGUF_HEAD(1, 0) GGUF_VECTOR("\xc3", 4, 0, 0) DATA, "not UTF-8"},
    {"a tensor twice", GGUF_HEAD(2, 0) F32_4 GGUF_VECTOR("x", 1, 0, 32) "p:32 z:36",
     "tensor \"x\" is there twice"},
    {"a row of 33", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 33, 8, 0) "p:32 z:68",
     "tensor \"x\": a row of 33 is not whole blocks of Q8_0, which have 32"},
    {"a scalar of blocks", GGUF_HEAD(1, 0) "s:x 4:0 4:8 8:0 p:32 z:34", "a row of 1 is not whole"},
    {"a removed type", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 32, 4, 0) "p:32 z:32",
     "tensor \"x\" has type 4, which ggml has removed"},
    {"an unknown type", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 32, 99, 0) "p:32 z:32",
     "tensor \"x\" has type 99, which is unknown, at byte 45"},
    {"a product of 2^63", GGUF_HEAD(1, 0) "s:x 4:2 8:0x80000000 8:0x100000000 4:0 8:0 p:32 z:32",
     "tensor \"x\": the product of its sizes overflows"},
    {"a negative size", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 0xffffffffffffffff, 0, 0) "p:32 z:32",
     "the product of its sizes overflows, at byte 37"},
    {"2^62 elements", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 0x4000000000000000, 0, 0) "p:32 z:32",
     "tensor \"x\": its size and offset overflow"},
    {"2^61 elements", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 0x1000000000000000, 0, 0) "p:32 z:32",
     "tensor \"x\": its data end at byte"},
    {"an offset near 2^64", GGUF_HEAD(1, 0) GGUF_VECTOR("x", 4, 0, 0xfffffffffffffff0) DATA,
     "its size and offset overflow, at byte 49"},
    {"a gap", GGUF_HEAD(2, 0) F32_4 GGUF_VECTOR("y", 1, 0, 64) "p:32 z:68",
     "tensor \"y\": its data begin at 64, and the tensors before it end at 32"},
    {"no padding between", GGUF_HEAD(2, 0) F32_4 GGUF_VECTOR("y", 1, 0, 16) "p:32 z:64",
     "tensor \"y\": its data begin at 16, and"},
    {"another order",
     GGUF_HEAD(2, 0) GGUF_VECTOR("x", 4, 0, 32) GGUF_VECTOR("y", 4, 0, 0) "p:32 z:64",
     "tensor \"x\": its data begin at 32, and the tensors before it end at 0"},
    {"data that end early", GGUF_HEAD(1, 0) F32_4 "p:32 z:15",
     "tensor \"x\": its data end at byte 80, and the file at 79"},
    {"no data", GGUF_HEAD(1, 0) F32_4, "its data end at byte 80, and the file at 57"},
    {"infos that end early", GGUF_HEAD(1, 0) "s:xxxxxxxxx 4:2 8:1",
     "ends inside tensor \"xxxxxxxxx\""},
};

START_TEST(accepts_and_refuses) {
    cti_gguf gguf;
    const int64_t live = ct_memory(context).live;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gguf_words(files[i].words);
        const char *path = gguf_put("x.gguf");
        const bool ok = cti_gguf_open(context, "try", path, &gguf);
        if (files[i].error) {
            ck_assert_msg(!ok, "%s: accepted", files[i].what);
            ck_assert_msg(strstr(ct_error_message(context), files[i].error), "%s: %s",
                          files[i].what, ct_error_message(context));
            ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
            ct_error_clear(context);
        } else {
            ck_assert_msg(ok, "%s: %s", files[i].what, ct_error_message(context));
            cti_gguf_close(&gguf);
        }
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

/* A header cut at any byte is an error, and none takes memory that the file does not have. */
START_TEST(cut_anywhere) {
    gguf_words(GGUF_HEAD(2, 3) GGUF_KEY("a", 8) "s:text " GGUF_LIST(
        "b", 8, 2) "s:x s:yz " GGUF_LIST("c", 6, 2) "4:0 4:0 " F32_4 GGUF_VECTOR("y", 32, 8, 32)
                   DATA " z:34");
    const size_t whole = gguf_size;
    cti_gguf gguf;
    ck_assert(cti_gguf_open(context, "try", gguf_put("x.gguf"), &gguf));
    cti_gguf_close(&gguf);
    for (gguf_size = 0; gguf_size < whole; gguf_size++) {
        ck_assert_msg(!cti_gguf_open(context, "try", gguf_put("x.gguf"), &gguf), "%zu", gguf_size);
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        ct_error_clear(context);
    }
}
END_TEST

START_TEST(tensors) {
    gguf_words(GGUF_HEAD(2, 0) "s:w 4:2 8:64 8:3 4:8 8:0 s:v 4:0 4:30 8:224 p:32 z:204 p:32 z:2");
    cti_gguf gguf;
    ck_assert(cti_gguf_open(context, "try", gguf_put("x.gguf"), &gguf));
    const cti_file_tensor *w = &gguf.tensor[0], *v = &gguf.tensor[1];
    ck_assert(gguf.tensors == 2 && gguf.data == 96 && gguf.data_size == 226);
    ck_assert_str_eq(w->name.at, "w");
    ck_assert(w->dtype == CTI_FILE_Q8_0 && w->ndim == 2 && w->shape.ndim == 2);
    ck_assert(w->shape.dim[0] == 3 && w->shape.dim[1] == 64 && w->numel == 192);
    ck_assert(w->begin == 0 && w->end == 204 && w->data == 96 && w->file == &gguf.file);
    ck_assert(v->dtype == CTI_FILE_BF16 && v->ndim == 0 && v->numel == 1 && v->begin == 224);
    cti_gguf_close(&gguf);
}
END_TEST

/* ---- keys ---- */

/* clang-format off */
static const char *const key_words[] = {
    GGUF_KEY("u8", 0) "1:255",
    GGUF_KEY("i8", 1) "1:255",
    GGUF_KEY("u16", 2) "1:255 1:255",
    GGUF_KEY("i16", 3) "1:254 1:255",
    GGUF_KEY("u32", 4) "4:0xffffffff",
    GGUF_KEY("i32", 5) "4:0xfffffffd",
    GGUF_KEY("f32", 6) "4:0x3fc00000",
    GGUF_KEY("bool", 7) "1:2",
    GGUF_KEY("text", 8) "s:caf\xc3\xa9",
    GGUF_KEY("u64", 10) "8:0x7fffffffffffffff",
    GGUF_KEY("i64", 11) "8:0xfffffffffffffffc",
    GGUF_KEY("f64", 12) "8:0x4004000000000000",
    GGUF_KEY("huge", 10) "8:0xfffffffffffffffc",
    GGUF_KEY("bytes", 8) "s:\xff",
    GGUF_KEY("nul", 8) "8:2 1:65 1:0",
    GGUF_LIST("texts", 8, 3) "s:one s: s:th\xc3\xa9",
    GGUF_LIST("numbers", 3, 2) "1:1 1:0 1:254 1:255",
    GGUF_LIST("reals", 6, 2) "4:0x3fc00000 4:0",
    GGUF_LIST("flags", 7, 2) "1:0 1:1",
    GGUF_LIST("none", 10, 0),
    GGUF_LIST("huges", 10, 2) "8:1 8:0x8000000000000000",
    GGUF_LIST("bad", 8, 2) "s:ok s:\xc3",
};
/* clang-format on */
enum { KEYS = sizeof key_words / sizeof *key_words };

static cti_gguf keys;

static void keys_open(void) {
    static char words[2048];
    int n = snprintf(words, sizeof words, "G 4:3 8:0 8:%d", KEYS);
    for (int i = 0; i < KEYS; i++)
        n += snprintf(words + n, sizeof words - (size_t)n, " %s", key_words[i]);
    gguf_words(words);
    const char *path = gguf_put("keys.gguf");
    static char kept[512];
    strcpy(kept, path);
    ck_assert_msg(cti_gguf_open(context, "try", kept, &keys), "%s", ct_error_message(context));
}

static void ck_integer(const char *key, int64_t want) {
    int64_t got = 77;
    ck_assert_msg(cti_gguf_integer(&keys, key, &got), "%s", ct_error_message(context));
    ck_assert_msg(got == want, "%s: %lld", key, (long long)got);
}
static void ck_real(const char *key, double want) {
    double got = 77;
    ck_assert_msg(cti_gguf_real(&keys, key, &got), "%s", ct_error_message(context));
    ck_assert_msg(got == want, "%s: %g", key, got);
}
#define ck_key_refused(call, words) ck_refused(call, CT_ERR_FORMAT, words, "keys.gguf: key \"")

START_TEST(scalars) {
    keys_open();
    ck_integer("u8", 255), ck_integer("i8", -1), ck_integer("u16", 65535), ck_integer("i16", -2);
    ck_integer("u32", UINT32_MAX), ck_integer("i32", -3), ck_integer("u64", INT64_MAX);
    ck_integer("i64", -4), ck_integer("absent", 77);
    ck_real("f32", 1.5), ck_real("f64", 2.5), ck_real("i16", -2), ck_real("absent", 77);
    bool flag = false;
    cti_text text = {"kept", 4};
    ck_assert(cti_gguf_flag(&keys, "absent", &flag) && !flag);
    ck_assert(cti_gguf_flag(&keys, "bool", &flag) && flag);
    ck_assert(cti_gguf_text(&keys, "absent", &text) && !strcmp(text.at, "kept"));
    ck_assert(cti_gguf_text(&keys, "text", &text) && text.size == 5);
    ck_assert_str_eq(text.at, "caf\xc3\xa9"); /* a NUL is behind it */
    ck_assert_ptr_null(cti_gguf_find(&keys, "tex"));
    ck_assert_ptr_null(cti_gguf_find(&keys, "textt"));
    cti_gguf_close(&keys);
}
END_TEST

START_TEST(other_kinds) {
    keys_open();
    int64_t integer = 7;
    double real = 7;
    bool flag = true;
    cti_text text = {"kept", 4};
    ck_key_refused(cti_gguf_integer(&keys, "f32", &integer), "key \"f32\": is f32, not an integer");
    ck_key_refused(cti_gguf_integer(&keys, "bool", &integer), "is bool, not an integer, at byte");
    ck_key_refused(cti_gguf_integer(&keys, "numbers", &integer), "is an array of i16, not an inte");
    ck_key_refused(cti_gguf_integer(&keys, "huge", &integer), "18446744073709551612 is beyond int");
    ck_key_refused(cti_gguf_real(&keys, "text", &real), "key \"text\": is string, not a number");
    ck_key_refused(cti_gguf_real(&keys, "huge", &real), "is beyond int64");
    ck_key_refused(cti_gguf_flag(&keys, "u8", &flag), "is u8, not a bool");
    ck_key_refused(cti_gguf_text(&keys, "u8", &text), "is u8, not a string");
    ck_key_refused(cti_gguf_text(&keys, "texts", &text), "is an array of string, not a string");
    ck_key_refused(cti_gguf_text(&keys, "bytes", &text), "key \"bytes\": is not UTF-8 at byte");
    ck_key_refused(cti_gguf_text(&keys, "nul", &text), "key \"nul\": has U+0000 at byte");
    ck_assert(integer == 7 && real == 7 && flag && text.size == 4);
    cti_gguf_close(&keys);
}
END_TEST

START_TEST(arrays) {
    keys_open();
    const cti_gguf_pair *pair = NULL;
    ck_assert(cti_gguf_array(&keys, "absent", CTI_GGUF_STRING, &pair) && !pair);
    ck_assert(cti_gguf_array(&keys, "texts", CTI_GGUF_STRING, &pair) && pair->count == 3);
    const char *const want[] = {"one", "", "th\xc3\xa9"};
    cti_gguf_cursor cursor = {0};
    for (int i = 0; i < 3; i++) {
        const cti_text text = cti_gguf_next_text(pair, &cursor);
        ck_assert_str_eq(text.at, want[i]);
        ck_assert_uint_eq(text.size, strlen(want[i]));
    }
    ck_assert(cti_gguf_array(&keys, "text", CTI_GGUF_STRING, &pair) && pair->count == 1);
    ck_assert(cti_gguf_array(&keys, "numbers", CTI_GGUF_I64, &pair) && pair->count == 2);
    ck_assert(cti_gguf_integer_at(pair, 0) == 1 && cti_gguf_integer_at(pair, 1) == -2);
    ck_assert(cti_gguf_array(&keys, "numbers", CTI_GGUF_F64, &pair));
    ck_assert(cti_gguf_real_at(pair, 1) == -2);
    ck_assert(cti_gguf_array(&keys, "reals", CTI_GGUF_F64, &pair));
    ck_assert(cti_gguf_real_at(pair, 0) == 1.5 && cti_gguf_real_at(pair, 1) == 0);
    ck_assert(cti_gguf_array(&keys, "flags", CTI_GGUF_BOOL, &pair));
    ck_assert(!cti_gguf_integer_at(pair, 0) && cti_gguf_integer_at(pair, 1));
    ck_assert(cti_gguf_array(&keys, "none", CTI_GGUF_STRING, &pair) && pair->count == 0);
    ck_key_refused(cti_gguf_array(&keys, "reals", CTI_GGUF_I64, &pair),
                   "array of f32, not integers");
    ck_key_refused(cti_gguf_array(&keys, "texts", CTI_GGUF_F64, &pair), "not numbers");
    ck_key_refused(cti_gguf_array(&keys, "numbers", CTI_GGUF_STRING, &pair), "not strings");
    ck_key_refused(cti_gguf_array(&keys, "numbers", CTI_GGUF_BOOL, &pair), "not bools");
    ck_key_refused(cti_gguf_array(&keys, "huges", CTI_GGUF_I64, &pair),
                   "9223372036854775808 is bey");
    ck_key_refused(cti_gguf_array(&keys, "bad", CTI_GGUF_STRING, &pair), "is not UTF-8 at byte");
    ck_assert(!cti_gguf_fail(&keys, "a\nb", "of %d\n", 7));
    ck_assert_msg(strstr(ct_error_message(context), "keys.gguf: key \"a\\u000ab\": of 7\\u000a"),
                  "%s", ct_error_message(context));
    ct_error_clear(context);
    cti_gguf_close(&keys);
}
END_TEST

/* A header that is longer than what is read at first: keys and names move while it is parsed. */
START_TEST(long_header) {
    enum { TEXTS = 20000, TENSORS = 3000 };
    const int64_t live = ct_memory(context).live;
    const char *path = in_folder("long.gguf");
    FILE *file = fopen(path, "wb");
    gguf_words("G 4:3 8:3000 8:2 s:texts 4:9 4:8 8:20000");
    fwrite(gguf_bytes, 1, gguf_size, file);
    for (int i = 0; i < TEXTS; i++) {
        char words[32];
        snprintf(words, sizeof words, "s:t%d", i);
        gguf_words(words);
        fwrite(gguf_bytes, 1, gguf_size, file);
    }
    gguf_words("s:last 4:4 4:42");
    fwrite(gguf_bytes, 1, gguf_size, file);
    for (int i = 0; i < TENSORS; i++) {
        char words[64];
        snprintf(words, sizeof words, "s:tensor.%d 4:1 8:0 4:0 8:0", i);
        gguf_words(words);
        fwrite(gguf_bytes, 1, gguf_size, file);
    }
    fclose(file);
    ck_assert_msg(cti_gguf_open(context, "try", path, &keys), "%s", ct_error_message(context));
    const cti_gguf_pair *pair = NULL;
    ck_assert(cti_gguf_array(&keys, "texts", CTI_GGUF_STRING, &pair) && pair->count == TEXTS);
    cti_gguf_cursor cursor = {0};
    char want[32];
    for (int i = 0; i < TEXTS; i++) {
        snprintf(want, sizeof want, "t%d", i);
        ck_assert_str_eq(cti_gguf_next_text(pair, &cursor).at, want);
    }
    ck_integer("last", 42);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(want, sizeof want, "tensor.%d", i);
        ck_assert_str_eq(keys.tensor[i].name.at, want);
    }
    cti_gguf_close(&keys);
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

static bool is_gguf(const char *path) {
    bool is = false;
    char kept[512];
    strcpy(kept, path);
    return cti_gguf_is(context, "try", kept, &is) && is;
}

START_TEST(begins_as_gguf) {
    gguf_words("G");
    ck_assert(is_gguf(gguf_put("x.gguf")));
    for (gguf_size = 0; gguf_size < 4; gguf_size++) ck_assert(!is_gguf(gguf_put("x.gguf")));
    ck_assert_int_eq(ct_error(context), CT_OK);
    ck_refused(is_gguf(in_folder("none.gguf")), CT_ERR_IO, "none.gguf: cannot open",
               "No such file");
    ck_refused(is_gguf(folder), CT_ERR_IO, "is a folder", "");
    ck_assert(cti_gguf_type(CTI_FILE_BF16) == 30 && cti_gguf_type(CTI_FILE_BOOL) == -1);
}
END_TEST

int main(void) {
    return run_tests("gguf", setup, teardown,
                     TESTS(TEST(accepts_and_refuses), TEST(cut_anywhere), TEST(tensors),
                           TEST(scalars), TEST(other_kinds), TEST(arrays), TEST(long_header),
                           TEST(begins_as_gguf)));
}
