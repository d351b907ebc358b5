/* GPT-2's alphabet of bytes: a printable character for each byte, so that any bytes can be written
 * as text. Bytes 33 to 126, 161 to 172 and 174 to 255 are the characters of these numbers; the
 * other 68 bytes are U+0100 to U+0143 in order. */
#ifndef CTI_TEXT_BYTE_ALPHABET_H
#define CTI_TEXT_BYTE_ALPHABET_H

#include "../../src/io/json.h"

uint32_t cti_byte_character(unsigned char byte); /* the character of a byte */
int cti_character_byte(uint32_t c);              /* the byte of a character; -1 if it has none */
/* Writes the bytes that a text in the alphabet stands for, at most text.size, into out. Returns
 * their number, or SIZE_MAX if a character is not in the alphabet. */
size_t cti_alphabet_to_bytes(cti_text text, char *out);

#endif
