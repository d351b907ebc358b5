/* gelu: y = x Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2;
 * dx = g (Phi + x phi),  phi(x) = e^(-x^2/2) / sqrt(2 pi).
 * Hendrycks and Gimpel 2016, arXiv:1606.08415 */
#include "support/op.h"

static ct_tensor *gelu_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], kernels(c)->gelu);
}

static bool gelu_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_unary_backward(c, c->in[0], g[0], kernels(c)->gelu_backward, &grad[0]);
}

static const ct_op gelu_op = {.name = "gelu", .forward = gelu_forward, .backward = gelu_backward};

ct_tensor *ct_gelu(ct_tensor *x) { return cti_apply(&gelu_op, (ct_tensor *[]){x}, 1, NULL); }
