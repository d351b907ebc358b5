/* Loops over one array. The elements behind the last whole vector go through the same vector
 * function, so that an element's result does not depend on its place. */
#ifndef CTI_KERNELS_MAP_TMPL_H
#define CTI_KERNELS_MAP_TMPL_H

#include "simd.h"

INLINE void map(int64_t n, const void *x, void *y, vec (*f)(vec)) {
    const stored *from = x;
    stored *to = y;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(from + i)));
    if (i < n) store_part(to + i, f(load_part(from + i, n - i)), n - i);
}

/* dx = f(x or y, g) */
INLINE void map_backward(int64_t n, const void *x, const void *g, void *dx,
                         vec (*f)(vec x, vec g)) {
    const stored *a = x, *b = g;
    stored *to = dx;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(a + i), load(b + i)));
    if (i < n) store_part(to + i, f(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}

/* The value of an activation at x, and g times its slope at x. Its forward and its backward share
 * the computation. */
typedef struct {
    vec value, dx;
} both;

INLINE void map_both(int64_t n, const void *x, const void *g, void *y, void *dx,
                     both (*f)(vec x, vec g)) {
    const stored *a = x, *b = g;
    stored *value = y, *to = dx;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const both p = f(load(a + i), load(b + i));
        store(value + i, p.value);
        store(to + i, p.dx);
    }
    if (i < n) {
        const both p = f(load_part(a + i, n - i), load_part(b + i, n - i));
        store_part(value + i, p.value, n - i);
        store_part(to + i, p.dx, n - i);
    }
}

/* y = f(x, a) */
INLINE void map_scalar(int64_t n, const void *x, real a, void *y, vec (*f)(vec x, vec a)) {
    const stored *from = x;
    stored *to = y;
    const vec s = splat(a);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(from + i), s));
    if (i < n) store_part(to + i, f(load_part(from + i, n - i), s), n - i);
}

/* dx = f(x, a, g) */
INLINE void map_scalar_backward(int64_t n, const void *x, real a, const void *g, void *dx,
                                vec (*f)(vec x, vec a, vec g)) {
    const stored *from = x, *cotangent = g;
    stored *to = dx;
    const vec s = splat(a);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(from + i), s, load(cotangent + i)));
    if (i < n) {
        const vec part = f(load_part(from + i, n - i), s, load_part(cotangent + i, n - i));
        store_part(to + i, part, n - i);
    }
}

INLINE void map_scalar_both(int64_t n, const void *x, real a, const void *g, void *y, void *dx,
                            both (*f)(vec x, vec a, vec g)) {
    const stored *from = x, *cotangent = g;
    stored *value = y, *to = dx;
    const vec s = splat(a);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const both p = f(load(from + i), s, load(cotangent + i));
        store(value + i, p.value);
        store(to + i, p.dx);
    }
    if (i < n) {
        const both p = f(load_part(from + i, n - i), s, load_part(cotangent + i, n - i));
        store_part(value + i, p.value, n - i);
        store_part(to + i, p.dx, n - i);
    }
}

#endif
