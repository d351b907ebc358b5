/* max: y = max of x over dims, NaN if any is;
 * dx = g / (the number of elements equal to y) if x = y, otherwise 0.
 * i64 too; torch's amax */
#include "support/reduce_extremum.h"
#include "../src/kernels/rows.h"

static ct_tensor *max_forward(ct_call *c) { return cti_reduce_extremum(c, kernels(c)->rows->max); }

static const ct_op max_op = {.name = "max",
                             .attrs_size = sizeof(cti_reduce_attrs),
                             .forward = max_forward,
                             .backward = cti_reduce_extremum_backward};

ct_tensor *ct_max(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ct_apply(&max_op, (ct_tensor *[]){x}, 1, &(cti_reduce_attrs){dims, keepdim});
}
