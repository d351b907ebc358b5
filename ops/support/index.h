/* The check that indices are inside a dim. */
#ifndef CTI_OPS_SUPPORT_INDEX_H
#define CTI_OPS_SUPPORT_INDEX_H

#include "op.h"

/* Returns whether every index of a dense i64 tensor is in [0, limit) or equal to `also`; if `also`
 * is 0, only the range counts. If not, records CT_ERR_ARGUMENT with the value and its position. */
bool cti_op_indices_inside(const ct_call *c, const ct_tensor *index, const char *noun,
                           int64_t limit, int64_t also);

#endif
