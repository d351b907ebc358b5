/* The kernels that move and convert elements of any dtype. */
#ifndef CTI_KERNELS_DATA_TMPL_H
#define CTI_KERNELS_DATA_TMPL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "element_tmpl.h"
#include "elementwise.h"

static void data_fill(int64_t n, double value, void *y) {
    const element e = element_of(value);
    element *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = e;
}

/* The condition is read as bytes, because compilers do not vectorize loops over bool. */
static inline __attribute__((always_inline)) void data_choose(int64_t n, const unsigned char *cond,
                                                              const element *a, bool sa,
                                                              const element *b, bool sb,
                                                              element *y) {
    if (n <= 0) return;
    const element a0 = *a, b0 = *b;
    for (int64_t i = 0; i < n; i++) {
        const element u = sa ? a[i] : a0, v = sb ? b[i] : b0;
        y[i] = cond[i] ? u : v;
    }
}

static void data_where(int64_t n, const bool *cond, int64_t sc, const void *a, int64_t sa,
                       const void *b, int64_t sb, void *y) {
    const unsigned char *bytes = (const unsigned char *)cond;
    if (sc && sa && sb) data_choose(n, bytes, a, true, b, true, y);
    else if (sc && sa) data_choose(n, bytes, a, true, b, false, y);
    else if (sc && sb) data_choose(n, bytes, a, false, b, true, y);
    else if (sc) data_choose(n, bytes, a, false, b, false, y);
    else if (n > 0) {
        const element *from = *bytes ? a : b;
        const int64_t step = *bytes ? sa : sb;
        element *to = y;
        for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
    }
}

/* Copies or adds a block that is small enough for the cache. The inner loop is along the dim in
 * which y has the smaller stride. */
static inline void copy_tile(int64_t m, int64_t n, const element *x, int64_t x_row, int64_t x_col,
                             element *y, int64_t y_row, int64_t y_col, bool add) {
    for (int64_t i = 0; i < m; i++, x += x_row, y += y_row) {
        if (add && x_col == 1 && y_col == 1)
            for (int64_t j = 0; j < n; j++) y[j] = element_plus(y[j], x[j]);
        else if (add)
            for (int64_t j = 0; j < n; j++) y[j * y_col] = element_plus(y[j * y_col], x[j * x_col]);
        else if (x_col == 1 && y_col == 1) memcpy(y, x, (size_t)n * sizeof *y);
        else if (y_col == 1)
            for (int64_t j = 0; j < n; j++) y[j] = x[j * x_col];
        else
            for (int64_t j = 0; j < n; j++) y[j * y_col] = x[j * x_col];
    }
}

static inline int64_t stride_size(int64_t stride) { return stride < 0 ? -stride : stride; }

static void data_copy2d(int64_t m, int64_t n, const void *from, int64_t x_row, int64_t x_col,
                        void *to, int64_t y_row, int64_t y_col, bool add) {
    const element *x = from;
    element *y = to;
    if (m <= 0 || n <= 0 || (!add && x == y && x_row == y_row && x_col == y_col)) return;
    const bool by_columns = n == 1 || (m > 1 && stride_size(y_row) < stride_size(y_col));
    if (by_columns) { /* exchange rows and columns */
        int64_t t = m;
        m = n, n = t;
        t = x_row, x_row = x_col, x_col = t;
        t = y_row, y_row = y_col, y_col = t;
    }
    if (m == 1 || stride_size(x_col) <= stride_size(x_row)) {
        copy_tile(m, n, x, x_row, x_col, y, y_row, y_col, add);
        return;
    }
    enum { TILE = 32 };
    for (int64_t i = 0; i < m; i += TILE)
        for (int64_t j = 0; j < n; j += TILE)
            copy_tile(m - i < TILE ? m - i : TILE, n - j < TILE ? n - j : TILE,
                      x + i * x_row + j * x_col, x_row, x_col, y + i * y_row + j * y_col, y_row,
                      y_col, add);
}

static void cast_f32(int64_t n, const void *x, void *y) {
    const element *from = x;
    float *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = (float)value_of(from[i]);
}
static void cast_f64(int64_t n, const void *x, void *y) {
    const element *from = x;
    double *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = (double)value_of(from[i]);
}
static void cast_i64(int64_t n, const void *x, void *y) {
    const element *from = x;
    int64_t *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = element_whole(from[i]);
}
static void cast_bool(int64_t n, const void *x, void *y) {
    const element *from = x;
    bool *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = value_of(from[i]) != 0;
}
static void cast_bf16(int64_t n, const void *x, void *y) {
    const element *from = x;
    uint16_t *to = y;
    for (int64_t i = 0; i < n; i++)
        to[i] = sizeof(element_value) == sizeof(float) ? cti_bf16_of_f32((float)value_of(from[i]))
                                                       : cti_bf16_narrow((double)value_of(from[i]));
}

/* Entries of cti_elementwise_kernels. */
#define DATA_KERNELS                                                                               \
    .where = data_where, .fill = data_fill, .copy2d = data_copy2d,                                 \
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16}

#endif
