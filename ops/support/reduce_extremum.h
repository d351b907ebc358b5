/* What max and min share: the extremum of dims, and its backward. */
#ifndef CTI_OPS_SUPPORT_REDUCE_EXTREMUM_H
#define CTI_OPS_SUPPORT_REDUCE_EXTREMUM_H

#include "reduce.h"

/* Of a call with cti_reduce_attrs, by the kernel f. Of no element: an error. */
ct_tensor *cti_reduce_extremum(ct_call *c, cti_reduce *f);

/* g where x is the result, in equal shares; else 0. */
bool cti_reduce_extremum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad);

#endif
