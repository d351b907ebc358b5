/* Check and backward of layer_norm and rms_norm. */
#ifndef CTI_OPS_SUPPORT_NORM_H
#define CTI_OPS_SUPPORT_NORM_H

#include "op.h"

/* Returns whether in[0] has a last dim D and in[1], in[2], ... are NULL or (D), all of one real
 * dtype. If not, records the error. */
bool cti_op_norm_check(const ct_call *c);

/* Computes the gradients of x, the weight and the bias from w, the factors of xhat (NULL: 1), the
 * rows' rstd and their mean, which is NULL for rms_norm. */
bool cti_op_norm_backward(const ct_call *c, ct_tensor *g, const ct_tensor *w, ct_tensor *mean,
                          ct_tensor *rstd, ct_tensor **grad);

#endif
