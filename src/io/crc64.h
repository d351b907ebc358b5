/* The CRC-64 of xz: its polynomial is the one of ECMA-182, bits are reflected, and the initial
 * value and the final XOR are all ones. It detects every single flipped bit and every burst of
 * errors of up to 64 bits. */
#ifndef CTI_IO_CRC64_H
#define CTI_IO_CRC64_H

#include <stddef.h>
#include <stdint.h>

enum { CTI_CRC64_SLICES = 16 };
typedef struct cti_crc64 {
    uint64_t value; /* the CRC of the bytes so far, before the final XOR */
    /* table[k][b]: the CRC of byte b with k zero bytes behind it, from an initial value of 0 */
    uint64_t table[CTI_CRC64_SLICES][256];
} cti_crc64;

void cti_crc64_begin(cti_crc64 *crc);
void cti_crc64_add(cti_crc64 *crc, const void *data, size_t size);
uint64_t cti_crc64_value(const cti_crc64 *crc);

#endif
