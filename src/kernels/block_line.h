/* A line of blocks: a row of a tensor of CT_Q8_0 or CT_Q4_0. It has `length` elements, a multiple
 * of 32, and lies in memory as all its codes and then all its scales:
 *
 *     Q8_0   code[length]      scale[length / 32]     element i is code[i] scale[i / 32]
 *     Q4_0   code[length / 2]  scale[length / 32]     the same, with (code - 8)
 *
 * A code of Q8_0 is a signed byte. A byte of Q4_0 has two codes, as in GGML's blocks: in the 16
 * bytes of a block the lower halves are elements 0 to 15, the upper halves 16 to 31. A scale is a
 * binary16 in the machine's byte order. A code has at most 8 bits and a scale 11, so f32 has each
 * element exactly.
 *
 * GGML has a block's scale before its codes, which makes blocks of 34 or 18 bytes. Apart from the
 * scales, codes are vectors that seldom cross a cache line: a Xeon reads 14.9 to 15.9 GB/s, and 8.4
 * to 8.8 of blocks of 34 bytes. */
#ifndef CTI_KERNELS_BLOCK_LINE_H
#define CTI_KERNELS_BLOCK_LINE_H

#include <stdint.h>

enum { CTI_BLOCK_LENGTH = 32 }; /* the elements that share a scale */

static inline int64_t cti_line_codes(int bits, int64_t length) { return length / 8 * bits; }
static inline int64_t cti_line_bytes(int bits, int64_t length) {
    return cti_line_codes(bits, length) + length / CTI_BLOCK_LENGTH * (int64_t)sizeof(uint16_t);
}

#endif
