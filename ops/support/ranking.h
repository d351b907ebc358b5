/* What topk and argsort share. */
#ifndef CTI_OPS_SUPPORT_RANKING_H
#define CTI_OPS_SUPPORT_RANKING_H

#include "op.h"

/* index (i64, dense) is x's shape but for dim (from the front), where it has k <= x's size: gets
 * where the first k of each row along dim are, in order. Of equals the first is first; NaN counts
 * as largest, -0 as 0. x is dense, of any dtype. False: out of memory. */
bool cti_rank(const ct_call *c, const ct_tensor *x, int dim, bool descending, ct_tensor *index);

#endif
