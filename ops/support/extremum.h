/* The backward that maximum and minimum share. */
#ifndef CTI_OPS_SUPPORT_EXTREMUM_H
#define CTI_OPS_SUPPORT_EXTREMUM_H

#include "op.h"

/* The gradient of in[i] of a call with two inputs that broadcast, f being the kernel for the first:
 * f is symmetric, so the second is the first of the pair turned round. */
bool cti_op_extremum_backward(const ct_call *c, cti_binary_backward *f, int i, ct_tensor *g,
                              ct_tensor **grad);

#endif
