/* Trees of JSON: kinds, keys, numbers, places, every fault with its sentence, and a text cut at
 * each byte. */
#include <cotangent/context.h>

#include <math.h>
#include <stdio.h>

#include "src/io/json_tree.h"
#include "tests/support/suite.h"

static ct_context *context;
static cti_json_tree tree;
static char *text;

static void start(void) { context = ct_context_new((ct_context_opts){0}); }
static void stop(void) {
    free(text);
    text = NULL;
    ct_context_free(context);
}

/* Parses a copy in a block of just its size. */
static bool read_bytes(const char *json, size_t size) {
    free(text);
    text = malloc(size + !size);
    memcpy(text, json, size);
    return cti_json_tree_read(context, "op", "file.json", text, size, &tree);
}

static bool read_tree(const char *json) { return read_bytes(json, strlen(json)); }

static bool is_text(cti_text a, const char *b) {
    return a.size == strlen(b) && !memcmp(a.at, b, a.size);
}

START_TEST(values_of_a_tree) {
    const char *json = " {\"a\": [1, -2.5e3, \"x\\ny\", [], {}], \"b\\u0041\" : {\"c\":true,"
                       "\"d\":false}, \"e\":null } ";
    ck_assert(read_tree(json));
    const cti_json_value *v = tree.value;
    ck_assert(v[0].kind == CTI_JSON_OBJECT && v[0].count == 3 && !v[0].next);
    ck_assert(v[0].begin == 1 && v[0].size == strlen(json) - 2);
    const cti_json_at a = cti_json_member(&tree, 0, "a"), b = cti_json_member(&tree, 0, "bA"),
                      e = cti_json_member(&tree, 0, "e");
    ck_assert(a == 1 && v[a].next == b && v[b].next == e && v[e].next == 0);
    ck_assert(v[a].kind == CTI_JSON_ARRAY && v[a].count == 5 && v[e].kind == CTI_JSON_NULL);
    ck_assert(!memcmp(json + v[a].begin, "[1", 2) && json[v[a].begin + v[a].size - 1] == ']');
    static const cti_json_kind kinds[] = {CTI_JSON_NUMBER, CTI_JSON_NUMBER, CTI_JSON_STRING,
                                          CTI_JSON_ARRAY, CTI_JSON_OBJECT};
    int n = 0;
    for (cti_json_at i = cti_json_first(&tree, a); i; i = v[i].next)
        ck_assert(v[i].kind == kinds[n++] && v[i].key_size == 0);
    ck_assert_int_eq(n, 5);
    ck_assert(is_text(cti_json_text(&tree, a + 2), "-2.5e3"));
    ck_assert(is_text(cti_json_text(&tree, a + 3), "x\ny") && !cti_json_text(&tree, a + 3).at[3]);
    ck_assert(!cti_json_first(&tree, a + 4) && !cti_json_first(&tree, a + 5));
    ck_assert(is_text(cti_json_key_of(&tree, b), "bA"));
    ck_assert(v[cti_json_member(&tree, b, "c")].kind == CTI_JSON_TRUE);
    ck_assert(v[cti_json_member(&tree, b, "d")].kind == CTI_JSON_FALSE);
    ck_assert(!cti_json_member(&tree, b, "a") && !cti_json_member(&tree, a, "a"));
    cti_json_tree_free(&tree);
}
END_TEST

START_TEST(numbers_of_a_tree) {
    static const struct {
        const char *json;
        int64_t whole; /* -1: it is no natural number */
        double real;
    } cases[] = {
        {"0", 0, 0},
        {"-0", -1, -0.0},
        {"9223372036854775807", INT64_MAX, 0x1p63},
        {"9223372036854775808", -1, 0x1p63},
        {"1.0", -1, 1},
        {"1e2", -1, 100},
        {"-12.5", -1, -12.5},
        {"0.1", -1, 0.1},
        {"1E-05", -1, 1e-5},
        {"1e+22", -1, 1e22},
        {"5e-324", -1, 5e-324},
        {"1.7976931348623157e308", -1, 1.7976931348623157e308},
        {"0.00000000000000000000000000000000001234", -1, 1.234e-35},
        {"12345678901234567890123456789012345", -1, 1.2345678901234567890123456789012345e34},
        {"3.14159265358979323846264338327950288", -1, 3.14159265358979323846264338327950288},
        {"1e400", -1, INFINITY},
        {"1e-99999999999999999999", -1, 0},
        {"0e99999999999999999999", -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t whole = -1;
        double real = NAN;
        ck_assert(read_tree(cases[i].json));
        ck_assert_msg(cti_json_whole(&tree, 0, &whole) == (cases[i].whole >= 0) &&
                          whole == cases[i].whole && cti_json_real(&tree, 0, &real) &&
                          real == cases[i].real && !signbit(real) == !signbit(cases[i].real),
                      "%s: %lld, %.17g", cases[i].json, (long long)whole, real);
        cti_json_tree_free(&tree);
    }
    int64_t whole;
    double real;
    ck_assert(read_tree("\"1\"") && !cti_json_whole(&tree, 0, &whole) &&
              !cti_json_real(&tree, 0, &real));
    cti_json_tree_free(&tree);
}
END_TEST

START_TEST(faults_of_a_tree) {
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"", "op: file.json: byte 0: a value is expected"},
        {"tru", "op: file.json: byte 0: a value is expected"},
        {"nul]", "op: file.json: byte 0: a value is expected"},
        {"[1,]", "op: file.json: byte 3: a value is expected"},
        {"[1 2]", "op: file.json: byte 3: ',' or ']' is expected"},
        {"{\"a\":1,}", "op: file.json: byte 7: a string is expected"},
        {"{\"a\" 1}", "op: file.json: byte 5: ':' is expected"},
        {"{\"a\":01}", "op: file.json: byte 7: a number begins with 0"},
        {"[-]", "op: file.json: byte 2: a digit is expected"},
        {"[1] 2", "op: file.json: byte 4: the text does not end behind its value"},
        {"\"a", "op: file.json: byte 2: the string does not end"},
        {"\"\xff\"", "op: file.json: byte 1: the JSON is not UTF-8"},
        {"[{\"a\":1,\"b\":2,\"\\u0061\":3}]",
         "op: file.json: byte 15: the object has this key twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(!read_tree(cases[i].json));
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        ck_assert_str_eq(ct_error_message(context), cases[i].message);
        ck_assert(!tree.value);
        ct_error_clear(context);
    }
}
END_TEST

/* A NUL is no white space and no end. */
START_TEST(nul_in_a_tree) {
    ck_assert(!read_bytes("1\0", 2));
    ct_error_clear(context);
    ck_assert(!read_bytes("[\0]", 3));
    ct_error_clear(context);
}
END_TEST

START_TEST(depth_of_a_tree) {
    for (int depth = 64; depth <= 65; depth++) {
        char deep[2 * 65];
        memset(deep, '[', (size_t)depth);
        memset(deep + depth, ']', (size_t)depth);
        ck_assert(read_bytes(deep, 2 * (size_t)depth) == (depth == 64));
        if (depth == 64) cti_json_tree_free(&tree);
    }
    ck_assert_str_eq(ct_error_message(context), "op: file.json: byte 64: nested too deep");
    ct_error_clear(context);
    enum { MANY = 1 << 20 };
    char *open = malloc(MANY);
    memset(open, '[', MANY);
    ck_assert(!read_bytes(open, MANY));
    free(open);
    ct_error_clear(context);
}
END_TEST

/* Only objects of at most 64 members are checked. */
START_TEST(repeated_keys_of_large_objects) {
    for (int members = 64; members <= 65; members++) {
        char json[1024];
        int used = 0;
        for (int i = 0; i < members; i++)
            used += snprintf(json + used, sizeof json - (size_t)used, "%s\"k%d\":0", i ? "," : "{",
                             i == members - 1 ? 0 : i);
        snprintf(json + used, sizeof json - (size_t)used, "}");
        ck_assert(read_tree(json) == (members == 65));
        if (members == 65) cti_json_tree_free(&tree);
        ct_error_clear(context);
    }
}
END_TEST

/* Growing the array of values keeps them, and all memory is given back. */
START_TEST(many_values) {
    enum { VALUES = 3000 };
    char *json = malloc(8 * VALUES);
    int used = 0;
    for (int i = 0; i < VALUES; i++) used += snprintf(json + used, 8, "%s%d", i ? "," : "[", i);
    json[used++] = ']';
    const int64_t live = ct_memory(context).live;
    ck_assert(read_bytes(json, (size_t)used));
    int64_t n = 0, whole;
    for (cti_json_at i = cti_json_first(&tree, 0); i; i = tree.value[i].next)
        ck_assert(cti_json_whole(&tree, i, &whole) && whole == n++);
    ck_assert_int_eq(n, VALUES);
    cti_json_tree_free(&tree);
    ck_assert_int_eq(ct_memory(context).live, live);
    free(json);
}
END_TEST

START_TEST(trees_cut_at_each_byte) {
    const char *json = "{\"a\":[1.5e-3,true,{\"b\":\"\\ud83d\\ude00\"}],\"\xc3\xa9\":null}";
    for (size_t size = 0; size < strlen(json); size++) {
        ck_assert_msg(!read_bytes(json, size), "%zu bytes are no whole text", size);
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        ct_error_clear(context);
    }
    ck_assert(read_tree(json));
    cti_json_tree_free(&tree);
}
END_TEST

int main(void) {
    return run_tests("json_tree", start, stop,
                     TESTS(TEST(values_of_a_tree), TEST(numbers_of_a_tree), TEST(faults_of_a_tree),
                           TEST(nul_in_a_tree), TEST(depth_of_a_tree),
                           TEST(repeated_keys_of_large_objects), TEST(many_values),
                           TEST(trees_cut_at_each_byte)));
}
