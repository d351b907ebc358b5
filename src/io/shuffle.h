/* The order of what is larger than memory: a permutation that is computed item by item. */
#ifndef CTI_IO_SHUFFLE_H
#define CTI_IO_SHUFFLE_H

#include <stdint.h>

/* Where item i of 0 ... n - 1 goes in the permutation of (seed, epoch); 0 <= i < n. Runs that are
 * resumed rely on it: for the same arguments it returns the same in every version. */
int64_t cti_shuffle(uint64_t seed, uint64_t epoch, int64_t n, int64_t i);

#endif
