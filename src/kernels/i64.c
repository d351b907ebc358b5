/* The kernels of the dtype i64, which indices have. Arithmetic wraps on overflow, because it is
 * done on unsigned numbers. */
#include "elementwise.h"
#include "rows.h"
#include "unary.h"

#define CTI_ELEMENT_I64
#include "compare_tmpl.h"
#include "data_tmpl.h"

static inline element i64_minus(element a, element b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline element i64_times(element a, element b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline element i64_greater(element a, element b) { return a > b ? a : b; }
static inline element i64_lesser(element a, element b) { return a < b ? a : b; }

static inline __attribute__((always_inline)) void i64_zip(int64_t n, const void *a, int64_t sa,
                                                          const void *b, int64_t sb, void *y,
                                                          element (*f)(element, element)) {
    const element *from_a = a, *from_b = b;
    element *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = f(from_a[i * sa], from_b[i * sb]);
}

static void i64_add(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    i64_zip(n, a, sa, b, sb, y, element_plus);
}
static void i64_sub(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    i64_zip(n, a, sa, b, sb, y, i64_minus);
}
static void i64_mul(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    i64_zip(n, a, sa, b, sb, y, i64_times);
}
static void i64_maximum(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    i64_zip(n, a, sa, b, sb, y, i64_greater);
}
static void i64_minimum(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    i64_zip(n, a, sa, b, sb, y, i64_lesser);
}

static void i64_neg(int64_t n, const void *x, void *y) {
    for (int64_t i = 0; i < n; i++) ((element *)y)[i] = i64_minus(0, ((const element *)x)[i]);
}
static void i64_abs(int64_t n, const void *x, void *y) {
    const element *from = x;
    for (int64_t i = 0; i < n; i++)
        ((element *)y)[i] = from[i] < 0 ? i64_minus(0, from[i]) : from[i];
}
static void i64_scale(int64_t n, const void *x, double a, void *y) {
    const element e = whole_of(a);
    i64_zip(n, x, 1, &e, 0, y, i64_times);
}
static void i64_add_scalar(int64_t n, const void *x, double a, void *y) {
    const element e = whole_of(a);
    i64_zip(n, x, 1, &e, 0, y, element_plus);
}

static void i64_axpy(int64_t n, double a, const void *x, void *y) {
    const element e = whole_of(a), *from = x;
    element *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = element_plus(to[i], i64_times(e, from[i]));
}

static void i64_arange(int64_t n, int64_t begin, double start, double step, void *y) {
    for (int64_t i = 0; i < n; i++)
        ((element *)y)[i] = whole_of(start + (double)(begin + i) * step);
}

static void i64_sum(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    element *to = y;
    if (n <= 0 && inner > 0) memset(to, 0, (size_t)inner * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            to[j] = element_plus(i ? to[j] : 0, from[i * stride + j]);
}

static void i64_max(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    element *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            to[j] = i ? i64_greater(to[j], from[i * stride + j]) : from[j];
}

static void i64_min(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    element *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            to[j] = i ? i64_lesser(to[j], from[i * stride + j]) : from[j];
}

static void i64_sign(int64_t n, const void *x, void *y) {
    const element *from = x;
    for (int64_t i = 0; i < n; i++) ((element *)y)[i] = (from[i] > 0) - (from[i] < 0);
}

/* Returns the nearest int64_t to a whole number or an infinity. */
static element i64_bound_of(double x) { return x >= 0x1p63 ? INT64_MAX : whole_of(x); }
static void i64_clamp(int64_t n, const void *x, double low, double high, void *y) {
    const element *from = x, least = i64_bound_of(low), most = i64_bound_of(high);
    for (int64_t i = 0; i < n; i++)
        ((element *)y)[i] = i64_lesser(most, i64_greater(least, from[i]));
}

static void i64_cumsum(int64_t n, int64_t inner, const void *x, int64_t stride, bool reverse,
                       void *y) {
    const element *from = x;
    element *to = y;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = (reverse ? n - 1 - k : k) * stride,
                      before = at + (reverse ? stride : -stride);
        for (int64_t j = 0; j < inner; j++)
            to[at + j] = element_plus(k ? to[before + j] : 0, from[at + j]);
    }
}

static void i64_argmax(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const element *from = x;
    int64_t *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++)
            if (!i || from[i * stride + j] > from[to[j] * stride + j]) to[j] = i;
}

void cti_kernels_i64(cti_kernels *table) {
    static const cti_unary_kernels unary = {
        .neg = i64_neg,
        .abs = i64_abs,
        .scale = i64_scale,
        .add_scalar = i64_add_scalar,
        .sign = i64_sign,
        .clamp = i64_clamp,
    };
    static const cti_elementwise_kernels elementwise = {
        COMPARE_KERNELS,        DATA_KERNELS,         .add = i64_add,
        .sub = i64_sub,         .mul = i64_mul,       .maximum = i64_maximum,
        .minimum = i64_minimum, .arange = i64_arange, .axpy = i64_axpy,
    };
    static const cti_row_kernels rows = {
        .cumsum = i64_cumsum,
        .min = i64_min,
        .sum = i64_sum,
        .max = i64_max,
        .argmax = i64_argmax,
    };
    table->unary = &unary;
    table->elementwise = &elementwise;
    table->rows = &rows;
}
