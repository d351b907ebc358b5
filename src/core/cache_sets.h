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

/* How many different offsets in a way the rows of a matrix begin at, rows being `stride` bytes
 * apart: an odd multiple of 2^i gives 4096 / 2^i. Up to 64 this is the number of sets that first
 * elements of rows fall into: n rows put n / that many lines in each. Stride 0 is one row again and
 * again, which conflicts with nothing. */
static inline int64_t cti_l1d_offsets(int64_t stride) {
    const int64_t power_of_two =
        stride & -stride; /* the largest that divides it; of a negative stride too */
    if (power_of_two == 0) return CTI_L1D_WAY;
    return power_of_two < CTI_L1D_WAY ? CTI_L1D_WAY / power_of_two : 1;
}

#endif
