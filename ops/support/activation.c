#include "activation.h"

#define OF_X(name)                                                                                 \
    (cti_activation) { .f = k->name, .backward = k->name##_backward, .both = k->name##_both }
#define OF_X_AND(a, name)                                                                          \
    (cti_activation) {                                                                             \
        .scalar = k->name, .scalar_backward = k->name##_backward, .scalar_both = k->name##_both,   \
        .number = (a)                                                                              \
    }

static cti_activation kernels_of_activation(const cti_kernels *k, ct_activation f) {
    switch (f) {
    /* its backward takes y, and x serves as well: both are positive or neither is */
    case CT_RELU: return OF_X(relu);
    case CT_GELU: return OF_X(gelu);
    case CT_GELU_TANH: return OF_X(gelu_tanh);
    case CT_SILU: return OF_X(silu);
    case CT_ELU: return OF_X_AND(1, elu);
    case CT_SOFTPLUS: return OF_X(softplus);
    case CT_LEAKY_RELU: return OF_X_AND(0.01, leaky_relu);
    case CT_RELU_SQUARED: return OF_X(relu_squared);
    case CT_QUICK_GELU: return OF_X(quick_gelu);
    }
    return (cti_activation){0};
}

bool cti_op_activation(const ct_call *c, ct_activation f, cti_activation *out) {
    if (!cti_op_is_real(c, 0)) return false; /* other dtypes have no activations */
    *out = kernels_of_activation(kernels(c), f);
    return out->f || out->scalar ||
           ct_fail(c->context, CT_ERR_ARGUMENT, "%s: no activation %d", c->op->name, (int)f);
}
