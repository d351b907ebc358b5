/* The kernels of a ct_activation, for ops that have one inside. */
#ifndef CTI_OPS_SUPPORT_ACTIVATION_H
#define CTI_OPS_SUPPORT_ACTIVATION_H

#include "op.h"

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
