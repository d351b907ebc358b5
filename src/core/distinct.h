/* A test whether all elements of a strided layout have different addresses. */
#ifndef CTI_CORE_DISTINCT_H
#define CTI_CORE_DISTINCT_H

#include <cotangent/types.h>

/* Whether no two indices of the shape have the same offset, which is the sum of index[d] stride[d].
 * The answer is exact for every layout whose offsets are below 2^61. For larger offsets, which no
 * memory has, it is false. The time is at most some 16 additions for each element, and for usual
 * layouts a few additions in all. */
bool cti_offsets_are_distinct(const ct_shape *shape, const int64_t *stride);

#endif
