/* The splitters of the best-known models: the functions that find the next match of their regular
 * expressions, whose matches cover every text.
 *
 * A function reads the class of the first characters, which decides the alternative, and then the
 * end of a run of one class. ASCII characters have their class in a table. Only runs of white space
 * are read twice: \s+(?!\S) gives back the last character of a run that is followed by something.
 * So the time is linear. */
#include "pattern.h"
#include "unicode.h"
#include "utf8.h"

const char cti_gpt2_expression[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char cti_llama3_expression[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char cti_qwen2_expression[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* The class of a byte below 0x80, in the values of cti_class; WIDE for the first byte of a longer
 * character. */
enum { WIDE = 4 };
#define LETTERS_26 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
#define WIDE_32                                                                                    \
    WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE,      \
        WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE,  \
        WIDE, WIDE
static const unsigned char byte_class[256] = {
    0,       0,          0,       0,      0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0, /* \t \n \v \f \r */
    0,       0,          0,       0,      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* */
    3,       0,          0,       0,      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* space to / */
    2,       2,          2,       2,      2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, /* digits to ? */
    0,       LETTERS_26, 0,       0,      0, 0, 0,                            /* @ to _ */
    0,       LETTERS_26, 0,       0,      0, 0, 0,                            /* ` to DEL */
    WIDE_32, WIDE_32,    WIDE_32, WIDE_32};
_Static_assert(CTI_OTHER == 0 && CTI_LETTER == 1 && CTI_NUMBER == 2 && CTI_SPACE == 3,
               "byte_class has the values of cti_class");

/* The class of the character at `at`, and its number of bytes. */
static inline cti_class class_at(const char *text, size_t at, size_t *length) {
    const unsigned char byte_kind = byte_class[(unsigned char)text[at]];
    *length = 1;
    if (byte_kind != WIDE) return (cti_class)byte_kind;
    return cti_unicode_class(cti_utf8_get(text + at, length));
}

/* The end of the run of characters of a class that begins at `at`, which may be empty. */
static inline size_t run_end(const char *text, size_t size, size_t at, cti_class class) {
    while (at < size) {
        const unsigned char byte_kind = byte_class[(unsigned char)text[at]];
        size_t length = 1;
        if (byte_kind != class) {
            if (byte_kind != WIDE) break;
            if (cti_unicode_class(cti_utf8_get(text + at, &length)) != class) break;
        }
        at += length;
    }
    return at;
}

/* Eight bytes as a number, the first byte in the lowest bits. */
static inline uint64_t eight_bytes(const char *text) {
    uint64_t bytes = 0;
    for (int i = 0; i < 8; i++) bytes |= (uint64_t)(unsigned char)text[i] << (8 * i);
    return bytes;
}

/* The end of the run of letters that begins at `at`. Words of ASCII letters are read eight bytes at
 * a time: bit 7 of each byte of `others` tells that the byte is no letter. */
static inline size_t letters_end(const char *text, size_t size, size_t at) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    while (size - at >= 8) {
        const uint64_t bytes = eight_bytes(text + at), lower = (bytes | ones << 5) & ~tops;
        const uint64_t others =
            (bytes | ~(lower + ones * (0x80 - 'a')) | (lower + ones * (0x7F - 'z'))) & tops;
        if (others) {
            at += (size_t)__builtin_ctzll(others) / 8;
            return byte_class[(unsigned char)text[at]] == WIDE ? run_end(text, size, at, CTI_LETTER)
                                                               : at;
        }
        at += 8;
    }
    return run_end(text, size, at, CTI_LETTER);
}

/* \s+(?!\S)|\s+ */
static size_t space_end(const char *text, size_t size, size_t at) {
    const size_t end = run_end(text, size, at, CTI_SPACE);
    if (end == size) return end;
    size_t last = end - 1;
    while (cti_utf8_continues(text[last])) last--;
    return last > at ? last : end;
}

/* The number of bytes of 's, 't, 're, 've, 'm, 'll, 'd at text + at, which is an apostrophe; 0 if
 * there is none. */
static inline size_t contraction(const char *text, size_t size, size_t at) {
    if (size - at < 2) return 0;
    const char a = text[at + 1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (size - at < 3) return 0;
    const char b = text[at + 2];
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

/* The same for letters of both cases. U+017F, the long s, is an s of another case. */
static inline size_t any_case_contraction(const char *text, size_t size, size_t at) {
    if (size - at < 2) return 0;
    const char a = (char)(text[at + 1] | 0x20);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (size - at < 3) return 0;
    if (text[at + 1] == '\xC5' && text[at + 2] == '\xBF') return 3;
    const char b = (char)(text[at + 2] | 0x20);
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

size_t cti_next_gpt2(const char *text, size_t size, size_t at) {
    if (text[at] == '\'') {
        const size_t length = contraction(text, size, at);
        if (length) return at + length;
    }
    size_t begin = at, length;
    if (text[at] == ' ' && size - at > 1) begin++;
    const cti_class class = class_at(text, begin, &length);
    if (class == CTI_LETTER) return letters_end(text, size, begin + length);
    return class == CTI_SPACE ? space_end(text, size, at)
                              : run_end(text, size, begin + length, class);
}

static inline bool is_newline(char byte) { return byte == '\n' || byte == '\r'; }

/* \s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t lines_end(const char *text, size_t size, size_t at) {
    size_t end = run_end(text, size, at, CTI_SPACE);
    while (end > at && !is_newline(text[end - 1])) end--;
    return end > at ? end : space_end(text, size, at);
}

/* The end of [^\s\p{L}\p{N}]+[\r\n]*, of which the first character ends at `at`; with `slash`
 * [\r\n/]*. */
static size_t symbols_end(const char *text, size_t size, size_t at, bool slash) {
    at = run_end(text, size, at, CTI_OTHER);
    while (at < size && (is_newline(text[at]) || (slash && text[at] == '/'))) at++;
    return at;
}

/* The end of \p{N}{1,most}, of which the first character ends at `at`. */
static size_t digits_end(const char *text, size_t size, size_t at, int most) {
    size_t length;
    for (int i = 1; i < most && at < size; i++, at += length)
        if (class_at(text, at, &length) != CTI_NUMBER) break;
    return at;
}

/* Llama 3's and Qwen2's expressions differ in the longest number. */
static inline size_t next_llama(const char *text, size_t size, size_t at, int most) {
    const char first = text[at];
    if (first == '\'') {
        const size_t length = any_case_contraction(text, size, at);
        if (length) return at + length;
    }
    size_t length;
    const cti_class class = class_at(text, at, &length);
    const size_t next = at + length;
    if (class == CTI_LETTER) return letters_end(text, size, next);
    if (class == CTI_NUMBER) return digits_end(text, size, next, most);
    if (next < size && !is_newline(first)) {
        size_t behind;
        const cti_class second = class_at(text, next, &behind);
        if (second == CTI_LETTER) return letters_end(text, size, next + behind);
        if (first == ' ' && second == CTI_OTHER)
            return symbols_end(text, size, next + behind, false);
    }
    return class == CTI_OTHER ? symbols_end(text, size, next, false) : lines_end(text, size, at);
}

size_t cti_next_llama3(const char *text, size_t size, size_t at) {
    return next_llama(text, size, at, 3);
}

size_t cti_next_qwen2(const char *text, size_t size, size_t at) {
    return next_llama(text, size, at, 1);
}

/* The sets of o200k's expression: U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L =
 * [\p{Ll}\p{Lm}\p{Lo}\p{M}]. */
#define IN_BOTH  (CTI_IN(CTI_LM) | CTI_IN(CTI_LO) | CTI_MARKS)
#define IN_UPPER (CTI_IN(CTI_LU) | CTI_IN(CTI_LT) | IN_BOTH)
#define IN_LOWER (CTI_IN(CTI_LL) | IN_BOTH)

/* The mask of the category of the character at `at`, and the number of its bytes. */
static inline uint32_t category_at(const char *text, size_t at, size_t *length) {
    const char c = text[at];
    *length = 1;
    if (c >= 'a' && c <= 'z') return CTI_IN(CTI_LL);
    if (c >= 'A' && c <= 'Z') return CTI_IN(CTI_LU);
    return CTI_IN(cti_unicode_category(cti_utf8_get(text + at, length)));
}

static size_t category_run_end(const char *text, size_t size, size_t at, uint32_t set) {
    size_t length;
    for (; at < size; at += length)
        if (!(category_at(text, at, &length) & set)) break;
    return at;
}

/* The end of U*L+ at `at`; 0 if it does not match. If no L follows the longest U*, then U* gives
 * back characters up to the last one that is in L too. *upper_end is the end of U*. */
static size_t mixed_word_end(const char *text, size_t size, size_t at, size_t *upper_end) {
    size_t length, both_end = 0;
    for (; at < size; at += length) {
        const uint32_t category = category_at(text, at, &length);
        if (!(category & IN_UPPER)) break;
        if (category & IN_BOTH) both_end = at + length;
    }
    *upper_end = at;
    const size_t end = category_run_end(text, size, at, IN_LOWER);
    return end > at ? end : both_end;
}

/* The end of o200k's first two alternatives without the contraction; 0 if neither matches. */
static size_t o200k_word_end(const char *text, size_t size, size_t at) {
    size_t length, upper_end = at;
    const uint32_t category = category_at(text, at, &length);
    const bool may_prefix = !(category & (CTI_LETTERS | CTI_NUMBERS)) && !is_newline(text[at]);
    const size_t begin = may_prefix ? at + length : at;
    size_t end = mixed_word_end(text, size, begin, &upper_end);
    if (end) return end;
    /* A mark is both a prefix and in L. */
    if (may_prefix && category & CTI_MARKS) return mixed_word_end(text, size, at, &length);
    return upper_end > begin ? upper_end : 0;
}

size_t cti_next_o200k(const char *text, size_t size, size_t at) {
    size_t end = o200k_word_end(text, size, at), length;
    if (end) {
        if (end < size && text[end] == '\'') end += any_case_contraction(text, size, end);
        return end;
    }
    const cti_class class = class_at(text, at, &length);
    const size_t next = at + length;
    if (class == CTI_NUMBER) return digits_end(text, size, next, 3);
    if (class == CTI_OTHER) return symbols_end(text, size, next, true);
    if (text[at] == ' ' && next < size && class_at(text, next, &length) == CTI_OTHER)
        return symbols_end(text, size, next + length, true);
    return lines_end(text, size, at);
}
