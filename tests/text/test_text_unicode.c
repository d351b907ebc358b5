/* UTF-8 and the properties of characters. The checksums over all characters are from the
 * tokenizers package 0.23.3, which ext/text/make_unicode asks in the same way. Python's properties
 * were compared with Python 3.11's on all characters that it has; the package knows newer ones. */
#include "ext/text/unicode.h"
#include "ext/text/utf8.h"
#include "tests/support/suite.h"

enum { CODES = 0x110000 };

static uint32_t crc_of[256]; /* the CRC of each byte */

static void make_crc_of(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int i = 0; i < 8; i++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        crc_of[byte] = crc;
    }
}

static uint32_t crc_byte(uint32_t crc, unsigned byte) {
    return crc >> 8 ^ crc_of[(crc ^ byte) & 0xFF];
}

static bool is_character(uint32_t c) { return c < 0xD800 || c >= 0xE000; }

typedef bool predicate(uint32_t c);

START_TEST(properties) {
    static const struct {
        const char *name;
        predicate *is;
        int count;
        uint32_t crc;
    } cases[] = {
        {"space", cti_unicode_is_space, 25, 0x3aa0ff18},
        {"word", cti_unicode_is_word, 144671, 0x9a546ccf},
        {"rust space", cti_rust_is_space, 25, 0x3aa0ff18},
        {"rust numeric", cti_rust_is_numeric, 1924, 0xe4b3c19c},
        {"rust word", cti_rust_is_word, 144667, 0x11bf1dca},
        {"bert removed", cti_bert_is_removed, 137681, 0xf56481be},
        {"bert space", cti_bert_is_space, 22, 0xadef5bcc},
        {"bert chinese", cti_bert_is_chinese, 81264, 0x77b2ffbd},
        {"bert punctuation", cti_bert_is_punctuation, 726, 0x177dd1},
        {"accent", cti_unicode_is_accent, 2097, 0x90afcbd5},
        {"bert accent", cti_bert_is_accent, 1567, 0xeed2a11d},
        {"alpha", cti_python_is_alpha, 141028, 0x530a92c0},
        {"decimal", cti_python_is_decimal, 760, 0x3607c4d4},
        {"digit", cti_python_is_digit, 888, 0x89969e40},
        {"numeric", cti_python_is_numeric, 1992, 0xfe7605f7},
        {"python space", cti_python_is_space, 29, 0x57327d3b},
        {"printable", cti_python_is_printable, 154810, 0x9311ca1d},
        {"lower", cti_python_is_lower, 2502, 0x3d27780e},
        {"upper", cti_python_is_upper, 1978, 0x49cac25c},
        {"title", cti_python_is_title, 31, 0xa0b7b16c},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = 0;
        uint32_t crc = UINT32_MAX;
        for (uint32_t c = 0; c < CODES; c++) {
            const bool is = is_character(c) && cases[i].is(c);
            count += is;
            crc = crc_byte(crc, is);
        }
        ck_assert_msg(count == cases[i].count, "%s: %d", cases[i].name, count);
        ck_assert_msg(~crc == cases[i].crc, "%s: %x", cases[i].name, (unsigned)~crc);
    }
}
END_TEST

START_TEST(categories_and_classes) {
    uint32_t categories = UINT32_MAX, classes = UINT32_MAX;
    for (uint32_t c = 0; c < CODES; c++) {
        categories = crc_byte(categories, is_character(c) ? cti_unicode_category(c) : 0);
        classes = crc_byte(classes, is_character(c) ? cti_unicode_class(c) : 0);
    }
    ck_assert_uint_eq(~categories, 0xfb3139b8);
    ck_assert_uint_eq(~classes, 0xcefab67d);
    ck_assert_int_eq(cti_unicode_category('A'), CTI_LU);
    ck_assert_int_eq(cti_unicode_category(0x1F600), CTI_SO);
    ck_assert_int_eq(cti_unicode_category(0x10FFFF), CTI_CN);
    ck_assert_int_eq(cti_unicode_category(0x10FFFD), CTI_CO);
    ck_assert_int_eq(cti_unicode_category(0xE0041), CTI_CF);
}
END_TEST

typedef int mapping(uint32_t c, uint32_t out[CTI_FOLDED]);

START_TEST(mappings) {
    static const struct {
        const char *name;
        mapping *map;
        uint32_t crc;
    } cases[] = {
        {"lower", cti_unicode_lower, 0xa7c3c2a9},
        {"decompose", cti_unicode_decompose, 0x7a9418b9},
        {"upper", cti_unicode_upper, 0x52f9d0c8},
        {"title", cti_unicode_title, 0x93971ac},
        {"full fold", cti_unicode_full_fold, 0x3bbe9c35},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t crc = UINT32_MAX;
        for (uint32_t c = 0; c < CODES; c++) {
            uint32_t out[CTI_FOLDED] = {c};
            const int n = is_character(c) ? cases[i].map(c, out) : 1;
            ck_assert(n >= 1 && n <= CTI_FOLDED);
            for (int j = 0; j < n; j++) {
                for (int shift = 0; shift < 24; shift += 8) {
                    crc = crc_byte(crc, out[j] >> shift & 0xFF);
                }
            }
        }
        ck_assert_msg(~crc == cases[i].crc, "%s: %x", cases[i].name, (unsigned)~crc);
    }
}
END_TEST

START_TEST(decimal_digits) {
    static const struct {
        uint32_t c;
        int is;
    } cases[] = {{'0', 0},   {'9', 9},     {'a', -1},    {0x661, 1},   {0x669, 9},
                 {0xB2, -1}, {0x1D7CE, 0}, {0x1D7E1, 9}, {0x1D7FF, 9}, {0xFF15, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_int_eq(cti_python_decimal(cases[i].c), cases[i].is);
    static const uint32_t ignorable[] = {'\'', 0x300, 0xAD, 0x2B0, '^', 0x387},
                          others[] = {'a', '-', ' ', '5', 0x3A3};
    for (size_t i = 0; i < sizeof ignorable / sizeof *ignorable; i++)
        ck_assert(cti_python_is_case_ignorable(ignorable[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert(!cti_python_is_case_ignorable(others[i]));
}
END_TEST

/* The decomposition of every character that NFC keeps composes to this character. */
START_TEST(compositions) {
    uint32_t crc = UINT32_MAX;
    for (uint32_t c = 0; c < CODES; c++) {
        uint32_t part[CTI_FOLDED] = {c};
        const int n = is_character(c) ? cti_unicode_decompose(c, part) : 1;
        int made = 1;
        for (int j = 1; j < n; j++) {
            const uint32_t composed = made == 1 ? cti_unicode_compose(part[0], part[j]) : 0;
            if (composed) part[0] = composed;
            else part[made++] = part[j];
        }
        for (int j = 0; j < made; j++) {
            for (int shift = 0; shift < 24; shift += 8) {
                crc = crc_byte(crc, part[j] >> shift & 0xFF);
            }
        }
    }
    ck_assert_uint_eq(~crc, 0x78371e92);
    static const uint32_t none[][2] = {{'a', 'b'},       {0x915, 0x93C},   {0x308, 0x301},
                                       {0xAC01, 0x11A8}, {0xAC00, 0x11A7}, {0x1113, 0x1161},
                                       {0x1100, 0x1176}, {0xD7A4, 0x11A8}, {0x1D157, 0x1D165}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        ck_assert_uint_eq(cti_unicode_compose(none[i][0], none[i][1]), 0);
    }
    ck_assert_uint_eq(cti_unicode_compose(0x1100, 0x1161), 0xAC00);
    ck_assert_uint_eq(cti_unicode_compose(0xAC00, 0x11C2), 0xAC1B);
    ck_assert_uint_eq(cti_unicode_compose(0x11099, 0x110BA), 0x1109A);
}
END_TEST

START_TEST(combining_classes) {
    static const struct {
        uint32_t c;
        int is;
    } cases[] = {{'a', 0},       {0x300, 230}, {0x316, 220}, {0x334, 1},  {0x345, 240},
                 {0x5B0, 10},    {0x93C, 7},   {0x94D, 9},   {0x3099, 8}, {0xF71, 129},
                 {0x1D165, 216}, {0x1DFA, 0},  {0x16FF0, 0}, {0xAC00, 0}, {0xE0100, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(cti_unicode_combining_class(cases[i].c), cases[i].is);
    }
}
END_TEST

/* Whether a character is written as it should be, and read again by both readers. */
static bool is_read_back(uint32_t c) {
    char at[5] = "";
    const size_t n = cti_utf8_put(at, c);
    if (n != (c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4)) return false;
    if (cti_utf8_length((unsigned char)at[0]) != n) return false;
    uint32_t read;
    if (!is_character(c)) {
        return cti_utf8_read(at, n, &read) == 1 && read == CTI_REPLACEMENT &&
               cti_utf8_check(at, n) == 0;
    }
    for (size_t cut = 1; cut < n; cut++) {
        if (cti_utf8_read(at, cut, &read) != cut || read != CTI_REPLACEMENT) return false;
        if (cti_utf8_check(at, cut) != 0) return false;
    }
    size_t length;
    return cti_utf8_get(at, &length) == c && length == n && cti_utf8_read(at, n, &read) == n &&
           read == c && cti_utf8_check(at, n) == n;
}

START_TEST(characters_in_utf8) {
    for (uint32_t c = 0; c < CODES; c++) ck_assert_msg(is_read_back(c), "U+%04X", (unsigned)c);
}
END_TEST

/* The lengths of ill-formed parts are those that Python replaces by one U+FFFD each. */
START_TEST(ill_formed) {
    static const struct {
        const char *text;
        size_t part[6];
    } cases[] = {
        {"\x80", {1}},
        {"\xC0\x80", {1, 1}},
        {"\xC1\xBF", {1, 1}},
        {"\xC3(", {1, 1}},
        {"\xE0\x9F\xBF", {1, 1, 1}},
        {"\xE2\x82(", {2, 1}},
        {"\xED\xA0\x80", {1, 1, 1}},
        {"\xEF\xBF", {2}},
        {"\xF0\x8F\xBF\xBF", {1, 1, 1, 1}},
        {"\xF0\x9F\x98(", {3, 1}},
        {"\xF0\x9F(", {2, 1}},
        {"\xF4\x90\x80\x80", {1, 1, 1, 1}},
        {"\xF5\x80\x80\x80", {1, 1, 1, 1}},
        {"\xFF\xFE", {1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = cases[i].text;
        size_t left = strlen(at);
        ck_assert_uint_eq(cti_utf8_check(at, left), 0);
        for (size_t j = 0; left; j++) {
            uint32_t c;
            const size_t n = cti_utf8_read(at, left, &c);
            ck_assert_msg(n == cases[i].part[j], "case %zu, part %zu: %zu", i, j, n);
            ck_assert(c == (n == 1 && *at == '(' ? '(' : CTI_REPLACEMENT));
            at += n;
            left -= n;
        }
    }
}
END_TEST

/* An ill-formed byte is found at any place among ASCII and other characters. A U+FFFD that the text
 * has itself is well-formed. */
START_TEST(check_finds_the_first) {
    for (size_t size = 1; size < 40; size++) {
        char text[48];
        for (size_t at = 0; at < size; at++) {
            memset(text, 'a', size);
            text[at] = '\xFF';
            ck_assert_uint_eq(cti_utf8_check(text, size), at);
            if (at + 3 > size) continue;
            memcpy(text + at, "\xEF\xBF\xBD", 3);
            ck_assert_uint_eq(cti_utf8_check(text, size), size);
            text[size - 1] = '\xC3';
            ck_assert_uint_eq(cti_utf8_check(text, size), at + 3 == size ? at : size - 1);
        }
        memset(text, 'a', size);
        ck_assert_uint_eq(cti_utf8_check(text, size), size);
    }
    ck_assert_uint_eq(cti_utf8_check("", 0), 0);
}
END_TEST

int main(void) {
    make_crc_of();
    return run_tests("text_unicode", NULL, NULL,
                     TESTS(TEST(properties), TEST(categories_and_classes), TEST(mappings),
                           TEST(compositions), TEST(combining_classes), TEST(decimal_digits),
                           TEST(characters_in_utf8), TEST(ill_formed),
                           TEST(check_finds_the_first)));
}
