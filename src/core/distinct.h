/* Whether the elements of a strided layout have an address each. */
#ifndef CTI_CORE_DISTINCT_H
#define CTI_CORE_DISTINCT_H

#include <cotangent/types.h>

/* Whether no two indices of the shape have the same offset, the sum of index[d] stride[d]. Exact
 * for every layout whose offsets are below 2^61; beyond that, where no memory is, false. The time
 * is at most that of some 16 additions for each element, and for usual layouts of a few in all. */
bool cti_offsets_are_distinct(const ct_shape *shape, const int64_t *stride);

#endif
