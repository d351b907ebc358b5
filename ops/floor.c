/* floor: y = the largest whole number up to x; -0, infinities and NaN stay;   dx = 0 */
#include "support/op.h"
#include "../src/kernels/unary.h"

static ct_tensor *floor_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->unary->floor);
}

static bool floor_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_zeros(c->context, g[0]->dtype, c->in[0]->shape)) != NULL;
}

static const ct_op floor_op = {
    .name = "floor", .forward = floor_forward, .backward = floor_backward};

ct_tensor *ct_floor(ct_tensor *x) { return ct_apply(&floor_op, (ct_tensor *[]){x}, 1, NULL); }
