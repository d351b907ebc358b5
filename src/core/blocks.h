/* GGML's blocks, as they lie in GGUF files: a block has a scale and the codes of 32 or 256
 * consecutive elements of a row.
 *
 *     type   elements  bytes in order                       element with code q
 *     Q4_0      32     d[2] code[16]                        (q - 8) d
 *     Q4_1      32     d[2] m[2] code[16]                   q d + m
 *     Q5_0      32     d[2] high[4] code[16]                (q - 16) d
 *     Q5_1      32     d[2] m[2] high[4] code[16]           q d + m
 *     Q8_0      32     d[2] code[32]                        q d
 *     Q4_K     256     d[2] dmin[2] scale[12] code[128]     (d s) q - dmin m    s, m: 6 bits for
 *     Q5_K     256     d[2] dmin[2] scale[12] high[32] code[128]   the same     each 32 elements
 *     Q6_K     256     low[128] high[64] scale[16] d[2]     (d s) (q - 32)      s: 8 bits, for 16
 *
 * d, m and dmin are little-endian binary16, and the codes of Q8_0 and the scales of Q6_K are signed
 * bytes. The arithmetic is that of f32, in the order of this table. So a value has the bits that
 * ggml computes, and only the last sum of Q4_1, Q5_1, Q4_K and Q5_K is rounded. */
#ifndef CTI_CORE_BLOCKS_H
#define CTI_CORE_BLOCKS_H

#include <stdint.h>

typedef enum {
    CTI_BLOCK_Q4_0,
    CTI_BLOCK_Q4_1,
    CTI_BLOCK_Q5_0,
    CTI_BLOCK_Q5_1,
    CTI_BLOCK_Q8_0,
    CTI_BLOCK_Q4_K,
    CTI_BLOCK_Q5_K,
    CTI_BLOCK_Q6_K,
    CTI_BLOCKS
} cti_block;

enum { CTI_BLOCK_LARGEST = 256, CTI_BLOCK_LARGEST_BYTES = 210 }; /* of all types */

int cti_block_elements(cti_block type);
int cti_block_bytes(cti_block type);

/* Writes the values of n blocks to out, cti_block_elements(type) for each. Neither array need be
 * aligned beyond its own elements. */
void cti_blocks_widen(cti_block type, const unsigned char *blocks, float *out, int64_t n);

/* Rounds values to n blocks of Q8_0 or Q4_0, with the bytes of ggml's reference:
 *
 *     Q8_0    d = max |x| / 127                q = x (1 / d) to nearest, halves away from zero
 *     Q4_0    d = (the largest x) / -8         q = x (1 / d) + 8.5, cut to an integer of 0 to 15
 *
 * The largest x of Q4_0 is the one of the largest magnitude, with its sign; of several the first.
 * The codes are of the d that has not been rounded to binary16 yet. A block with an infinity or NaN
 * has NaN for each element. Where 1 / d overflows, d is 0 in binary16 and a code that would be
 * infinite is 0, as ggml's is on x86. */
void cti_blocks_round(cti_block type, const float *in, unsigned char *blocks, int64_t n);

#endif
