/* The backward that maximum and minimum share. */
#ifndef CTI_OPS_SUPPORT_EXTREMUM_H
#define CTI_OPS_SUPPORT_EXTREMUM_H

#include "op.h"

/* The gradient of in[i] of an op with two inputs that broadcast. f is the kernel for the gradient
 * of the first input; as the op is symmetric, that of the second is f with the inputs exchanged. */
bool cti_op_extremum_backward(const ct_call *c, cti_binary_backward *f, int i, ct_tensor *g,
                              ct_tensor **grad);

#endif
