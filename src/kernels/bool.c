/* The kernels of bool: masks. */
#include "kernels.h"

typedef bool element;
#define NUMBER(x) (x)
static inline element element_of(double value) { return value != 0; }
static inline int64_t whole(element x) { return x; }
static inline element plus(element a, element b) { return a || b; }

#include "compare_tmpl.h"
#include "data_tmpl.h"

static inline bool is_and(bool a, bool b) { return a & b; }
static inline bool is_or(bool a, bool b) { return a | b; }

static void logical_and(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare(n, a, sa, b, sb, y, is_and);
}
static void logical_or(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare(n, a, sa, b, sb, y, is_or);
}
static void logical_not(int64_t n, const void *x, void *y) {
    const unsigned char *from = x; /* bytes: of bool the compiler makes no vectors */
    unsigned char *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = from[i] ^ 1;
}

/* How many are true. */
static void reduce_sum(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const bool *from = x;
    int64_t *to = y;
    if (inner > 0) memset(to, 0, (size_t)inner * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] += from[i * stride + j];
}

static void reduce_max(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const bool *from = x;
    bool *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] = (i && to[j]) | from[i * stride + j];
}

static void reduce_min(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const bool *from = x;
    bool *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] = (!i || to[j]) & from[i * stride + j];
}

extern const cti_kernels cti_kernels_bool;
const cti_kernels cti_kernels_bool = {
    .eq = compare_eq,
    .ne = compare_ne,
    .lt = compare_lt,
    .le = compare_le,
    .gt = compare_gt,
    .ge = compare_ge,
    .logical_and = logical_and,
    .logical_or = logical_or,
    .logical_not = logical_not,
    .where = data_where,
    .fill = data_fill,
    .copy2d = data_copy2d,
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16},
    .sum = reduce_sum,
    .max = reduce_max,
    .min = reduce_min,
};
