/* Integer arithmetic on sizes. */
#ifndef CTI_CORE_INT_MATH_H
#define CTI_CORE_INT_MATH_H

#include <stdint.h>

#include "assert.h"

static inline int64_t cti_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cti_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* n / d rounded up, for n >= 0 and d > 0. It does not compute n + d - 1, which could overflow. */
static inline int64_t cti_ceil_div(int64_t n, int64_t d) {
    CTI_ASSERT(n >= 0 && d > 0);
    return n / d + (n % d != 0);
}

/* The smallest multiple of d that is at least n. */
static inline int64_t cti_round_up(int64_t n, int64_t d) { return cti_ceil_div(n, d) * d; }

#endif
