/* The types of an element and its conversions, for kernels that move and compare elements of any
 * dtype. The file that includes this one has defined CTI_ELEMENT_I64, CTI_ELEMENT_BOOL or
 * CTI_ELEMENT_BF16, or it is compiled for a real dtype (simd.h).
 *
 *     element         the type of an element in memory
 *     element_value   the type in which elements are compared
 *     element_of      the nearest element to a number
 *     value_of        the value of an element
 *     element_whole   the integer part of an element, defined for all elements as on x86
 *     element_plus    the sum of two elements */
#ifndef CTI_KERNELS_ELEMENT_TMPL_H
#define CTI_KERNELS_ELEMENT_TMPL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "half.h"
#include "to_int64_tmpl.h"

#if defined CTI_ELEMENT_I64

typedef int64_t element;
typedef int64_t element_value;
static inline element element_of(double number) { return whole_of(number); }
static inline element_value value_of(element x) { return x; }
static inline int64_t element_whole(element x) { return x; }
/* Integers wrap on overflow, so unsigned numbers are added. */
static inline element element_plus(element a, element b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

#elif defined CTI_ELEMENT_BOOL

typedef bool element;
typedef bool element_value;
static inline element element_of(double number) { return number != 0; }
static inline element_value value_of(element x) { return x; }
static inline int64_t element_whole(element x) { return x; }
static inline element element_plus(element a, element b) { return a || b; }

#elif defined CTI_ELEMENT_BF16

typedef uint16_t element;
typedef float element_value;
static inline element element_of(double number) { return cti_bf16_narrow(number); }
static inline element_value value_of(element x) {
    const uint32_t bits = cti_bf16_widen(x);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline int64_t element_whole(element x) { return whole_of((double)value_of(x)); }
static inline element element_plus(element a, element b) {
    return cti_bf16_narrow((double)value_of(a) + (double)value_of(b));
}

#else

#include "simd.h"

typedef stored element;
typedef real element_value;
INLINE element element_of(double number) { return to_stored((real)number); }
INLINE element_value value_of(element x) { return to_real(x); }
INLINE int64_t element_whole(element x) { return whole_of((double)to_real(x)); }
INLINE element element_plus(element a, element b) { return to_stored(to_real(a) + to_real(b)); }

#endif

#endif
