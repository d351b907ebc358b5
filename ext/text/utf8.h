/* UTF-8 of characters, which are code points without surrogates. */
#ifndef CTI_TEXT_UTF8_H
#define CTI_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CTI_REPLACEMENT = 0xFFFD }; /* U+FFFD, which stands for an ill-formed part of a text */

/* The number of bytes of a character that is well-formed, from its first byte. */
static inline size_t cti_utf8_length(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* Whether a byte is one of a character's later bytes. */
static inline bool cti_utf8_continues(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* Reads the character at `at`, which is well-formed, and sets *length to its number of bytes. */
static inline uint32_t cti_utf8_get(const char *at, size_t *length) {
    const unsigned char *b = (const unsigned char *)at;
    *length = cti_utf8_length(b[0]);
    switch (*length) {
    case 1: return b[0];
    case 2: return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    case 3: return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    default:
        return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
    }
}

/* Writes a character, at most 4 bytes. Returns their number. */
static inline size_t cti_utf8_put(char *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[length] | c);
    return length;
}

/* Reads any bytes: sets *c to the first character of text, which has size > 0 bytes, or to U+FFFD
 * if the text begins with an ill-formed part. Returns the number of bytes of the character or of
 * the part. A part is the longest prefix of a character that the text has there, or one byte, as in
 * Python's errors="replace" and the Unicode standard's "maximal subpart". */
size_t cti_utf8_read(const char *text, size_t size, uint32_t *c);

/* The index of the first byte that is not ASCII; size if there is none. */
size_t cti_utf8_ascii(const char *text, size_t size);

/* The index of the first byte of the first ill-formed part; size if there is none. */
size_t cti_utf8_check(const char *text, size_t size);

#endif
