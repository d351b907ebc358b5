/* Loops that copy or add rows by index, for index_select and index_add. The backward of each of the
 * two ops is the other op's loop. */
#ifndef CTI_OPS_SUPPORT_INDEX_ROWS_H
#define CTI_OPS_SUPPORT_INDEX_ROWS_H

#include "op.h"

/* dim counts from the front. index is dense i64, and its values are in the range of dim. x and y
 * are dense. They have the same shape, except that the size of y along dim is the length of index.
 */

/* y[.., i, ..] = x[.., index[i], ..] */
void cti_index_rows(const ct_call *c, int dim, const ct_tensor *index, const ct_tensor *x,
                    ct_tensor *y);

/* x[.., index[i], ..] += y[.., i, ..], in the order of i. One thread writes each element of x. */
void cti_index_rows_add(const ct_call *c, int dim, const ct_tensor *index, ct_tensor *x,
                        const ct_tensor *y);

/* Returns whether in[1] is an index of in[0] along dim: i64, of one dim or of one element, with
 * values in the range of dim. The index of a scalar is one 0. */
bool cti_index_rows_check(const ct_call *c, int dim);

#endif
