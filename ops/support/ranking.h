/* A partial sort of the elements of rows, for topk and argsort. */
#ifndef CTI_OPS_SUPPORT_RANKING_H
#define CTI_OPS_SUPPORT_RANKING_H

#include "op.h"

/* Writes to index the places of the first k elements of each row along dim, in order. Of equal
 * elements the first comes first; NaN counts as largest, and -0 as 0. x is dense and of any dtype
 * but bf16. index is dense i64. It has the shape of x, except that its size along dim is k, which
 * is at most x's size. dim counts from the front. Returns false with an error if memory is short.
 */
bool cti_rank(const ct_call *c, const ct_tensor *x, int dim, bool descending, ct_tensor *index);

#endif
