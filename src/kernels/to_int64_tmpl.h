/* A real number as an integer, towards zero; INT64_MIN for NaN and what does not fit, as x86 has
 * it. C leaves these undefined. */
#ifndef CTI_KERNELS_TO_INT64_TMPL_H
#define CTI_KERNELS_TO_INT64_TMPL_H

#include <stdint.h>

static inline int64_t whole_of(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

#endif
