/* Conflict misses: which strides use few sets of the first-level data cache (L1d).
 *
 * An address selects its L1d set by its lowest 12 bits: 64 sets of 64-byte lines, 4096 bytes a way,
 * in every x86 core with 32 KB in 8 ways or 48 KB in 12, and in most ARM cores. Lines a multiple of
 * 4096 bytes apart compete for one set and evict each other when there are more of them than ways,
 * however empty the other sets are. So a walk along a column of a matrix whose rows are a power of
 * two bytes apart misses on data that would fit the cache many times. */
#ifndef CTI_CORE_CACHE_SETS_H
#define CTI_CORE_CACHE_SETS_H

#include <stdint.h>

enum { CTI_L1D_WAY = 4096 }; /* bytes: sets times bytes of a line */

/* Rows of a matrix are `stride` bytes apart. At how many different offsets of a 4096-byte way do
 * they begin? A stride that is an odd multiple of 2^i gives 4096 / 2^i offsets. Up to 64, each
 * offset is a set of its own, so n rows put n / offsets lines into each of these sets. Stride 0 is
 * the same row every time: no conflict misses, so the largest number. */
static inline int64_t cti_l1d_offsets(int64_t stride) {
    const int64_t power_of_two =
        stride & -stride; /* the largest that divides it; of a negative stride too */
    if (power_of_two == 0) return CTI_L1D_WAY;
    return power_of_two < CTI_L1D_WAY ? CTI_L1D_WAY / power_of_two : 1;
}

#endif
