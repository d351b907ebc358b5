/* Philox 4x32-10: a block of four 32-bit words is a function of a 128-bit counter and a 64-bit key. Here the key is the seed, and the
 * counter is (block, stream). Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3". */
#ifndef CT_PHILOX_H
#define CT_PHILOX_H

#include <stdint.h>

enum { PHILOX_BLOCKS = 16, PHILOX_WORDS = 4 * PHILOX_BLOCKS };

/* The words of PHILOX_BLOCKS blocks from block first on: word w of block b at [w][b]. The blocks stand side by side, so the compiler
 * makes vectors of the loop over b. */
static inline void philox(uint64_t seed, uint64_t stream, uint64_t first, uint32_t word[4][PHILOX_BLOCKS]) {
    const uint32_t stream_low = (uint32_t)stream, stream_high = (uint32_t)(stream >> 32);
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        word[0][b] = (uint32_t)first + (uint32_t)b;   /* first is a multiple of PHILOX_BLOCKS: nothing carries */
        word[1][b] = (uint32_t)(first >> 32);
        word[2][b] = stream_low;
        word[3][b] = stream_high;
    }
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9, key1 += 0xBB67AE85)
        for (int b = 0; b < PHILOX_BLOCKS; b++) {
            const uint64_t p = (uint64_t)0xD2511F53 * word[0][b], q = (uint64_t)0xCD9E8D57 * word[2][b];
            word[0][b] = (uint32_t)(q >> 32) ^ word[1][b] ^ key0;
            word[1][b] = (uint32_t)q;
            word[2][b] = (uint32_t)(p >> 32) ^ word[3][b] ^ key1;
            word[3][b] = (uint32_t)p;
        }
}

#endif
