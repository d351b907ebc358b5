/* mul: y = a b, broadcast;   da = g b, db = g a, each summed to its input's shape.   i64 too */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *mul_forward(ct_call *c) {
    c->drop = CT_DROP_OUT | (c->wants[1] ? 0 : CT_DROP_IN(0)) | (c->wants[0] ? 0 : CT_DROP_IN(1));
    return cti_op_binary(c, kernels(c)->elementwise->mul, c->in[0]->dtype);
}

static bool mul_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    for (int i = 0; i < 2; i++) {
        if (!c->wants[i]) continue;
        if (!cti_op_sum_to_input(c, i, ct_mul(g[0], c->in[1 - i]), &grad[i])) return false;
    }
    return true;
}

static const ct_op mul_op = {.name = "mul", .forward = mul_forward, .backward = mul_backward};

ct_tensor *ct_mul(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&mul_op, (ct_tensor *[]){a, b}, 2, NULL);
}
