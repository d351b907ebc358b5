/* gelu_tanh: y = x (1 + t) / 2,  t = tanh u,  u = sqrt(2/pi) (x + 0.044715 x^3); dx = g ((1 + t)
 * / 2 + x (1 - t^2) u' / 2),  u' = sqrt(2/pi) (1 + 0.134145 x^2).
 * Hendrycks and Gimpel 2016, arXiv:1606.08415 */
#include "support/op.h"

static ct_tensor *gelu_tanh_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->gelu_tanh);
}

static bool gelu_tanh_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->gelu_tanh_backward, &grad[0]);
}

static const ct_op gelu_tanh_op = {
    .name = "gelu_tanh", .forward = gelu_tanh_forward, .backward = gelu_tanh_backward};

ct_tensor *ct_gelu_tanh(ct_tensor *x) {
    return cti_apply(&gelu_tanh_op, (ct_tensor *[]){x}, 1, NULL);
}
