/* Philox 4x32-10: a block of four 32-bit words is a function of a 128-bit counter and a 64-bit key.
 * Here the key is the seed, and the counter is (block, stream). Salmon, Moraes, Dror, Shaw 2011,
 * "Parallel random numbers: as easy as 1, 2, 3". */
#ifndef CTI_KERNELS_PHILOX_H
#define CTI_KERNELS_PHILOX_H

#include <stdint.h>
#include <string.h>

#include "philox_block.h"

#if defined __AVX512F__ || defined __AVX2__
#include <immintrin.h>
#endif

enum { PHILOX_BLOCKS = 16, PHILOX_WORDS = 4 * PHILOX_BLOCKS };

/* Words of Philox, one block in each 64-bit lane. A word is in the low half of its lane; the high
 * half may hold anything. */
#if CTI_VECTOR_BYTES > 16
typedef uint64_t words __attribute__((vector_size(CTI_VECTOR_BYTES)));
#else
typedef uint64_t words __attribute__((vector_size(16)));
#endif
enum { WORDS = sizeof(words) / 8 };

/* Returns the 64-bit products of the low halves. The instruction is named, because compilers do not
 * find it. */
static inline words philox_multiply(words a, uint32_t b) {
    const words both = (words){0} + b;
#if CTI_VECTOR_BYTES == 64 && defined __AVX512F__
    return (words)_mm512_mul_epu32((__m512i)a, (__m512i)both);
#elif CTI_VECTOR_BYTES == 32 && defined __AVX2__
    return (words)_mm256_mul_epu32((__m256i)a, (__m256i)both);
#else
    return (a & 0xffffffff) * both;
#endif
}

/* Computes PHILOX_BLOCKS blocks, from block `first` on: word w of block first + b goes to
 * word[w][b]. first is a multiple of PHILOX_BLOCKS, so only its low bits differ between these
 * blocks. */
static inline void philox(uint64_t seed, uint64_t stream, uint64_t first,
                          uint32_t word[4][PHILOX_BLOCKS]) {
    for (int at = 0; at < PHILOX_BLOCKS; at += WORDS) {
        words count;
        for (int l = 0; l < WORDS; l++) count[l] = first + (uint64_t)(at + l);
        words c[4] = {count, count >> 32, (words){0} + stream, (words){0} + (stream >> 32)};
        uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < PHILOX_ROUNDS; round++, key0 += PHILOX_W0, key1 += PHILOX_W1) {
            const words p = philox_multiply(c[0], PHILOX_M0), q = philox_multiply(c[2], PHILOX_M1);
            c[0] = (q >> 32) ^ c[1] ^ key0;
            c[1] = q;
            c[2] = (p >> 32) ^ c[3] ^ key1;
            c[3] = p;
        }
        for (int w = 0; w < 4; w++)
            for (int l = 0; l < WORDS; l++) word[w][at + l] = (uint32_t)c[w][l];
    }
}

#endif
