/* The extremum over dims, for max and min, and its backward. */
#ifndef CTI_OPS_SUPPORT_REDUCE_EXTREMUM_H
#define CTI_OPS_SUPPORT_REDUCE_EXTREMUM_H

#include "reduce.h"

/* Reduces a call with cti_reduce_attrs by the kernel f. Records an error if there is no element to
 * reduce. */
ct_tensor *cti_reduce_extremum(ct_call *c, cti_reduce *f);

/* dx = g / count if x is the result, and 0 otherwise; count is the number of such elements. */
bool cti_reduce_extremum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad);

#endif
