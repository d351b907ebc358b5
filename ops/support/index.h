/* What the ops that take indices share. */
#ifndef CTI_OPS_SUPPORT_INDEX_H
#define CTI_OPS_SUPPORT_INDEX_H

#include "op.h"

/* Every index (dense i64) is in [0, limit), or is `also`; 0 allows nothing more. Else
 * CT_ERR_ARGUMENT with its value and position. */
bool cti_op_indices_inside(const ct_call *c, const ct_tensor *index, const char *noun,
                           int64_t limit, int64_t also);

#endif
