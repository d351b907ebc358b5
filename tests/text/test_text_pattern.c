/* Patterns and the matches that they find. The tokenizers package 0.23.3 gave the values. */
#include <stdio.h>

#include "ext/text/byte_alphabet.h"
#include "ext/text/pattern.h"
#include "text_reading.h"

enum { MOST_PIECES = 40, LONG_TEXT = 1000000 };

static text_reading opened;

/* A pattern of an expression, or NULL. */
static const cti_pattern *pattern_of(const char *expression) {
    return cti_pattern_new(&opened.reading, 0, cti_text_of(expression), false);
}

static void open_null(void) { begin_reading(&opened, "null"); }
static void close_null(void) { end_reading(&opened); }

START_TEST(known_patterns) {
    static const struct {
        cti_next_piece *next;
        const char *text;
        size_t end[MOST_PIECES]; /* the end of each piece; 0: no more */
    } cases[] = {
        {cti_next_gpt2,
         "Hello, I'll pay 12345 dollars!  Don'T\n\n  you'Re   late\t\r\n",
         {5, 6, 8, 11, 15, 21, 29, 30, 31, 35, 36, 37, 40, 44, 45, 47, 49, 54, 57}},
        {cti_next_llama3,
         "Hello, I'll pay 12345 dollars!  Don'T\n\n  you'Re   late\t\r\n",
         {5, 6, 8, 11, 15, 16, 19, 21, 29, 30, 31, 35, 37, 39, 40, 44, 47, 49, 54, 57}},
        {cti_next_qwen2,
         "Hello, I'll pay 12345 dollars!  Don'T\n\n  you'Re   late\t\r\n",
         {5, 6, 8, 11, 15, 16, 17, 18, 19, 20, 21, 29, 30, 31, 35, 37, 39, 40, 44, 47, 49, 54, 57}},
        {cti_next_o200k,
         "Hello, I'll pay 12345 dollars!  Don'T\n\n  you'Re   late\t\r\n",
         {5, 6, 11, 15, 16, 19, 21, 29, 30, 31, 37, 39, 40, 47, 49, 54, 57}},
        {cti_next_gpt2,
         "camelCaseABC DEFg \xE4\xB8\xAD"
         "ABC\xCC\x81x //--/\n 1\xC2\xB2"
         "3 '\xC5\xBF"
         "ab \xE2\x80\x8Bword\xEF\xBB\xBFx   ",
         {12, 17, 24, 26, 27, 33, 34, 39, 41, 45, 49, 53, 56, 57, 60}},
        {cti_next_llama3,
         "camelCaseABC DEFg \xE4\xB8\xAD"
         "ABC\xCC\x81x //--/\n 1\xC2\xB2"
         "3 '\xC5\xBF"
         "ab \xE2\x80\x8Bword\xEF\xBB\xBFx   ",
         {12, 17, 24, 27, 34, 35, 39, 41, 45, 49, 53, 57, 60}},
        {cti_next_qwen2,
         "camelCaseABC DEFg \xE4\xB8\xAD"
         "ABC\xCC\x81x //--/\n 1\xC2\xB2"
         "3 '\xC5\xBF"
         "ab \xE2\x80\x8Bword\xEF\xBB\xBFx   ",
         {12, 17, 24, 27, 34, 35, 36, 38, 39, 41, 45, 49, 53, 57, 60}},
        {cti_next_o200k,
         "camelCaseABC DEFg \xE4\xB8\xAD"
         "ABC\xCC\x81x //--/\n 1\xC2\xB2"
         "3 '\xC5\xBF"
         "ab \xE2\x80\x8Bword\xEF\xBB\xBFx   ",
         {5, 9, 12, 17, 27, 34, 35, 39, 41, 45, 49, 53, 57, 60}},
        {cti_next_gpt2,
         "  \xE3\x80\x80"
         "a\xE2\x80\xA8\xE2\x80\xA9 b's\xC3\xA9'd'",
         {2, 5, 6, 12, 14, 16, 18, 20, 21}},
        {cti_next_llama3,
         "  \xE3\x80\x80"
         "a\xE2\x80\xA8\xE2\x80\xA9 b's\xC3\xA9'd'",
         {2, 6, 12, 14, 16, 18, 20, 21}},
        {cti_next_qwen2,
         "  \xE3\x80\x80"
         "a\xE2\x80\xA8\xE2\x80\xA9 b's\xC3\xA9'd'",
         {2, 6, 12, 14, 16, 18, 20, 21}},
        {cti_next_o200k,
         "  \xE3\x80\x80"
         "a\xE2\x80\xA8\xE2\x80\xA9 b's\xC3\xA9'd'",
         {2, 6, 12, 16, 20, 21}},
        {cti_next_gpt2,
         "\xCA\xB0"
         "ABCd \xC7\x85x \xCC\x81"
         "AB e\xCC\x81"
         "f AB\xE3\x81\x82"
         "CDx 's",
         {6, 10, 13, 15, 17, 19, 20, 29, 31, 32}},
        {cti_next_llama3,
         "\xCA\xB0"
         "ABCd \xC7\x85x \xCC\x81"
         "AB e\xCC\x81"
         "f AB\xE3\x81\x82"
         "CDx 's",
         {6, 10, 13, 15, 17, 20, 29, 31, 32}},
        {cti_next_qwen2,
         "\xCA\xB0"
         "ABCd \xC7\x85x \xCC\x81"
         "AB e\xCC\x81"
         "f AB\xE3\x81\x82"
         "CDx 's",
         {6, 10, 13, 15, 17, 20, 29, 31, 32}},
        {cti_next_o200k,
         "\xCA\xB0"
         "ABCd \xC7\x85x \xCC\x81"
         "AB e\xCC\x81"
         "f AB\xE3\x81\x82"
         "CDx 's",
         {6, 10, 13, 15, 20, 29, 31, 32}},
        {cti_next_o200k, "1\xCC\x81\x41\x42", {1, 3, 5}},
        {cti_next_gpt2, "zZaA{puzzle@[`]} ", {4, 5, 11, 16, 17}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t size = strlen(cases[i].text);
        size_t at = 0;
        for (int piece = 0; at < size; piece++) {
            at = cases[i].next(cases[i].text, size, at);
            ck_assert_msg(at == cases[i].end[piece], "case %d: piece %d ends at %d", (int)i, piece,
                          (int)at);
        }
    }
}
END_TEST

/* An expression that is known by its text has a function, whose pieces are the matches that the
 * matcher finds for another spelling of the expression. */
START_TEST(known_expressions) {
    const struct {
        const char *expression;
        cti_next_piece *next;
    } cases[] = {
        {cti_gpt2_expression, cti_next_gpt2},
        {cti_llama3_expression, cti_next_llama3},
        {cti_qwen2_expression, cti_next_qwen2},
    };
    static const char *const parts[] = {
        "'s", "'LL",          "'",        "\xC5\xBF",     "a",  "Bc",  " ",
        "  ", "\n",           "\r\n",     "\t",           "12", "3",   "\xC2\xB2",
        "!?", "\xE4\xB8\xAD", "\xCC\x81", "\xE3\x80\x80", "/",  "word"};
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cti_pattern *known = pattern_of(cases[i].expression);
        ck_assert(cti_pattern_pieces(known) == cases[i].next);
        char other[512];
        snprintf(other, sizeof other, "(?:%s)", cases[i].expression);
        const cti_pattern *matched = pattern_of(other);
        ck_assert(matched && !cti_pattern_pieces(matched));
        cti_pattern_memory memory = {0};
        for (int n = 0; n < 3000; n++) {
            char text[128] = "";
            for (int j = 0; j < 10; j++) {
                random = random * 1664525u + 1013904223u;
                strcat(text, parts[(random >> 16) % (sizeof parts / sizeof *parts)]);
            }
            const size_t size = strlen(text);
            cti_extent a = {0}, b;
            while (cti_pattern_find(matched, text, size, a.end, &memory, &a) == CTI_FOUND) {
                ck_assert_int_eq(cti_pattern_find(known, text, size, a.begin, &memory, &b),
                                 CTI_FOUND);
                ck_assert_msg(a.end == b.end, "%s: %s", other, text);
            }
            ck_assert_uint_eq(b.end, size);
        }
        cti_pattern_memory_free(&memory);
    }
}
END_TEST

START_TEST(matches_of_expressions) {
    static const struct {
        const char *expression, *text;
        cti_extent match[MOST_PIECES]; /* without the empty ones; an empty one: no more */
    } cases[] = {
        {"\\s+$", "a \n b  ", {{1, 2}, {5, 7}}},
        {"\\s+(?!\\S)|\\s+", " a   b \n", {{0, 1}, {2, 4}, {4, 5}, {6, 8}}},
        {"[^\\S\\n]+", "a \t\n b", {{1, 3}, {4, 5}}},
        {"[\\p{Han}\\p{Hiragana}\xE3\x83\xBC]+|\\p{Katakana}{2,}",
         "\xE4\xB8\xAD\xE6\x96\x87\xE3\x81\x82\xE3\x83\xBC\xE3\x82\xA2\xE3\x82\xA2"
         "a\xE3\x82\xA2",
         {{0, 12}, {12, 18}}},
        {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
         "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
         "I'LL go 12345 --\n\n  x  ",
         {{0, 1}, {1, 4}, {4, 7}, {7, 8}, {8, 13}, {13, 18}, {18, 19}, {19, 21}, {21, 23}}},
        {"a*", "ba", {{1, 2}}},
        {"a*?b", "aab", {{0, 3}}},
        {"(?:a|ab)(?:b|1)?", "abb", {{0, 2}}},
        {"(a+)*b", "aacaab", {{3, 6}}},
        {"a{2,3}+", "aaaaaaa", {{0, 6}}},
        {"a{2}?b", "aabb", {{0, 3}, {3, 4}}},
        {"a{,2}", "aaab", {{0, 2}, {2, 3}}},
        {"a{2,}?", "aaaa", {{0, 2}, {2, 4}}},
        {"a{x}|a{", "a{x}a{", {{0, 4}, {4, 6}}},
        {"^.*$", "a\nb\n", {{0, 1}, {2, 3}}},
        {".\\Z", "a\nb\n", {{2, 3}}},
        {".\\z|\\A.", "a\nb\n", {{0, 1}}},
        {"\\b\\w+\\b", "ab c-d", {{0, 2}, {3, 4}, {5, 6}}},
        {"\\B.", "ab cd", {{1, 2}, {4, 5}}},
        {"[[:word:]]+|[[:punct:]]",
         "a\xC2\xB2_+\xF0\x9F\x91\x8D",
         {{0, 1}, {3, 4}, {4, 5}, {5, 9}}},
        {"\\w+", "a\xC2\xB2_", {{0, 4}}},
        {"(?:(?!a).)+b?", "xaxb", {{0, 1}, {2, 4}}},
        {"(?m:a.)", "a\na", {{0, 2}}},
        {"(?i)ab|k|s", "ABKs\xE2\x84\xAA\xC5\xBF", {{0, 2}, {2, 3}, {3, 4}, {4, 7}, {7, 9}}},
        {"a(?i)b|1", "aB1A", {{0, 2}}},
        {"(?i:[a-fs]+)", "aFS\xC5\xBFg", {{0, 5}}},
        {"(?i:[\\w&&[^a]]+)", "-Aa-", {{1, 3}}},
        {"(?i:[A-Z&&[^a]]+)", "-Aa-", {{1, 3}}},
        {"(?i:[^[^a]])", "Aa-", {{0}}},
        {"(?i:[a-z&&A-Z])", "aA", {{0}}},
        {"(?i:[^a&&[^b]])", "aAbB", {{2, 3}, {3, 4}}},
        {"(?i:[\xC3\x9F])", "sSs\xC3\x9F\xE1\xBA\x9E", {{0, 2}, {3, 5}, {5, 8}}},
        {"(?i:[^\xC3\x9F]+)", "ss\xC3\x9F\xE1\xBA\x9Es", {{0, 2}, {7, 8}}},
        {"(?i:[\xEF\xAC\x83\xEF\xAC\x80])", "ffi", {{0, 2}}},
        {"(?i:\xC4\xB0|\xC3\x89)", "iI\xCC\x87\xC3\xA9", {{1, 4}, {4, 6}}},
        {"(?i:[[:digit:]\\p{Lu}&&[^\xC3\x84]]+)", "1\xC3\xA4\xC3\x89\xC3\xA9", {{0, 1}, {3, 7}}},
        {"(^)?a", "aa", {{0, 1}, {1, 2}}},
        {"(?:^a|(?i:$))?b", "abb", {{0, 2}, {2, 3}}},
        {"a(?#c\\)d)+b", "aab", {{0, 3}}},
        {"\\p{^L}\\p{L}|\\P{Ll}", "1aAa", {{0, 2}, {2, 3}}},
        {"(?>a+)b|\\S(?=$|\\s)", "aab c", {{0, 3}, {4, 5}}},
        {"[a-z&&[^ab]]+|[\\d&&1-2]", "abcd12", {{2, 4}, {4, 5}, {5, 6}}},
        {"[^a-z&&b-d]", "abc1", {{0, 1}, {3, 4}}},
        {"[]a]+", "a]b", {{0, 2}}},
        {"[a-c-e]+", "abcde-", {{0, 3}, {4, 6}}},
        {"\\x61\\x{31}|\\u0062|\\t", "a1b\t", {{0, 2}, {2, 3}, {3, 4}}},
        {"(?#x)a(?:)b|(?<n>s)+", "abss", {{0, 2}, {2, 4}}},
        {"[\\h]+|\\H", "fg", {{0, 1}, {1, 2}}},
        {"(?:|a)b", "aab", {{1, 3}}},
        {"(?:ab)*|c", "abc", {{0, 2}}},
        {"a++a|b", "aab", {{2, 3}}},
        {".", "a\n\xC2\x85", {{0, 1}, {2, 4}}},
    };
    cti_pattern_memory memory = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cti_pattern *pattern = pattern_of(cases[i].expression);
        ck_assert_msg(pattern, "%s", ct_error_message(opened.context));
        const size_t size = strlen(cases[i].text);
        const cti_extent *wanted = cases[i].match;
        cti_extent found = {0};
        while (cti_pattern_find(pattern, cases[i].text, size, found.end, &memory, &found) ==
               CTI_FOUND) {
            if (found.begin == found.end) continue;
            ck_assert_msg(found.begin == wanted->begin && found.end == wanted->end, "%s: %d to %d",
                          cases[i].expression, (int)found.begin, (int)found.end);
            wanted++;
        }
        ck_assert_msg(wanted->begin == wanted->end, "%s", cases[i].expression);
    }
    cti_pattern_memory_free(&memory);
}
END_TEST

START_TEST(empty_matches_once) {
    const cti_pattern *pattern = pattern_of("a*");
    cti_pattern_memory memory = {0};
    cti_extent found = {0};
    static const cti_extent wanted[] = {{0, 0}, {1, 3}, {4, 4}};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(cti_pattern_find(pattern, "baab", 4, found.end, &memory, &found),
                         CTI_FOUND);
        ck_assert_uint_eq(found.begin, wanted[i].begin);
        ck_assert_uint_eq(found.end, wanted[i].end);
    }
    ck_assert_int_eq(cti_pattern_find(pattern, "baab", 4, 4, &memory, &found), CTI_NOT_FOUND);
    cti_pattern_memory_free(&memory);
}
END_TEST

START_TEST(strings) {
    const cti_pattern *pattern = cti_pattern_new(&opened.reading, 0, cti_text_of("a.b"), true);
    cti_pattern_memory memory = {0};
    cti_extent found;
    ck_assert_int_eq(cti_pattern_find(pattern, "aa.ba.b", 7, 0, &memory, &found), CTI_FOUND);
    ck_assert(found.begin == 1 && found.end == 4);
    ck_assert_int_eq(cti_pattern_find(pattern, "aa.ba.b", 7, 4, &memory, &found), CTI_FOUND);
    ck_assert(found.begin == 4 && found.end == 7);
    ck_assert_int_eq(cti_pattern_find(pattern, "aa.ba.b", 7, 7, &memory, &found), CTI_NOT_FOUND);
    ck_assert_int_eq(cti_pattern_find(pattern, "aXb", 3, 0, &memory, &found), CTI_NOT_FOUND);
}
END_TEST

START_TEST(faults) {
    static const struct {
        const char *expression, *fault;
    } cases[] = {
        {"a(?<=b)", "byte 1: lookbehind"},
        {"(?<!b)", "byte 0: lookbehind"},
        {"a\\1", "byte 2: back-references"},
        {"ab(c", "byte 2: the group has no ')'"},
        {"ab)c", "byte 2: a ')' has no '('"},
        {"a|*", "byte 2: nothing is repeated"},
        {"[a", "byte 2: ']' is missing"},
        {"[]", "byte 2: ']' is missing"},
        {"[z-a]", "byte 1: the range is empty"},
        {"[a-\\d]", "byte 3: a set ends a range"},
        {"[\\d-a]", "byte 3: a set begins a range"},
        {"\\p{Foo}", "byte 3: this property"},
        {"x\\p{L", "byte 4: '}' is missing"},
        {"[[:foo:]]", "byte 1: this property"},
        {"a\\", "byte 2: nothing follows"},
        {"\\xE9", "byte 2: a byte above 0x7F"},
        {"\\x{110000}", "byte 2: no such character"},
        {"\\uD800", "byte 2: no such character"},
        {"\\u12", "byte 4: a hexadecimal digit is missing"},
        {"a\\K", "byte 2: this escape"},
        {"(?s:a)", "byte 0: this group"},
        {"(?P<n>a)", "byte 0: this group"},
        {"(?~a)", "byte 0: this group"},
        {"(*FAIL)", "byte 0: callouts"},
        {"(?=ab)", "byte 0: a lookahead of more than one character"},
        {"(?>a|bc)", "byte 0: this atomic group"},
        {"(?:ab)++", "byte 6: a possessive repeat"},
        {"(?:a*)*", "byte 6: a repeat of an empty match"},
        {"^*", "byte 1: an anchor"},
        {"a{3,2}", "byte 1: the interval is empty"},
        {"a{1001}", "byte 1: more than 1000"},
        {"(?:a{1000}){1000}", "byte 17: the expression is too large"},
        {"a{2}{2}{2}{2}{2}", "byte 13: there are too many quantifiers"},
        {"(?i:ss)", "byte 5: with option i this pair"},
        {"(?i:f(?#c)I)", "byte 10: with option i this pair"},
        {"(?i:i\xCC\x87)", "byte 5: with option i this pair"},
        {"(?:\xC3\xA9|^){1,3}", "byte 8: an anchor"},
        {"(?:\\b)?", "byte 6: an anchor"},
        {"(?:a|(?:b|(?=c)))?", "byte 17: an anchor"},
        {"$(?#c)?", "byte 1: an anchor"},
        {"(?:a?){2}", "byte 6: a repeat of an empty match"},
        {"(^)*", "byte 3: a repeat of an empty match"},
        {"a(?#c", "byte 1: the comment"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(!pattern_of(cases[i].expression));
        ck_assert_int_eq(ct_error(opened.context), CT_ERR_FORMAT);
        const char *message = ct_error_message(opened.context);
        ck_assert_msg(strstr(message, "regex: ") && strstr(message, cases[i].fault), "%s: %s",
                      cases[i].expression, message);
        ct_error_clear(opened.context);
    }
}
END_TEST

START_TEST(deep_expressions) {
    static char deep[20002];
    memset(deep, '(', 10000);
    memset(deep + 10000, ')', 10000);
    ck_assert(!pattern_of(deep));
    ck_assert(strstr(ct_error_message(opened.context), "nested too deeply"));
    ct_error_clear(opened.context);
    memset(deep, '[', 20000);
    ck_assert(!pattern_of(deep));
    ck_assert(strstr(ct_error_message(opened.context), "nested too deeply"));
    ct_error_clear(opened.context);
    for (size_t i = 0; i < 20000; i += 4) memcpy(deep + i, "(?i)", 4);
    ck_assert(!pattern_of(deep));
    ct_error_clear(opened.context);
    for (size_t i = 0; i < 20000; i += 2) memcpy(deep + i, "a|", 2);
    deep[19999] = '\0';
    ck_assert(pattern_of(deep));
}
END_TEST

/* Expressions that take a naive matcher quadratic or exponential time. */
START_TEST(long_texts) {
    static const char *const expressions[] = {
        "\\s+$",        "\\s++$",           "(?:a|ab)*c",     "(a+)*b", "a*a*a*b",
        "(?:aa?){20}b", "a.*b|a|.",         "\\p{L}+\\d",     "x*x*$",  "[^b]*c|a",
        "(?:.+?)z",     "\\s+(?!\\S)|\\s+", "(?:ab)+$|\\p{L}"};
    static const char *const units[] = {"a", "ab", " ", "a ", "\xE4\xB8\xAD", " \n"};
    static char text[LONG_TEXT + 8];
    cti_pattern_memory memory = {0};
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        const cti_pattern *pattern = pattern_of(expressions[i]);
        ck_assert(pattern);
        for (size_t j = 0; j < sizeof units / sizeof *units; j++) {
            size_t size = 0;
            for (const size_t unit = strlen(units[j]); size < LONG_TEXT / 4; size += unit)
                memcpy(text + size, units[j], unit);
            text[size++] = 'x';
            cti_extent found = {0};
            size_t end = 0;
            while (cti_pattern_find(pattern, text, size, found.end, &memory, &found) == CTI_FOUND) {
                ck_assert(found.begin >= end && found.end >= found.begin && found.end <= size);
                end = found.end;
            }
        }
    }
    cti_pattern_memory_free(&memory);
}
END_TEST

START_TEST(kinds_of_patterns) {
    static const struct {
        const char *json;
        bool works;
    } cases[] = {
        {"{\"Regex\": \"a+\"}", true},
        {"{\"String\": \"a+\"}", true},
        {"{\"Regex\": 1}", false},
        {"{\"Glob\": \"a\"}", false},
        {"\"a\"", false},
        {"{\"Regex\": \"a\", \"String\": \"a\"}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_reading r;
        begin_reading(&r, cases[i].json);
        const cti_pattern *pattern;
        ck_assert(cti_pattern_read(&r.reading, 0, &pattern) == cases[i].works);
        ck_assert_int_eq(ct_error(r.context), cases[i].works ? CT_OK : CT_ERR_FORMAT);
        end_reading(&r);
    }
}
END_TEST

START_TEST(alphabet) {
    static const struct {
        unsigned char byte;
        uint32_t c;
    } cases[] = {{0, 0x100}, {' ', 0x120}, {'!', '!'},   {'~', '~'}, {127, 0x121}, {160, 0x142},
                 {161, 161}, {172, 172},   {173, 0x143}, {174, 174}, {255, 255},   {'\n', 0x10A}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(cti_byte_character(cases[i].byte), cases[i].c);
    for (int byte = 0; byte < 256; byte++)
        ck_assert_int_eq(cti_character_byte(cti_byte_character((unsigned char)byte)), byte);
    ck_assert_int_eq(cti_character_byte(' '), -1);
    ck_assert_int_eq(cti_character_byte(173), -1);
    ck_assert_int_eq(cti_character_byte(0x144), -1);
    ck_assert_int_eq(cti_character_byte(0x4E2D), -1);
    char out[8];
    ck_assert_uint_eq(cti_alphabet_to_bytes(cti_text_of("\xC4\xA0h\xC3\xA9"), out), 3);
    ck_assert(memcmp(out, " h\xE9", 3) == 0);
    ck_assert_uint_eq(cti_alphabet_to_bytes(cti_text_of("a b"), out), SIZE_MAX);
}
END_TEST

int main(void) {
    return run_tests("text_pattern", open_null, close_null,
                     TESTS(TEST(known_patterns), TEST(known_expressions),
                           TEST(matches_of_expressions), TEST(empty_matches_once), TEST(strings),
                           TEST(faults), TEST(deep_expressions), TEST(long_texts),
                           TEST(kinds_of_patterns), TEST(alphabet)));
}
