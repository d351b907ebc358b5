/* The activations of feed-forward modules, and the op of each. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include <cotangent/ops.h>

enum { ACTIVATIONS = CT_QUICK_GELU + 1 };

static inline ct_tensor *activated(ct_tensor *x, ct_activation activation) {
    switch (activation) {
    case CT_RELU: return ct_relu(x);
    case CT_GELU: return ct_gelu(x);
    case CT_GELU_TANH: return ct_gelu_tanh(x);
    case CT_SILU: return ct_silu(x);
    case CT_ELU: return ct_elu(x, 1);
    case CT_SOFTPLUS: return ct_softplus(x);
    case CT_LEAKY_RELU: return ct_leaky_relu(x, 0.01);
    case CT_RELU_SQUARED: return ct_relu_squared(x);
    case CT_QUICK_GELU: return ct_quick_gelu(x);
    }
    return NULL;
}

#endif
