/* The elementwise functions of one array. A row has a function's name and two expressions of
 * vectors (simd.h, vmath.h, unary_tmpl.h): the value at x, and the slope times the cotangent g. The
 * rows make the kernels, their fields in cti_unary_kernels, their entries in a table, the ops
 * ct_NAME (ops/unary_ops.c) and rows of the tests. docs/ops.md has the formula in the comment of a
 * row.
 *
 *     PLAIN(name, value)            y = value;  no kernel computes the slope, and ops/NAME.c has
 *                                   the op
 *     FROM_X(name, value, slope)    y = value,  dx = slope, an expression of x and g
 *     FROM_Y(name, value, slope)    y = value,  dx = slope, an expression of y and g
 *     LOOPS(name)                   the same as FROM_X, with kernels that are written elsewhere */
#ifndef CTI_KERNELS_UNARY_H
#define CTI_KERNELS_UNARY_H

#include "kernels.h"

/* clang-format off */
#define CTI_UNARY_KERNELS(PLAIN, FROM_X, FROM_Y, LOOPS)                                            \
    PLAIN(neg, -x)                                                                                 \
    PLAIN(sign, keep(x > REAL(0.0), splat(1)) - keep(x < REAL(0.0), splat(1)))                     \
    PLAIN(floor, v_floor(x))                                                                       \
    /* exp: y = e^x;   dx = g y */                                                                 \
    FROM_Y(exp, v_exp(x), g * y)                                                                   \
    /* log: y = ln x;   dx = g / x */                                                              \
    FROM_X(log, v_log(x), g / x)                                                                   \
    /* sqrt: y = x^(1/2);   dx = g / (2 y) */                                                      \
    FROM_Y(sqrt, v_sqrt(x), g / (REAL(2.0) * y))                                                   \
    /* abs: y = |x|;   dx = g sign(x), 0 at 0 as in torch.   i64 too */                            \
    FROM_X(abs, v_abs(x), blend(x > REAL(0.0), g, blend(x < REAL(0.0), -g, x * REAL(0.0))))        \
    /* tanh: y = (e^x - e^-x) / (e^x + e^-x);   dx = g (1 - y^2) */                                \
    FROM_Y(tanh, v_tanh(x), g * (REAL(1.0) - y * y))                                               \
    /* sigmoid: y = 1 / (1 + e^-x);   dx = g y (1 - y) */                                          \
    FROM_Y(sigmoid, v_sigmoid(x), g * y * (REAL(1.0) - y))                                         \
    /* relu: y = max(x, 0);   dx = 0 if y <= 0, otherwise g */                                     \
    FROM_Y(relu, b_relu(x, x).value, b_relu(y, g).dx)                                              \
    /* silu: y = x s,  s = 1 / (1 + e^-x);                                                         \
     * dx = g s (1 + x (1 - s)).                                                                   \
     * Elfwing et al. 2018, arXiv:1702.03118 */                                                    \
    FROM_X(silu, b_silu(x, x).value, b_silu(x, g).dx)                                              \
    /* gelu: y = x Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2;                                    \
     * dx = g (Phi + x phi),  phi(x) = e^(-x^2/2) / sqrt(2 pi).                                    \
     * Hendrycks and Gimpel 2016, arXiv:1606.08415 */                                              \
    FROM_X(gelu, b_gelu(x, x).value, b_gelu(x, g).dx)                                              \
    /* gelu_tanh: y = x (1 + t) / 2,  t = tanh u,  u = sqrt(2/pi) (x + 0.044715 x^3);              \
     * dx = g ((1 + t) / 2 + x (1 - t^2) u' / 2),  u' = sqrt(2/pi) (1 + 0.134145 x^2).             \
     * Hendrycks and Gimpel 2016, arXiv:1606.08415 */                                              \
    FROM_X(gelu_tanh, b_gelu_tanh(x, x).value, b_gelu_tanh(x, g).dx)                               \
    /* softplus: y = x if x > 20, otherwise log(1 + e^x);                                          \
     * dx = g if x > 20, otherwise g / (1 + e^-x).   20 is torch's default */                      \
    FROM_X(softplus, b_softplus(x, x).value, b_softplus(x, g).dx)                                  \
    /* relu_squared: y = max(x, 0)^2;   dx = 0 if x <= 0, otherwise 2 g x.                         \
     * So et al. 2021, arXiv:2109.08668 */                                                         \
    FROM_X(relu_squared, b_relu_squared(x, x).value, b_relu_squared(x, g).dx)                      \
    /* quick_gelu: y = x s,  s = 1 / (1 + e^(-1.702 x));   dx = g s (1 + 1.702 x (1 - s)).         \
     * Hendrycks and Gimpel 2016, arXiv:1606.08415 */                                              \
    FROM_X(quick_gelu, b_quick_gelu(x, x).value, b_quick_gelu(x, g).dx)                            \
    /* sin: y = sin x, for any finite angle, NaN for infinities;   dx = g cos x */                 \
    LOOPS(sin)                                                                                     \
    /* cos: y = cos x, for any finite angle, NaN for infinities;   dx = -g sin x */                \
    LOOPS(cos)

/* The elementwise functions of an array and a number, in rows of the same form. The expressions
 * call the number a. */
#define CTI_SCALAR_KERNELS(PLAIN, FROM_X, LOOPS)                                                   \
    PLAIN(scale, x * a)                                                                            \
    PLAIN(add_scalar, x + a)                                                                       \
    /* elu: y = x if x > 0, otherwise alpha (e^x - 1);                                             \
     * dx = g if x > 0, otherwise g alpha e^x.                                                     \
     * Clevert et al. 2015, arXiv:1511.07289 */                                                    \
    FROM_X(elu, blend(x < REAL(0.0), a * v_expm1_below(x), x),                                     \
           blend(x > REAL(0.0), g, g * (a * v_exp(x))))                                            \
    /* leaky_relu: y = x if x > 0, otherwise slope x;   dx = g if x > 0, otherwise g slope.        \
     * Maas et al. 2013, Rectifier nonlinearities improve neural network acoustic models */        \
    FROM_X(leaky_relu, blend(x > REAL(0.0), x, x * a), blend(x > REAL(0.0), g, g * a))             \
    /* pow: y = x^e for a number e, 0^0 = 1;   dx = g e x^(e-1), 0 for e = 0 */                    \
    LOOPS(pow)

/* The activations, first those of an array, then those of an array and a number. A kernel computes
 * value and slope in one pass. */
#define CTI_BOTH_KERNELS(BOTH)                                                                     \
    BOTH(relu)                                                                                     \
    BOTH(silu)                                                                                     \
    BOTH(gelu)                                                                                     \
    BOTH(gelu_tanh)                                                                                \
    BOTH(softplus)                                                                                 \
    BOTH(relu_squared)                                                                             \
    BOTH(quick_gelu)
#define CTI_SCALAR_BOTH_KERNELS(BOTH)                                                              \
    BOTH(elu)                                                                                      \
    BOTH(leaky_relu)
/* clang-format on */

struct cti_unary_kernels {
#define CTI_FIELD(name, ...) cti_unary *name;
#define CTI_FIELDS(name, ...)                                                                      \
    cti_unary *name;                                                                               \
    cti_unary_backward *name##_backward;
#define CTI_SCALAR_FIELD(name, ...) cti_unary_scalar *name;
#define CTI_SCALAR_FIELDS(name, ...)                                                               \
    cti_unary_scalar *name;                                                                        \
    cti_unary_scalar_backward *name##_backward;
#define CTI_BOTH_FIELD(name)        cti_unary_both *name##_both;
#define CTI_SCALAR_BOTH_FIELD(name) cti_unary_scalar_both *name##_both;
    CTI_UNARY_KERNELS(CTI_FIELD, CTI_FIELDS, CTI_FIELDS, CTI_FIELDS)
    CTI_SCALAR_KERNELS(CTI_SCALAR_FIELD, CTI_SCALAR_FIELDS, CTI_SCALAR_FIELDS)
    CTI_BOTH_KERNELS(CTI_BOTH_FIELD)
    CTI_SCALAR_BOTH_KERNELS(CTI_SCALAR_BOTH_FIELD)
#undef CTI_FIELD
#undef CTI_FIELDS
#undef CTI_SCALAR_FIELD
#undef CTI_SCALAR_FIELDS
#undef CTI_BOTH_FIELD
#undef CTI_SCALAR_BOTH_FIELD
    cti_unary *logical_not; /* bool's table only */
    /* NaN stays; of bounds that cross the upper one wins. g where low <= x <= high, else 0 */
    void (*clamp)(int64_t n, const void *x, double low, double high, void *y);
    void (*clamp_backward)(int64_t n, const void *x, double low, double high, const void *g,
                           void *dx);
};

#endif
