/* Helpers of the kernels' suites: every table of real kernels that this machine runs, arrays
 * without slack, and errors in units of the last place against long double. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include "tests/support/suite.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/isa.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef long double wide;

/* An assertion with a message for inner loops, which Check does not record. */
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) ck_abort_msg(__VA_ARGS__);                                               \
    } while (0)

typedef struct {
    const cti_kernels *k;
    const char *isa;
    int dtype; /* 0: f32, 1: f64 */
    size_t size;
    double eps, tiny; /* spacing at 1, smallest normal */
} table;

/* Sets *t to table number i; the scalar tables are first. Returns false past the last table. */
static inline bool table_at(int i, table *t) {
    const cti_isa *isa = cti_isa_at(i / 2);
    if (!isa) return false;
    const bool single = i % 2 == 0;
    *t = (table){isa->of[i % 2],
                 isa->name,
                 i % 2,
                 single ? 4 : 8,
                 single ? FLT_EPSILON : DBL_EPSILON,
                 single ? FLT_MIN : DBL_MIN};
    return true;
}

static inline double get(table t, const void *p, int64_t i) {
    return t.dtype ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static inline void put(table t, void *p, int64_t i, double x) {
    if (t.dtype) ((double *)p)[i] = x;
    else ((float *)p)[i] = (float)x;
}
static inline void *at(table t, void *p, int64_t i) { return (char *)p + (size_t)i * t.size; }

/* Pseudo-random numbers, the same in each run. */
static uint64_t noise_state = 88172645463325252u;
/* Begins anew, so that a test draws the same numbers with a process of its own and without. */
static inline void noise_begin(void) { noise_state = 88172645463325252u; }
static inline uint64_t noise_bits(void) {
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = noise_state ^ noise_state >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}
static inline double noise(double low, double high) {
    return low + (high - low) * (double)(int64_t)(noise_bits() >> 11) * 0x1p-53;
}

/* An array that ends exactly where its block ends, so that AddressSanitizer and valgrind find
 * accesses past it. Before it and, if a kernel writes it (guarded), after it are guard bytes that
 * must not change. The array starts at an odd element, and so vectors are not aligned. */
enum { GUARD = 64 };
typedef struct {
    unsigned char *block;
    size_t before, bytes, behind;
    void *p;
} array;
static inline array array_of_bytes(size_t element, int64_t n, bool guarded) {
    array a = {
        .before = GUARD + element, .bytes = (size_t)n * element, .behind = guarded ? GUARD : 0};
    a.block = malloc(a.before + a.bytes + a.behind);
    EXPECT(a.block, "out of memory");
    memset(a.block, 0xA5, a.before + a.bytes + a.behind);
    a.p = a.block + a.before;
    return a;
}
static inline array filled(table t, int64_t n, double low, double high) {
    array a = array_of_bytes(t.size, n, false);
    for (int64_t i = 0; i < n; i++) put(t, a.p, i, noise(low, high));
    return a;
}
static inline array output(table t, int64_t n) { return array_of_bytes(t.size, n, true); }
static inline void release(array a, const char *what) {
    for (size_t i = 0; i < a.before; i++)
        EXPECT(a.block[i] == 0xA5, "%s wrote before its output", what);
    for (size_t i = 0; i < a.behind; i++)
        EXPECT(a.block[a.before + a.bytes + i] == 0xA5, "%s wrote behind its output", what);
    free(a.block);
}

/* The distance from x to the next number of the table's dtype. */
static inline wide spacing(table t, wide x) {
    x = fabsl(x);
    if (x < (wide)t.tiny) return (wide)t.tiny * (wide)t.eps;
    return ldexpl((wide)t.eps, ilogbl(x));
}

/* Whether long double has more digits than double. It has not under valgrind and on some machines;
 * f64 is then checked to fewer digits. */
static inline bool wide_is_wider(void) {
    volatile wide one = 1, little = 0x1p-60L;
    return one + little != one;
}

/* |got - want| in units of the last place of want, or of magnitude if it is larger. */
static inline double error_in_ulp(table t, double got, wide want, double magnitude) {
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    const wide limit = t.dtype ? (wide)DBL_MAX : (wide)FLT_MAX;
    if (fabsl(want) > limit || isinf(got)) { /* the result overflows, or may overflow by rounding */
        if (isinf(got) && (wide)got * want > 0 && fabsl(want) >= limit * (1 - (wide)t.eps))
            return 0;
        return INFINITY;
    }
    if (isnan(got)) return INFINITY;
    /* The absolute value is taken here: clang 19 drops the fabsl in spacing() if a signed value is
     * passed (a bug of its optimiser). */
    const wide size = fabsl(want);
    const wide unit = spacing(t, size > (wide)magnitude ? size : (wide)magnitude);
    return (double)(fabsl((wide)got - want) / unit) / (t.dtype && !wide_is_wider() ? 8192 : 1);
}

#endif
