/* Helpers of the ops on shapes. */
#ifndef CTI_OPS_SUPPORT_SHAPE_OPS_H
#define CTI_OPS_SUPPORT_SHAPE_OPS_H

#include "op.h"

/* Replaces a -1 in the requested shape by the size that x's elements leave. False with an error
 * under the op's name. */
bool cti_op_view_shape(const char *name, const ct_tensor *x, ct_shape asked, ct_shape *shape);

/* The strides that view x with that shape. False, without an error, if no strides can. */
bool cti_op_view_strides(const ct_tensor *x, ct_shape shape, int64_t stride[CT_MAX_DIMS]);

/* dim as 0 ... ndim - 1, where a scalar counts as having one dim, as in torch. -1 with an error. */
int cti_op_dim_or_scalar(const char *name, const ct_tensor *x, int64_t dim);

/* x's shape and strides without a dim, which counts from the front. */
void cti_op_without_dim(const ct_tensor *x, int dim, ct_shape *shape, int64_t *stride);

/* The memory in which in[i]'s gradient accumulates, zeroed if nothing has been added yet. NULL with
 * an error. */
ct_tensor *cti_op_grad_sum(const ct_call *c, int i);

#endif
