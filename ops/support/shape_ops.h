/* Helpers of the ops on shapes. */
#ifndef CTI_OPS_SUPPORT_SHAPE_OPS_H
#define CTI_OPS_SUPPORT_SHAPE_OPS_H

#include "op.h"

/* Replaces a -1 in the requested shape by the size that x's elements leave. Returns false with an
 * error under the op's name. */
bool cti_op_view_shape(const char *name, const ct_tensor *x, ct_shape asked, ct_shape *shape);

/* Sets the strides with which x is a view of that shape. Returns false, without an error, if there
 * are none. */
bool cti_op_view_strides(const ct_tensor *x, ct_shape shape, int64_t stride[CT_MAX_DIMS]);

/* Returns dim as 0 ... ndim - 1; a scalar counts as having one dim, as in torch. Returns -1 with an
 * error if there is no such dim. */
int cti_op_dim_or_scalar(const char *name, const ct_tensor *x, int64_t dim);

/* Sets x's shape and strides without a dim, which counts from the front. */
void cti_op_without_dim(const ct_tensor *x, int dim, ct_shape *shape, int64_t *stride);

/* Returns the tensor in which in[i]'s gradient accumulates, zeroed if nothing has been added yet.
 * Returns NULL with an error if memory is short. */
ct_tensor *cti_op_grad_sum(const ct_call *c, int i);

#endif
