/* Ops such as softmax work along any dim. They are written for the last dim; another dim is
 * transposed to the last place first. */
#ifndef CTI_OPS_SUPPORT_ALONG_H
#define CTI_OPS_SUPPORT_ALONG_H

#include "op.h"

/* Applies op along dim of x. If that is not the last dim, op runs on a transposed view of x, and
 * its result is transposed back and made row-major, unless op removes the dim. A scalar counts as
 * one row of one element. mask is the second input of an op with two inputs; it broadcasts to x, or
 * is NULL. */
ct_tensor *cti_op_along(const ct_op *op, ct_tensor *x, int dim);
ct_tensor *cti_op_along_masked(const ct_op *op, ct_tensor *x, ct_tensor *mask, int dim);

/* Returns the number of rows along the last dim, even if the rows are empty. The shape has at least
 * one dim. */
int64_t cti_op_row_count(ct_shape shape);

#endif
