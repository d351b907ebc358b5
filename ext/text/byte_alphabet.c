/* GPT-2's alphabet of bytes. */
#include "byte_alphabet.h"

#include "utf8.h"

enum { FIRST_SHIFTED = 0x100, SHIFTED_BYTES = 68 };

/* The shifted bytes are 0 to 32, 127 to 160 and 173. */
uint32_t cti_byte_character(unsigned char byte) {
    if (byte <= 32) return FIRST_SHIFTED + (uint32_t)byte;
    if (byte >= 127 && byte <= 160) return FIRST_SHIFTED + 33u + (uint32_t)(byte - 127);
    if (byte == 173) return FIRST_SHIFTED + SHIFTED_BYTES - 1u;
    return byte;
}

int cti_character_byte(uint32_t c) {
    if (c < FIRST_SHIFTED) return cti_byte_character((unsigned char)c) == c ? (int)c : -1;
    if (c >= FIRST_SHIFTED + SHIFTED_BYTES) return -1;
    const int shifted = (int)(c - FIRST_SHIFTED);
    return shifted < 33 ? shifted : shifted < SHIFTED_BYTES - 1 ? shifted - 33 + 127 : 173;
}

size_t cti_alphabet_to_bytes(cti_text text, char *out) {
    size_t size = 0;
    for (size_t at = 0, length; at < text.size; at += length) {
        const int byte = cti_character_byte(cti_utf8_get(text.at + at, &length));
        if (byte < 0) return SIZE_MAX;
        out[size++] = (char)byte;
    }
    return size;
}
