/* Conflict misses: the strides that use few sets of the first-level data cache (L1d).
 *
 * Bits 6 to 11 of an address select its L1d set, if the cache has 64 sets of 64-byte lines, so 4096
 * bytes in each way. Every x86 core with 32 KB in 8 ways or 48 KB in 12 ways has such a cache, and
 * so have most ARM cores. Lines whose distance is a multiple of 4096 bytes compete for one set. If
 * there are more of them than ways they evict each other, even while other sets are empty. So if
 * the rows of a matrix are a power of two bytes apart, a walk along a column has cache misses
 * although the data would fit into the cache many times over. */
#ifndef CTI_CORE_CACHE_SETS_H
#define CTI_CORE_CACHE_SETS_H

#include <stdint.h>

enum { CTI_L1D_WAY = 4096 }; /* the bytes of a way: the number of sets times the bytes of a line */

/* The number of different offsets in a 4096-byte way at which the rows of a matrix begin, if they
 * are `stride` bytes apart. A stride that is an odd multiple of 2^i has 4096 / 2^i offsets. If
 * there are at most 64, each offset has its own set, so n rows put n / offsets lines into each of
 * these sets. With stride 0 all rows are the same row and no misses are conflicts, so the result is
 * the largest number. */
static inline int64_t cti_l1d_offsets(int64_t stride) {
    const int64_t power_of_two =
        stride & -stride; /* the largest power of two that divides the stride, of either sign */
    if (power_of_two == 0) return CTI_L1D_WAY;
    return power_of_two < CTI_L1D_WAY ? CTI_L1D_WAY / power_of_two : 1;
}

#endif
