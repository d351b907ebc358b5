/* The kernels of i64: indices. Arithmetic wraps on overflow, being done on unsigned numbers. */
#include "kernels.h"
#include "to_int64_tmpl.h"

typedef int64_t element;
#define NUMBER(x) (x)
static inline element element_of(double value) { return whole_of(value); }
static inline int64_t whole(element x) { return x; }
static inline element plus(element a, element b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

#include "compare_tmpl.h"
#include "data_tmpl.h"

static inline element minus(element a, element b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline element times(element a, element b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline element greater(element a, element b) { return a > b ? a : b; }
static inline element lesser(element a, element b) { return a < b ? a : b; }

static inline __attribute__((always_inline)) void zip(int64_t n, const void *a, int64_t sa,
                                                      const void *b, int64_t sb, void *y,
                                                      element (*f)(element, element)) {
    const element *from_a = a, *from_b = b;
    element *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = f(from_a[i * sa], from_b[i * sb]);
}

static void zip_add(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip(n, a, sa, b, sb, y, plus);
}
static void zip_sub(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip(n, a, sa, b, sb, y, minus);
}
static void zip_mul(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip(n, a, sa, b, sb, y, times);
}
static void zip_maximum(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip(n, a, sa, b, sb, y, greater);
}
static void zip_minimum(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    zip(n, a, sa, b, sb, y, lesser);
}

static void map_neg(int64_t n, const void *x, void *y) {
    for (int64_t i = 0; i < n; i++) ((element *)y)[i] = minus(0, ((const element *)x)[i]);
}
static void map_abs(int64_t n, const void *x, void *y) {
    const element *from = x;
    for (int64_t i = 0; i < n; i++) ((element *)y)[i] = from[i] < 0 ? minus(0, from[i]) : from[i];
}
static void map_scale(int64_t n, const void *x, double a, void *y) {
    const element e = whole_of(a);
    zip(n, x, 1, &e, 0, y, times);
}
static void map_add_scalar(int64_t n, const void *x, double a, void *y) {
    const element e = whole_of(a);
    zip(n, x, 1, &e, 0, y, plus);
}

static void axpy(int64_t n, double a, const void *x, void *y) {
    const element e = whole_of(a), *from = x;
    element *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = plus(to[i], times(e, from[i]));
}

static void arange(int64_t n, int64_t begin, double start, double step, void *y) {
    for (int64_t i = 0; i < n; i++)
        ((element *)y)[i] = whole_of(start + (double)(begin + i) * step);
}

static void reduce_sum(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    element *to = y;
    if (n <= 0 && inner > 0) memset(to, 0, (size_t)inner * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] = plus(i ? to[j] : 0, from[i * stride + j]);
}

static void reduce_max(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    element *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            to[j] = i ? greater(to[j], from[i * stride + j]) : from[j];
}

static void reduce_min(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    element *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            to[j] = i ? lesser(to[j], from[i * stride + j]) : from[j];
}

static void map_sign(int64_t n, const void *x, void *y) {
    const element *from = x;
    for (int64_t i = 0; i < n; i++) ((element *)y)[i] = (from[i] > 0) - (from[i] < 0);
}

/* The nearest integer that there is to a whole number or an infinity. */
static element bound_of(double x) { return x >= 0x1p63 ? INT64_MAX : whole_of(x); }
static void clamp(int64_t n, const void *x, double low, double high, void *y) {
    const element *from = x, least = bound_of(low), most = bound_of(high);
    for (int64_t i = 0; i < n; i++) ((element *)y)[i] = lesser(most, greater(least, from[i]));
}

static void cumsum(int64_t n, int64_t inner, const void *x, int64_t stride, bool reverse, void *y) {
    const element *from = x;
    element *to = y;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = (reverse ? n - 1 - k : k) * stride,
                      before = at + (reverse ? stride : -stride);
        for (int64_t j = 0; j < inner; j++) to[at + j] = plus(k ? to[before + j] : 0, from[at + j]);
    }
}

static void reduce_argmax(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    int64_t *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            if (!i || from[i * stride + j] > from[to[j] * stride + j]) to[j] = i;
}

extern const cti_kernels cti_kernels_i64;
const cti_kernels cti_kernels_i64 = {
    .neg = map_neg,
    .abs = map_abs,
    .add = zip_add,
    .sub = zip_sub,
    .mul = zip_mul,
    .maximum = zip_maximum,
    .minimum = zip_minimum,
    .eq = compare_eq,
    .ne = compare_ne,
    .lt = compare_lt,
    .le = compare_le,
    .gt = compare_gt,
    .ge = compare_ge,
    .scale = map_scale,
    .add_scalar = map_add_scalar,
    .where = data_where,
    .fill = data_fill,
    .arange = arange,
    .axpy = axpy,
    .copy2d = data_copy2d,
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16},
    .sign = map_sign,
    .clamp = clamp,
    .cumsum = cumsum,
    .min = reduce_min,
    .sum = reduce_sum,
    .max = reduce_max,
    .argmax = reduce_argmax,
};
