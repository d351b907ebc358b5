/* What the ops on shapes share. */
#ifndef CTI_OPS_SUPPORT_SHAPE_OPS_H
#define CTI_OPS_SUPPORT_SHAPE_OPS_H

#include "op.h"

/* The shape that x is asked to take, with one -1 inferred. False with the error under that op's
 * name. */
bool cti_op_view_shape(const char *name, const ct_tensor *x, ct_shape asked, ct_shape *shape);

/* The strides that give x's elements that shape where they lie. False, with no error, where no
 * strides can. */
bool cti_op_view_strides(const ct_tensor *x, ct_shape shape, int64_t stride[CT_MAX_DIMS]);

/* dim as 0 ... ndim - 1, where a scalar counts as having one dim, as in torch. -1 with an error. */
int cti_op_dim_or_scalar(const char *name, const ct_tensor *x, int64_t dim);

/* The place where in[i]'s gradient gathers, ready to be added to: zeros where nothing has gathered
 * yet. NULL with an error. */
ct_tensor *cti_op_grad_sum(const ct_call *c, int i);

#endif
