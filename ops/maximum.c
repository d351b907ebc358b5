/* maximum: y = max(a, b), broadcast, NaN if either is;
 * da = g if a > b, g / 2 if a = b, otherwise 0, and g if y is NaN;
 * db likewise. i64 too */
#include "support/extremum.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *maximum_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_binary(c, kernels(c)->elementwise->maximum, c->in[0]->dtype);
}

static bool maximum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_extremum_backward(c, kernels(c)->elementwise->maximum_backward, g[0], grad);
}

static const ct_op maximum_op = {
    .name = "maximum", .forward = maximum_forward, .backward = maximum_backward};

ct_tensor *ct_maximum(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&maximum_op, (ct_tensor *[]){a, b}, 2, NULL);
}
