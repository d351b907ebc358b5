/* Reading UTF-8 that may be ill-formed. The two byte ranges that depend on the first byte are those
 * of the Unicode standard's table 3-7: they exclude longer forms than needed, surrogates and
 * numbers above 10FFFF. */
#include "utf8.h"

/* The range of a character's second byte. */
static unsigned char least_second(unsigned char first) {
    return first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
}

static unsigned char most_second(unsigned char first) {
    return first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
}

size_t cti_utf8_read(const char *text, size_t size, uint32_t *c) {
    const unsigned char *b = (const unsigned char *)text;
    const unsigned char first = b[0];
    if (first < 0x80) {
        *c = first;
        return 1;
    }
    *c = CTI_REPLACEMENT;
    if (first < 0xC2 || first > 0xF4) return 1;
    const size_t length = cti_utf8_length(first);
    if (size < 2 || b[1] < least_second(first) || b[1] > most_second(first)) return 1;
    for (size_t i = 2; i < length; i++) {
        if (i == size || !cti_utf8_continues(text[i])) return i;
    }
    size_t same;
    *c = cti_utf8_get(text, &same);
    return length;
}

size_t cti_utf8_ascii(const char *text, size_t size) {
    size_t at = 0;
    uint64_t eight;
    for (; size - at >= sizeof eight; at += sizeof eight) {
        memcpy(&eight, text + at, sizeof eight);
        if (eight & UINT64_C(0x8080808080808080)) break;
    }
    while (at < size && (unsigned char)text[at] < 0x80) at++;
    return at;
}

size_t cti_utf8_check(const char *text, size_t size) {
    for (size_t at = 0;;) {
        at += cti_utf8_ascii(text + at, size - at);
        while (at < size && (unsigned char)text[at] >= 0x80) {
            uint32_t c;
            const size_t length = cti_utf8_read(text + at, size - at, &c);
            if (c == CTI_REPLACEMENT && (length < 3 || memcmp(text + at, "\xEF\xBF\xBD", 3)))
                return at;
            at += length;
        }
        if (at == size) return size;
    }
}
