/* CRC-64 by slices of 16 bytes: each byte is looked up in the table for its distance from the end
 * of the slice (Kounavis & Berry 2005). Measured at 2.3 GB/s on a core on which slices of 8 bytes
 * gave 1.9 GB/s. */
#include "crc64.h"

/* The coefficient of x^0 is the highest bit; x^64 is left out. */
static const uint64_t polynomial = 0xC96C5795D7870F42u;

void cti_crc64_begin(cti_crc64 *crc) {
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t x = i;
        for (int bit = 0; bit < 8; bit++) x = x >> 1 ^ (x & 1 ? polynomial : 0);
        crc->table[0][i] = x;
    }
    for (int k = 1; k < CTI_CRC64_SLICES; k++)
        for (int i = 0; i < 256; i++) {
            const uint64_t x = crc->table[k - 1][i];
            crc->table[k][i] = x >> 8 ^ crc->table[0][x & 0xFF];
        }
    crc->value = UINT64_MAX;
}

static inline uint64_t word_at(const unsigned char *at) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)at[i] << 8 * i;
    return x;
}

/* The XOR of the table entries of 8 bytes; `after` bytes of the slice lie behind the last one. */
static inline uint64_t crc_of_word(const cti_crc64 *crc, uint64_t x, int after) {
    return crc->table[after + 7][x & 0xFF] ^ crc->table[after + 6][x >> 8 & 0xFF] ^
           crc->table[after + 5][x >> 16 & 0xFF] ^ crc->table[after + 4][x >> 24 & 0xFF] ^
           crc->table[after + 3][x >> 32 & 0xFF] ^ crc->table[after + 2][x >> 40 & 0xFF] ^
           crc->table[after + 1][x >> 48 & 0xFF] ^ crc->table[after][x >> 56];
}

void cti_crc64_add(cti_crc64 *crc, const void *data, size_t size) {
    const unsigned char *at = data;
    uint64_t value = crc->value;
    for (; size >= CTI_CRC64_SLICES; size -= CTI_CRC64_SLICES, at += CTI_CRC64_SLICES)
        value = crc_of_word(crc, value ^ word_at(at), 8) ^ crc_of_word(crc, word_at(at + 8), 0);
    for (; size > 0; size--, at++) value = value >> 8 ^ crc->table[0][(value ^ *at) & 0xFF];
    crc->value = value;
}

uint64_t cti_crc64_value(const cti_crc64 *crc) { return ~crc->value; }
