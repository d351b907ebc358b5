/* The elementwise functions of one array: the list from which the fields of cti_kernels, the
 * kernels and their entries in a table are made. Their formulas are in unary_tmpl.h.
 *
 *     PLAIN(name)     y = value_NAME(x)
 *     FROM_X(name)    the same, and dx = slope_NAME(x, g)
 *     FROM_Y(name)    the same, and dx = slope_NAME(y, g) */
#ifndef CTI_KERNELS_UNARY_H
#define CTI_KERNELS_UNARY_H

/* clang-format off */
#define CTI_UNARY_KERNELS(PLAIN, FROM_X, FROM_Y)                                                   \
    PLAIN(neg)                                                                                     \
    FROM_Y(exp)                                                                                    \
    FROM_X(log)                                                                                    \
    FROM_Y(sqrt)                                                                                   \
    FROM_X(abs)                                                                                    \
    FROM_Y(tanh)                                                                                   \
    FROM_Y(sigmoid)                                                                                \
    FROM_Y(relu)                                                                                   \
    FROM_X(silu)                                                                                   \
    FROM_X(gelu)                                                                                   \
    FROM_X(gelu_tanh)                                                                              \
    PLAIN(sign)                                                                                    \
    PLAIN(floor)
/* clang-format on */

#endif
