/* A check shared by the ops that take indices. */
#ifndef CTI_OPS_SUPPORT_INDEX_H
#define CTI_OPS_SUPPORT_INDEX_H

#include "op.h"

/* Is every index (dense i64) in [0, limit) or equal to `also`? (0 for `also` allows nothing more.)
 * If not, CT_ERR_ARGUMENT with the value and its position. */
bool cti_op_indices_inside(const ct_call *c, const ct_tensor *index, const char *noun,
                           int64_t limit, int64_t also);

#endif
