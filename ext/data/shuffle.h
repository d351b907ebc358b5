/* A pseudo-random permutation that is computed item by item, so it takes no memory. It shuffles
 * data that are larger than memory. */
#ifndef CTI_EXT_DATA_SHUFFLE_H
#define CTI_EXT_DATA_SHUFFLE_H

#include <stdint.h>

/* The image of i under the permutation of 0 ... n - 1 that (seed, epoch) selects; 0 <= i < n. The
 * result for given arguments is the same in every version of the library, because resumed runs
 * rely on it. */
int64_t cti_index_shuffle(uint64_t seed, uint64_t epoch, int64_t n, int64_t i);

#endif
