/* Converts a real number to an integer, towards zero. NaN and numbers that do not fit give
 * INT64_MIN, as on x86; C leaves these cases undefined. */
#ifndef CTI_KERNELS_TO_INT64_TMPL_H
#define CTI_KERNELS_TO_INT64_TMPL_H

#include <stdint.h>

static inline int64_t whole_of(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

#endif
