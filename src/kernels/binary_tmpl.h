/* Elementwise functions of two arrays, either of which may be a single repeated value (stride
 * 0). */
#ifndef CTI_KERNELS_BINARY_TMPL_H
#define CTI_KERNELS_BINARY_TMPL_H

#include "simd.h"

INLINE void zip_strides(int64_t n, const stored *a, bool sa, const stored *b, bool sb, stored *y,
                        vec (*f)(vec a, vec b)) {
    if (n <= 0) return;
    const vec a0 = splat(get_one(a)), b0 = splat(get_one(b));
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, f(sa ? load(a + i) : a0, sb ? load(b + i) : b0));
    if (i < n)
        store_part(y + i, f(sa ? load_part(a + i, n - i) : a0, sb ? load_part(b + i, n - i) : b0),
                   n - i);
}

/* One loop for each pair of strides: no branch inside. */
INLINE void zip_arrays(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y,
                       vec (*f)(vec a, vec b)) {
    if (sa && sb) zip_strides(n, a, true, b, true, y, f);
    else if (sa) zip_strides(n, a, true, b, false, y, f);
    else if (sb) zip_strides(n, a, false, b, true, y, f);
    else zip_strides(n, a, false, b, false, y, f);
}

INLINE vec v_add(vec a, vec b) { return a + b; }
INLINE vec v_sub(vec a, vec b) { return a - b; }
INLINE vec v_mul(vec a, vec b) { return a * b; }
INLINE vec v_div(vec a, vec b) { return a / b; }

static void zip_add(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip_arrays(n, a, sa, b, sb, y, v_add);
}
static void zip_sub(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip_arrays(n, a, sa, b, sb, y, v_sub);
}
static void zip_mul(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip_arrays(n, a, sa, b, sb, y, v_mul);
}
static void zip_div(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip_arrays(n, a, sa, b, sb, y, v_div);
}
static void zip_maximum(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip_arrays(n, a, sa, b, sb, y, v_max);
}
static void zip_minimum(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip_arrays(n, a, sa, b, sb, y, v_min);
}

/* da = g df/da for f = maximum or minimum: g if f picks a or if an operand is NaN, g / 2 at a tie,
 * otherwise 0. */
INLINE vec d_picked(ivec lost, ivec tie, vec g) {
    return blend(lost, splat(0), blend(tie, g * REAL(0.5), g));
}
INLINE vec d_maximum(vec a, vec b, vec g) { return d_picked(a < b, a == b, g); }
INLINE vec d_minimum(vec a, vec b, vec g) { return d_picked(a > b, a == b, g); }

INLINE void zip_backward(int64_t n, const stored *a, int64_t sa, const stored *b, int64_t sb,
                         const stored *g, stored *da, vec (*f)(vec a, vec b, vec g)) {
    for (int64_t i = 0; i < n; i += LANES) {
        vec x = sa ? load_part(a + i, n - i) : splat(get_one(a)),
            y = sb ? load_part(b + i, n - i) : splat(get_one(b));
        store_part(da + i, f(x, y, load_part(g + i, n - i)), n - i);
    }
}

static void zip_maximum_backward(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb,
                                 const void *g, void *da) {
    zip_backward(n, a, sa, b, sb, g, da, d_maximum);
}
static void zip_minimum_backward(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb,
                                 const void *g, void *da) {
    zip_backward(n, a, sa, b, sb, g, da, d_minimum);
}

#endif
