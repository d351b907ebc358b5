/* The backward that maximum and minimum share. */
#ifndef CT_OPS_EXTREMUM_H
#define CT_OPS_EXTREMUM_H

#include "op.h"

/* The gradient of in[i] of a call with two inputs that broadcast, f being the kernel for the first: f is symmetric, so the
 * second is the first of the pair turned round. */
bool op_extremum_backward(const ct_call *c, ct_zip_backward *f, int i, ct_tensor *g, ct_tensor **grad);

#endif
