/* The backward of maximum and minimum. */
#ifndef CTI_OPS_SUPPORT_EXTREMUM_H
#define CTI_OPS_SUPPORT_EXTREMUM_H

#include "op.h"

/* Computes the gradients of an op with two inputs that broadcast. f is the kernel for the gradient
 * of the first input; because the op is symmetric, f with the inputs exchanged gives the gradient
 * of the second. */
bool cti_op_extremum_backward(const ct_call *c, cti_binary_backward *f, ct_tensor *g,
                              ct_tensor **grad);

#endif
