/* One block of Philox 4x32-10, for callers that need a few numbers at scattered counters. philox.h
 * computes 16 consecutive blocks on vectors. */
#ifndef CTI_KERNELS_PHILOX_BLOCK_H
#define CTI_KERNELS_PHILOX_BLOCK_H

#include <stdint.h>

/* The multipliers, and the numbers that are added to the halves of the key after each round. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

enum { PHILOX_ROUNDS = 10 };

/* Replaces the counter by its block. */
static inline void philox_block(uint64_t key, uint32_t c[4]) {
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p = (uint64_t)c[0] * PHILOX_M0, q = (uint64_t)c[2] * PHILOX_M1;
        c[0] = (uint32_t)(q >> 32) ^ c[1] ^ key0;
        c[1] = (uint32_t)q;
        c[2] = (uint32_t)(p >> 32) ^ c[3] ^ key1;
        c[3] = (uint32_t)p;
        key0 += PHILOX_W0;
        key1 += PHILOX_W1;
    }
}

#endif
