/* The parser and the writer of JSON: every escape, every length of UTF-8, every fault with its
 * sentence, and no read behind the end. */
#include <stdlib.h>
#include <string.h>

#include "src/io/json.h"
#include "tests/support/suite.h"

#include <locale.h>

#include <stdio.h>

/* The text in a block of just its size and the byte that the parser may write behind it. */
static cti_json json_of(const char *text, size_t size, char **block) {
    *block = malloc(size + 1);
    memcpy(*block, text, size);
    (*block)[size] = 0;
    return cti_json_read(*block, size);
}

START_TEST(escapes) {
    static const struct {
        const char *json, *text;
        size_t size;
    } cases[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u00E9\"", "A\xc3\xa9\xc3\xa9", 5},
        {"\"\\u07ff\\u0800\"", "\xdf\xbf\xe0\xa0\x80", 5},
        {"\"\\uABCD\\uabcd\"", "\xea\xaf\x8d\xea\xaf\x8d", 6},
        {"\"\\uFFFF\"", "\xef\xbf\xbf", 3},
        {"\"\\ud7ff\\ue000\"", "\xed\x9f\xbf\xee\x80\x80", 6},
        {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80", 4},
        {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf", 4},
        {"\"a\\u0000b\"", "a\0b", 3},
        {" \t\r\n\"\"", "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *block;
        cti_json json = json_of(cases[i].json, strlen(cases[i].json), &block);
        cti_text text;
        ck_assert_msg(cti_json_string(&json, &text), "%s: %s", cases[i].json, json.fault);
        ck_assert_msg(text.size == cases[i].size && !memcmp(text.at, cases[i].text, text.size) &&
                          text.at[text.size] == 0 && json.at == json.end,
                      "%s: \"%s\"", cases[i].json, text.at);
        free(block);
    }
}
END_TEST

/* Texts that are no valid string, whole and cut off at every byte. */
START_TEST(strings_that_are_none) {
    static const struct {
        const char *json, *fault;
    } cases[] = {
        {"x", "a string is expected"},
        {"", "a string is expected"},
        {"\"", "the string does not end"},
        {"\"a", "the string does not end"},
        {"\"\\", "an unknown escape"},
        {"\"\\q\"", "an unknown escape"},
        {"\"\\U0041\"", "an unknown escape"},
        {"\"\\u", "four hex digits are expected"},
        {"\"\\u12", "four hex digits are expected"},
        {"\"\\u004g\"", "four hex digits are expected"},
        {"\"\\u00:0\"", "four hex digits are expected"},
        {"\"\\u00/0\"", "four hex digits are expected"},
        {"\"\\u00@0\"", "four hex digits are expected"},
        {"\"\\u00`0\"", "four hex digits are expected"},
        {"\"\\u00G0\"", "four hex digits are expected"},
        {"\"\\udc00\"", "half a surrogate pair"},
        {"\"\\uDFFF\"", "half a surrogate pair"},
        {"\"\\ud800", "half a surrogate pair"},
        {"\"\\ud800\\", "half a surrogate pair"},
        {"\"\\ud800\"", "half a surrogate pair"},
        {"\"\\ud800u1234\"", "half a surrogate pair"},
        {"\"\\ud800\\n123\"", "half a surrogate pair"},
        {"\"\\ud800\\udbff\"", "half a surrogate pair"},
        {"\"\\ud800\\ue000\"", "half a surrogate pair"},
        {"\"\\ud800\\ud8\"", "four hex digits are expected"},
        {"\"a\nb\"", "a control character in a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *block;
        cti_json json = json_of(cases[i].json, strlen(cases[i].json), &block);
        cti_text text;
        ck_assert_msg(!cti_json_string(&json, &text), "%s is taken", cases[i].json);
        ck_assert_msg(!strcmp(json.fault, cases[i].fault), "%s: %s", cases[i].json, json.fault);
        /* the first fault stays through later calls */
        int64_t number;
        bool first = true;
        ck_assert(!cti_json_open(&json, '{') && !cti_json_next(&json, '}', &first) &&
                  !cti_json_key(&json, &text) && !cti_json_natural(&json, &number) &&
                  !cti_json_skip(&json, NULL, NULL) && !cti_json_fail(&json, "another"));
        ck_assert_str_eq(json.fault, cases[i].fault);
        free(block);
    }
    const char *whole = "\"\\u00e9 \\ud83d\\ude00 \xc3\xa9 \\n\"";
    for (size_t size = 0; size < strlen(whole); size++) {
        char *block;
        cti_json json = json_of(whole, size, &block);
        cti_text text;
        ck_assert_msg(!cti_json_string(&json, &text) && json.fault, "%zu bytes are taken", size);
        free(block);
    }
}
END_TEST

START_TEST(numbers) {
    static const struct {
        const char *json, *fault;
        int64_t number;
    } cases[] = {
        {"0", NULL, 0},
        {" 7,", NULL, 7},
        {"9223372036854775807", NULL, INT64_MAX},
        {"9223372036854775808", "a number is too large", 0},
        {"99999999999999999999", "a number is too large", 0},
        {"00", "a number begins with 0", 0},
        {"-1", "a number is negative", 0},
        {"1.0", "a number is not a whole one", 0},
        {"1e3", "a number is not a whole one", 0},
        {"1E3", "a number is not a whole one", 0},
        {"", "a whole number is expected", 0},
        {"x", "a whole number is expected", 0},
        {"/", "a whole number is expected", 0},
        {":", "a whole number is expected", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *block;
        cti_json json = json_of(cases[i].json, strlen(cases[i].json), &block);
        int64_t number = -1;
        const bool taken = cti_json_natural(&json, &number);
        ck_assert_msg(taken == !cases[i].fault, "%s: %s", cases[i].json, json.fault);
        if (taken) ck_assert_int_eq(number, cases[i].number);
        else ck_assert_str_eq(json.fault, cases[i].fault);
        free(block);
    }
}
END_TEST

/* Any value is passed over up to its end; one that is none has a fault. */
START_TEST(skipping) {
    static const struct {
        const char *json, *fault;
    } cases[] = {
        {"\"a\\u00e9\"", NULL},
        {"-1.5E+3", NULL},
        {"true", NULL},
        {"[]", NULL},
        {"[ ]", NULL},
        {"{}", NULL},
        {"[1,[2,{\"a\":[null,\"]\"],\"b\":{}}],3]", NULL},
        {"[1 2]", "',' or ']' is expected"},
        {"[1,", "a value is expected"},
        {"[1,]", "a value is expected"},
        {"{\"a\":1 \"b\":2}", "',' or '}' is expected"},
        {"{\"a\" 1}", "':' is expected"},
        {"{a:1}", "a string is expected"},
        {"{\"a\":\"\\x\"}", "an unknown escape"},
        {"[\"\\x\"]", "an unknown escape"},
        {"", "a value is expected"},
        {"*", "a value is expected"},
        {"0", NULL},
        {"-0", NULL},
        {"10.250e-07", NULL},
        {"1E9", NULL},
        {"[0.5,-12,3e0,false,null,\"\\uD83D\\uDE00\"]", NULL},
        {"-", "a digit is expected"},
        {"+1", "a value is expected"},
        {".5", "a value is expected"},
        {"1.", "a digit is expected"},
        {"1.e5", "a digit is expected"},
        {"1e", "a digit is expected"},
        {"1e+", "a digit is expected"},
        {"01", "a number begins with 0"},
        {"-00.5", "a number begins with 0"},
        {"[1.5.5]", "',' or ']' is expected"},
        {"[0x10]", "',' or ']' is expected"},
        {"[1-]", "',' or ']' is expected"},
        {"nonsense.+E-9", "a value is expected"},
        {"[tru]", "a value is expected"},
        {"[True]", "a value is expected"},
        {"[nullnull]", "',' or ']' is expected"},
        {"NaN", "a value is expected"},
        {"Infinity", "a value is expected"},
        {"[,1]", "a value is expected"},
        {"{\"a\":1,}", "a string is expected"},
        {"{\"a\":}", "a value is expected"},
        {"{\"a\":{\"b\":[nan]}}", "a value is expected"},
        {"[\"\\uD83D\"]", "half a surrogate pair"},
        {"[\"\n\"]", "a control character in a string"},
        {"[1}", "',' or ']' is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *block;
        cti_json json = json_of(cases[i].json, strlen(cases[i].json), &block);
        const bool taken = cti_json_skip(&json, NULL, NULL);
        ck_assert_msg(taken == !cases[i].fault, "%s: %s", cases[i].json, json.fault);
        if (taken) ck_assert_msg(json.at == json.end, "%s: \"%s\" is left", block, json.at);
        else ck_assert_msg(!strcmp(json.fault, cases[i].fault), "%s: %s", block, json.fault);
        free(block);
    }
    for (int depth = 64; depth <= 65; depth++) {
        char deep[2 * 65];
        memset(deep, '[', (size_t)depth);
        memset(deep + depth, ']', (size_t)depth);
        char *block;
        cti_json json = json_of(deep, 2 * (size_t)depth, &block);
        ck_assert_msg(cti_json_skip(&json, NULL, NULL) == (depth == 64), "%d deep: %s", depth,
                      json.fault);
        free(block);
    }
}
END_TEST

static char visited[256];
static bool visit_key(void *arg, int64_t object, cti_text key) {
    const size_t used = strlen(visited);
    snprintf(visited + used, sizeof visited - used, "%d%s ", (int)object, key.at);
    return strcmp(key.at, arg) != 0;
}

/* Each key comes with the number of its object, unescaped; false ends the skip without a fault. */
START_TEST(keys_that_are_skipped) {
    char *block;
    const char *text = "{\"a\":{\"b\":[{\"c\":1},{}],\"\\u0061\":2},\"a\":[{\"d\":0}]}";
    cti_json json = json_of(text, strlen(text), &block);
    visited[0] = 0;
    ck_assert(cti_json_skip(&json, visit_key, (char[]){"none"}) && json.at == json.end);
    ck_assert_str_eq(visited, "1a 2b 3c 2a 1a 5d ");
    free(block);
    json = json_of(text, strlen(text), &block);
    visited[0] = 0;
    ck_assert(!cti_json_skip(&json, visit_key, (char[]){"c"}) && !json.fault);
    ck_assert_str_eq(visited, "1a 2b 3c ");
    free(block);
}
END_TEST

/* RFC 3629: the bounds of each length, overlong forms, surrogates and cut sequences. */
START_TEST(utf8) {
    static const struct {
        const char *text;
        size_t size, valid; /* bytes; the index of the first that is not valid */
    } cases[] = {
        {"a\x7f", 2, 2},
        {"\xc2\x80\xdf\xbf", 4, 4},
        {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 12, 12},
        {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8, 8},
        {"a\x80", 2, 1},
        {"a\xc1\xbf", 3, 1},
        {"\xe0\x9f\xbf", 3, 0},
        {"\xed\xa0\x80", 3, 0},
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"\xf4\x90\x80\x80", 4, 0},
        {"\xf5\x80\x80\x80", 4, 0},
        {"ab\xc3", 3, 2},
        {"ab\xe2\x82", 4, 2},
        {"ab\xf0\x9f\x98", 5, 2},
        {"\xc3\xc3", 2, 0},
        {"\xe2\x82\x28", 3, 0},
        {"\xf0\x9f\x98\xc0", 4, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *block;
        json_of(cases[i].text, cases[i].size, &block);
        ck_assert_msg(cti_json_utf8(block, cases[i].size) == cases[i].valid, "case %zu: %zu", i,
                      cti_json_utf8(block, cases[i].size));
        free(block);
    }
}
END_TEST

START_TEST(order_of_texts) {
    static const char *const ordered[] = {"", "a", "ab", "b", "ba", "\xc3\xa9"};
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++) {
            const int order = cti_text_compare(cti_text_of(ordered[a]), cti_text_of(ordered[b]));
            ck_assert_int_eq((order > 0) - (order < 0), (a > b) - (a < b));
        }
}
END_TEST

/* Sets a locale whose decimal point is a comma; one is compiled if the system has none. */
static bool set_comma(void) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "pt_BR.UTF-8", "de_DE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_NUMERIC, names[i])) return true;
#if defined __GLIBC__
    char folder[] = "/tmp/cotangent-locale-XXXXXX", command[200];
    if (!mkdtemp(folder)) return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
             folder);
    const bool made = system(command) == 0 && !setenv("LOCPATH", folder, 1) &&
                      setlocale(LC_NUMERIC, "de_DE.UTF-8");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 && made;
#else
    return false;
#endif
}

static const char *real(double number) {
    static char text[40];
    memset(text, 0, sizeof text);
    cti_real_write(&(cti_writer){.at = text, .size = sizeof text}, number);
    return text;
}

static void check_reals(void) {
    ck_assert_str_eq(real(2.5), "2.5");
    ck_assert_str_eq(real(-0.1), "-0.1");
    ck_assert_str_eq(real(16), "16");
    ck_assert_str_eq(real(1.0 / 3), "0.3333333333333333");
    ck_assert_str_eq(real(1.5e-300), "1.5e-300");
    ck_assert_str_eq(real(0), "0");
}

/* A locale whose decimal point is a comma changes no number. If the machine has no such locale, the
 * texts that it would print are read. */
START_TEST(reals) {
    check_reals();
    if (set_comma()) check_reals();
    setlocale(LC_NUMERIC, "C");
    static const char *const same[][2] = {{"-1,5e-07", "-1.5e-07"},
                                          {"2\xd9\xab"
                                           "5",
                                           "2.5"},
                                          {"3", "3"},
                                          {"1e+20", "1e+20"},
                                          {"-inf", "-inf"},
                                          {"nan", "nan"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char text[20];
        strcpy(text, same[i][0]);
        cti_json_point(text);
        ck_assert_str_eq(text, same[i][1]);
    }
}
END_TEST

int main(void) {
    return run_tests("json", NULL, NULL,
                     TESTS(TEST(escapes), TEST(strings_that_are_none), TEST(numbers),
                           TEST(skipping), TEST(keys_that_are_skipped), TEST(utf8),
                           TEST(order_of_texts), TEST(reals)));
}
