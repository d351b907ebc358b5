/* Literals: integers and reals with '_' between digits, and strings with Python's escapes. */
#include "literal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../src/io/json.h"
#include "../utf8.h"

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* ---- numbers ---- */

/* Behind the digits of a base that begin at `at`, each of which may have a '_' before it; with
 * `first`, not the first. */
static size_t pass_digits(const cti_jinja_lexer *lexer, size_t at, int base, bool first) {
    for (;;) {
        const size_t digit = at + (!first && at < lexer->size && lexer->text[at] == '_');
        if (digit >= lexer->size || digit_of(lexer->text[digit]) >= base) return at;
        at = digit + 1;
        first = false;
    }
}

/* The end of a real number at `at`; 0 if there is none. */
static size_t real_end(const cti_jinja_lexer *lexer, size_t at) {
    if (at && lexer->text[at - 1] == '.') return 0;
    size_t end = pass_digits(lexer, at, 10, true);
    bool real = false;
    if (end < lexer->size && lexer->text[end] == '.') {
        const size_t fraction = pass_digits(lexer, end + 1, 10, true);
        real = fraction > end + 1;
        if (real) end = fraction;
    }
    if (end < lexer->size && (lexer->text[end] | 0x20) == 'e') {
        size_t digits = end + 1;
        digits +=
            digits < lexer->size && (lexer->text[digits] == '+' || lexer->text[digits] == '-');
        const size_t exponent = pass_digits(lexer, digits, 10, true);
        if (exponent > digits) return exponent;
    }
    return real ? end : 0;
}

static bool lex_real(cti_jinja_lexer *lexer, cti_jinja_word *word, size_t end) {
    char *digits = cti_arena_take(lexer->arena, end - lexer->at + 1, 1);
    if (!digits) return cti_jinja_lex_no_memory(lexer);
    size_t size = 0;
    for (size_t i = lexer->at; i < end; i++)
        if (lexer->text[i] != '_') digits[size++] = lexer->text[i];
    digits[size] = 0;
    word->kind = CTI_JINJA_REAL_WORD;
    word->real = cti_real_read((cti_text){digits, size});
    lexer->at = end;
    return true;
}

bool cti_jinja_lex_number(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    const size_t begin = lexer->at, real = real_end(lexer, begin);
    if (real) return lex_real(lexer, word, real);
    int base = 10;
    size_t digits = begin, end;
    if (lexer->text[begin] == '0' && begin + 1 < lexer->size) {
        const char letter = lexer->text[begin + 1] | 0x20;
        const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (named && pass_digits(lexer, begin + 2, named, false) > begin + 2)
            base = named, digits += 2;
    }
    if (base == 10 && lexer->text[begin] == '0') end = pass_digits(lexer, begin, 1, true);
    else end = pass_digits(lexer, digits, base, base == 10);
    int64_t number = 0;
    for (size_t i = digits; i < end; i++)
        if (lexer->text[i] != '_' &&
            (__builtin_mul_overflow(number, base, &number) ||
             __builtin_add_overflow(number, digit_of(lexer->text[i]), &number)))
            return cti_jinja_lex_fail(lexer, begin, "integers beyond 64 bits are not run");
    word->kind = CTI_JINJA_INTEGER_WORD;
    word->integer = number;
    lexer->at = end;
    return true;
}

/* ---- strings ---- */

/* Reads `count` hexadecimal digits. */
static bool read_hex(const char *at, const char *end, int count, uint32_t *c) {
    *c = 0;
    for (int i = 0; i < count; i++) {
        if (at + i >= end || digit_of(at[i]) > 15) return false;
        *c = *c * 16 + (uint32_t)digit_of(at[i]);
    }
    return true;
}

/* An escape of a character by its number, at the letter behind the backslash. Sets *c and returns
 * the number of bytes; 0 after an error. */
static size_t literal_numbered(cti_jinja_lexer *lexer, const char *at, const char *end,
                               uint32_t *c) {
    size_t size = 0;
    if (*at >= '0' && *at <= '7') {
        for (*c = 0; size < 3 && at + size < end && at[size] >= '0' && at[size] <= '7'; size++)
            *c = *c * 8 + (uint32_t)digit_of(at[size]);
        return size;
    }
    const int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : 8;
    const size_t where = (size_t)(at - lexer->text);
    if (!read_hex(at + 1, end, digits, c))
        return cti_jinja_lex_fail(lexer, where, "truncated \\%c%s escape", *at,
                                  digits == 2   ? "XX"
                                  : digits == 4 ? "XXXX"
                                                : "XXXXXXXX");
    if (*c > 0x10FFFF) return cti_jinja_lex_fail(lexer, where, "illegal Unicode character");
    if (*c >= 0xD800 && *c <= 0xDFFF)
        return cti_jinja_lex_fail(lexer, where, "half of a surrogate pair is not run");
    return 1 + (size_t)digits;
}

/* Writes what the escape at `at`, behind its backslash, stands for. Returns the number of bytes of
 * the escape without the backslash. */
static size_t read_escape(cti_jinja_lexer *lexer, const char *at, const char *end, char *out,
                          size_t *size) {
    static const char letters[] = "abfnrtv\\'\"", controls[] = "\a\b\f\n\r\t\v\\'\"";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    uint32_t c;
    size_t length;
    if (letter) {
        out[(*size)++] = controls[letter - letters];
        return 1;
    }
    if (*at == '\n') return 1;
    if (*at == 'N') {
        cti_jinja_lex_fail(lexer, (size_t)(at - lexer->text), "names of characters are not run");
        return 0;
    }
    if ((*at >= '0' && *at <= '7') || *at == 'x' || *at == 'u' || *at == 'U') {
        length = literal_numbered(lexer, at, end, &c);
        if (length) *size += cti_utf8_put(out + *size, c);
        return length;
    }
    out[(*size)++] = '\\';
    if ((unsigned char)*at < 0x80) return 0; /* an unknown escape stays as it is */
    c = cti_utf8_get(at,
                     &length); /* jinja2 escapes what is not ASCII before it looks for escapes */
    const char *format = c < 0x100 ? "x%02x" : c < 0x10000 ? "u%04x" : "U%08x";
    char spelled[16];
    const int written = snprintf(spelled, sizeof spelled, format, (unsigned)c);
    memcpy(out + *size, spelled, (size_t)written);
    *size += (size_t)written;
    return length;
}

bool cti_jinja_lex_string(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    const char *begin = lexer->text + lexer->at + 1, *stop = lexer->text + lexer->size,
               *end = begin;
    const char quote = begin[-1];
    bool escapes = false;
    while (end < stop && *end != quote) {
        escapes |= *end == '\\';
        end += *end == '\\' ? 2 : 1;
    }
    if (end >= stop)
        return cti_jinja_lex_fail(lexer, lexer->at, "unexpected char '%c' at %zu", quote,
                                  lexer->at);
    word->kind = CTI_JINJA_STRING_WORD;
    word->text = (cti_text){begin, (size_t)(end - begin)};
    if (escapes) {
        /* A backslash and a character of 4 bytes become 10 bytes; nothing grows more. */
        char *out = cti_arena_take(lexer->arena, word->text.size, 3);
        size_t size = 0;
        if (!out) return cti_jinja_lex_no_memory(lexer);
        for (const char *at = begin; at < end && !lexer->failed;) {
            if (*at != '\\') out[size++] = *at++;
            else at += 1 + read_escape(lexer, at + 1, end, out, &size);
        }
        word->text = (cti_text){out, size};
    }
    lexer->at = (size_t)(end + 1 - lexer->text);
    return !lexer->failed;
}
