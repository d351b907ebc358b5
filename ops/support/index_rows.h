/* What index_select and index_add share: each is the other's gradient. */
#ifndef CTI_OPS_SUPPORT_INDEX_ROWS_H
#define CTI_OPS_SUPPORT_INDEX_ROWS_H

#include "op.h"

/* dim counts from the front, index is dense i64 with each in the range; x and y are dense, alike
 * but for dim, which in y has the index's length. */

/* y[.., i, ..] = x[.., index[i], ..] */
void cti_index_rows(const ct_call *c, int dim, const ct_tensor *index, const ct_tensor *x,
                    ct_tensor *y);

/* x[.., index[i], ..] += y[.., i, ..], in the order of i. Each element of x has one thread. */
void cti_index_rows_add(const ct_call *c, int dim, const ct_tensor *index, ct_tensor *x,
                        const ct_tensor *y);

/* in[1] is an index of in[0] along dim: i64 with one dim, or one element without; in the range. Of
 * a scalar it is one 0. */
bool cti_index_rows_check(const ct_call *c, int dim);

#endif
