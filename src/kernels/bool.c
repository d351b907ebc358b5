/* The kernels of the dtype bool, which masks have. */
#include "elementwise.h"
#include "rows.h"
#include "unary.h"

#define CTI_ELEMENT_BOOL
#include "compare_tmpl.h"
#include "data_tmpl.h"

static inline bool is_and(bool a, bool b) { return a & b; }
static inline bool is_or(bool a, bool b) { return a | b; }

static void bool_and(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, a, sa, b, sb, y, is_and);
}
static void bool_or(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y) {
    compare_arrays(n, a, sa, b, sb, y, is_or);
}
static void bool_not(int64_t n, const void *x, void *y) {
    const unsigned char *from = x; /* bytes, because compilers do not vectorize loops over bool */
    unsigned char *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = from[i] ^ 1;
}

/* y[j] is the number of true elements, an int64_t. */
static void bool_sum(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const bool *from = x;
    int64_t *to = y;
    if (inner > 0) memset(to, 0, (size_t)inner * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] += from[i * stride + j];
}

static void bool_max(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const bool *from = x;
    bool *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] = (i && to[j]) | from[i * stride + j];
}

static void bool_min(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const bool *from = x;
    bool *to = y;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) to[j] = (!i || to[j]) & from[i * stride + j];
}

void cti_kernels_bool(cti_kernels *table) {
    static const cti_unary_kernels unary = {
        .logical_not = bool_not,
    };
    static const cti_elementwise_kernels elementwise = {
        COMPARE_KERNELS,
        DATA_KERNELS,
        .logical_and = bool_and,
        .logical_or = bool_or,
    };
    static const cti_row_kernels rows = {
        .sum = bool_sum,
        .max = bool_max,
        .min = bool_min,
    };
    table->elementwise = &elementwise;
    table->unary = &unary;
    table->rows = &rows;
}
