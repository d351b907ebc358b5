/* Integer arithmetic of sizes; divisors are positive and n >= 0. */
#ifndef CTI_CORE_INT_MATH_H
#define CTI_CORE_INT_MATH_H

#include <stdint.h>

static inline int64_t cti_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cti_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cti_ceil_div(int64_t n, int64_t by) {
    return n / by + (n % by != 0);
} /* no overflow near INT64_MAX */
static inline int64_t cti_round_up(int64_t n, int64_t multiple) {
    return cti_ceil_div(n, multiple) * multiple;
}

#endif
