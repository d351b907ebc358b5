/* Comparisons of elements of any dtype. The results are bool. */
#ifndef CTI_KERNELS_COMPARE_TMPL_H
#define CTI_KERNELS_COMPARE_TMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "element_tmpl.h"
#include "elementwise.h"

/* Each common pair of strides has a loop of its own, which compilers vectorize. */
static inline __attribute__((always_inline)) void compare_arrays(int64_t n, const void *a,
                                                                 int64_t sa, const void *b,
                                                                 int64_t sb, void *y,
                                                                 bool (*f)(element, element)) {
    const element *from_a = a, *from_b = b;
    bool *to = y;
    if (sa && sb) {
        for (int64_t i = 0; i < n; i++) to[i] = f(from_a[i], from_b[i]);
    } else if (sa && n > 0) {
        const element e = *from_b;
        for (int64_t i = 0; i < n; i++) to[i] = f(from_a[i], e);
    } else if (n > 0) {
        const element e = *from_a;
        for (int64_t i = 0; i < n; i++) to[i] = f(e, from_b[i * sb]);
    }
}

static inline bool is_eq(element a, element b) { return value_of(a) == value_of(b); }
static inline bool is_ne(element a, element b) { return value_of(a) != value_of(b); }
static inline bool is_lt(element a, element b) { return value_of(a) < value_of(b); }
static inline bool is_le(element a, element b) { return value_of(a) <= value_of(b); }

static void compare_eq(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, a, sa, b, sb, y, is_eq);
}
static void compare_ne(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, a, sa, b, sb, y, is_ne);
}
static void compare_lt(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, a, sa, b, sb, y, is_lt);
}
static void compare_le(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, a, sa, b, sb, y, is_le);
}
static void compare_gt(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, b, sb, a, sa, y, is_lt);
}
static void compare_ge(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, b, sb, a, sa, y, is_le);
}

/* Entries of cti_elementwise_kernels. */
#define COMPARE_KERNELS                                                                            \
    .eq = compare_eq, .ne = compare_ne, .lt = compare_lt, .le = compare_le, .gt = compare_gt,      \
    .ge = compare_ge

#endif
