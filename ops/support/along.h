/* Ops of rows along any dim: they are written for the last one, and brought there. */
#ifndef CTI_OPS_SUPPORT_ALONG_H
#define CTI_OPS_SUPPORT_ALONG_H

#include "op.h"

/* op of x's rows along dim; where that is not the last, of a view of x that has it last, and the
 * result's dims are brought back (row-major) unless the op drops it. A scalar counts as one row of
 * one. mask is the op's second input where it has two: it may be NULL, and broadcasts to x. */
ct_tensor *cti_op_along(const ct_op *op, ct_tensor *x, int dim);
ct_tensor *cti_op_along_masked(const ct_op *op, ct_tensor *x, ct_tensor *mask, int dim);

/* How many rows of the last dim there are, be they empty; the shape has at least one dim. */
int64_t cti_op_row_count(ct_shape shape);

#endif
