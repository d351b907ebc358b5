/* This header has a check of indices. */
#ifndef CTI_OPS_SUPPORT_INDEX_H
#define CTI_OPS_SUPPORT_INDEX_H

#include "op.h"

/* Returns whether every index (dense i64) is in [0, limit) or equal to `also`; an `also` of 0
 * allows no other value. If not, records CT_ERR_ARGUMENT with the value and its position. */
bool cti_op_indices_inside(const ct_call *c, const ct_tensor *index, const char *noun,
                           int64_t limit, int64_t also);

#endif
