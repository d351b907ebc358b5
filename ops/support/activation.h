/* The activations of ct_activation: their ops, their names, and their kernels for ops that have one
 * inside. */
#ifndef CTI_OPS_SUPPORT_ACTIVATION_H
#define CTI_OPS_SUPPORT_ACTIVATION_H

#include "op.h"
#include "../../src/kernels/kernels.h"

/* The rows of all activations: the value, the op, and the number of an op that has one. A new
 * activation is a row here. relu's backward takes y, and x serves as well: both are positive or
 * neither is. */
#define CTI_ACTIVATIONS(OF_X, OF_X_AND)                                                            \
    OF_X(CT_RELU, relu)                                                                            \
    OF_X(CT_GELU, gelu)                                                                            \
    OF_X(CT_GELU_TANH, gelu_tanh)                                                                  \
    OF_X(CT_SILU, silu)                                                                            \
    OF_X_AND(CT_ELU, elu, 1)                                                                       \
    OF_X(CT_SOFTPLUS, softplus)                                                                    \
    OF_X_AND(CT_LEAKY_RELU, leaky_relu, 0.01)                                                      \
    OF_X(CT_RELU_SQUARED, relu_squared)                                                            \
    OF_X(CT_QUICK_GELU, quick_gelu)

/* Returns the name of an activation's op; NULL if there is no such activation. */
const char *cti_activation_name(ct_activation f);

/* The kernels of an activation: the first three, or the last three with their number. */
typedef struct {
    cti_unary *f;
    cti_unary_backward *backward;
    cti_unary_both *both;
    cti_unary_scalar *scalar;
    cti_unary_scalar_backward *scalar_backward;
    cti_unary_scalar_both *scalar_both;
    double number;
} cti_activation;

/* Sets the kernels for the dtype of the call's first input. Returns false after an error: the dtype
 * is not real, or there is no such activation. */
bool cti_op_activation(const ct_call *c, ct_activation f, cti_activation *out);

/* y = f(x) */
static inline void cti_activate(const cti_activation *f, int64_t n, const void *x, void *y) {
    if (f->f) f->f(n, x, y);
    else f->scalar(n, x, f->number, y);
}

/* dx = g f'(x); dx may be g */
static inline void cti_activation_backward(const cti_activation *f, int64_t n, const void *x,
                                           const void *g, void *dx) {
    if (f->f) f->backward(n, x, g, dx);
    else f->scalar_backward(n, x, f->number, g, dx);
}

/* y = f(x) and dx = g f'(x); dx may be g */
static inline void cti_activation_both(const cti_activation *f, int64_t n, const void *x,
                                       const void *g, void *y, void *dx) {
    if (f->f) f->both(n, x, g, y, dx);
    else f->scalar_both(n, x, f->number, g, y, dx);
}

#endif
