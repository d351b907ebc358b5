/* CRC-64 of ECMA-182, reflected, from and with all ones (the one of xz): it finds every flipped bit
 * and every burst of up to 64 bits. */
#ifndef CTI_IO_CRC64_H
#define CTI_IO_CRC64_H

#include <stddef.h>
#include <stdint.h>

enum { CTI_CRC64_SLICES = 16 };
typedef struct cti_crc64 {
    uint64_t value; /* of the bytes so far, without the last inversion */
    uint64_t table[CTI_CRC64_SLICES][256];
} cti_crc64;

void cti_crc64_begin(cti_crc64 *crc);
void cti_crc64_add(cti_crc64 *crc, const void *data, size_t size);
uint64_t cti_crc64_value(const cti_crc64 *crc);

#endif
