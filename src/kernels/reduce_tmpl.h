/* Reductions of a row, or of every column of a block of rows. */
#ifndef CTI_KERNELS_REDUCE_TMPL_H
#define CTI_KERNELS_REDUCE_TMPL_H

#include "row_sum_tmpl.h"

static real row_sum(int64_t n, const stored *x) { return sum_terms(n, &(terms){.a = x}, t_a); }
static real row_max(int64_t n, const stored *x) { return max_terms(n, &(terms){.a = x}, t_a); }

/* Stores the first n elements of a quad. */
INLINE void store_quad(stored *y, quad q, int64_t n) {
    store_part(y, q.v0, n);
    store_part(y + LANES, q.v1, n - LANES);
    store_part(y + 2 * LANES, q.v2, n - 2 * LANES);
    store_part(y + 3 * LANES, q.v3, n - 3 * LANES);
}

static void reduce_sum(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const stored *from = x;
    stored *to = y;
    if (inner == 1 && stride == 1) {
        put_one(to, row_sum(n, from));
        return;
    }
    int64_t j = 0;
    for (; j + QUAD <= inner; j += QUAD) {
        quad s = sum_quads(n, stride, QUAD, &(terms){.a = from + j}, t_a);
        store_quad(to + j, s, QUAD);
    }
    if (j < inner) {
        quad s = sum_quads(n, stride, inner - j, &(terms){.a = from + j}, t_a);
        store_quad(to + j, s, inner - j);
    }
}

static void reduce_max(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const stored *from = x;
    stored *to = y;
    if (inner == 1 && stride == 1) {
        put_one(to, row_max(n, from));
        return;
    }
    for (int64_t j = 0; j < inner; j += LANES) {
        vec top = load_part(from + j, inner - j);
        for (int64_t i = 1; i < n; i++)
            top = v_max(top, load_part(from + i * stride + j, inner - j));
        store_part(to + j, top, inner - j);
    }
}

/* Sums LANES consecutive rows at once. The bits are the same as one by one. */
static void reduce_sum_rows(int64_t rows, int64_t n, const void *x, void *y) {
    const stored *from = x;
    for (int64_t r = 0; r < rows; r += LANES) {
        vec part[LANES] = {{0}};
        for (int l = 0; l < LANES && r + l < rows; l++)
            part[l] = sum_vector(n, &(terms){.a = from + (r + l) * n}, t_a);
        store_part((stored *)y + r, fold_rows(part, v_plus), rows - r);
    }
}
static void reduce_max_rows(int64_t rows, int64_t n, const void *x, void *y) {
    const stored *from = x;
    for (int64_t r = 0; r < rows; r += LANES) {
        vec part[LANES] = {{0}};
        for (int l = 0; l < LANES && r + l < rows; l++)
            part[l] = max_vector(n, &(terms){.a = from + (r + l) * n}, t_a);
        store_part((stored *)y + r, fold_rows(part, v_max), rows - r);
    }
}

static void reduce_min(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const stored *from = x;
    stored *to = y;
    if (inner == 1 && stride == 1) {
        vec least = splat((real)INFINITY);
        for (int64_t i = 0; i < n; i += LANES)
            least = v_min(least, blend(first_lanes(n - i), load_part(from + i, n - i), least));
        put_one(to, fold_lanes(least, v_min));
        return;
    }
    for (int64_t j = 0; j < inner; j += LANES) {
        vec least = load_part(from + j, inner - j);
        for (int64_t i = 1; i < n; i++)
            least = v_min(least, load_part(from + i * stride + j, inner - j));
        store_part(to + j, least, inner - j);
    }
}

INLINE bool same_real(real a, real b) { return a == b || (a != a && b != b); }
INLINE ivec same_lanes(vec a, vec b) { return (a == b) | ((a != a) & (b != b)); }

/* Returns the index of the row's first maximum. */
static int64_t row_argmax(int64_t n, const stored *x) {
    const real top = row_max(n, x);
    const vec tops = splat(top);
    int64_t i = 0;
    while (i + LANES <= n && !any_lane(same_lanes(load(x + i), tops))) i += LANES;
    while (i < n && !same_real(get_one(x + i), top)) i++;
    return i;
}

static void reduce_argmax(int64_t n, int64_t inner, const void *x, int64_t stride, void *y) {
    const stored *from = x;
    int64_t *to = y;
    if (inner == 1 && stride == 1) {
        *to = row_argmax(n, from);
        return;
    }
    enum { BLOCK = 64 };
    for (int64_t j = 0; j < inner; j += BLOCK) {
        const int width = inner - j < BLOCK ? (int)(inner - j) : BLOCK;
        real top[BLOCK];
        for (int k = 0; k < width; k++) top[k] = get_one(from + j + k), to[j + k] = 0;
        for (int64_t i = 1; i < n; i++)
            for (int k = 0; k < width; k++) {
                const real v = get_one(from + i * stride + j + k);
                if (v > top[k] || (v != v && top[k] == top[k])) top[k] = v, to[j + k] = i;
            }
    }
}

/* dx may be the same array as x, so elements are counted before dx overwrites any. */
static void reduce_max_backward(int64_t n, int64_t inner, const void *x, int64_t stride,
                                const void *y, const void *g, void *dx) {
    const stored *from = x, *top = y, *cotangent = g;
    stored *to = dx;
    if (inner == 1 && stride == 1) {
        int64_t count = 0;
        const real t = get_one(top);
        for (int64_t i = 0; i < n; i++) count += same_real(get_one(from + i), t);
        const real share = get_one(cotangent) / (real)count;
        for (int64_t i = 0; i < n; i++)
            put_one(to + i, same_real(get_one(from + i), t) ? share : 0);
        return;
    }
    for (int64_t j = 0; j < inner; j += LANES) {
        const int64_t left = inner - j;
        const vec t = load_part(top + j, left);
        vec count = {0};
        for (int64_t i = 0; i < n; i++)
            count += keep(same_lanes(load_part(from + i * stride + j, left), t), splat(1));
        const vec share = load_part(cotangent + j, left) / count;
        for (int64_t i = 0; i < n; i++) {
            stored *at = to + i * stride + j;
            store_part(at, keep(same_lanes(load_part(from + i * stride + j, left), t), share),
                       left);
        }
    }
}

static double reduce_sum_squares(int64_t n, const void *x) {
    const stored *from = x;
    enum { WIDTH = 32 };
    double sum[WIDTH] = {0};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        for (int l = 0; l < WIDTH; l += 64 / (int)sizeof(stored)) fetch(from + i + l);
        for (int l = 0; l < WIDTH; l++)
            sum[l] += (double)get_one(from + i + l) * get_one(from + i + l);
    }
    for (int l = 0; i + l < n; l++) sum[l] += (double)get_one(from + i + l) * get_one(from + i + l);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int l = 0; l < half; l++) sum[l] += sum[l + half];
    return sum[0];
}

INLINE bool any_number(int64_t n, const void *x, ivec (*test)(vec v)) {
    const stored *from = x;
    ivec found = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) found |= test(load(from + i));
    return any_lane(found | test(load_part(from + i, n - i)));
}

INLINE ivec lanes_of_nan(vec v) { return v != v; }
static bool reduce_has_nan(int64_t n, const void *x) { return any_number(n, x, lanes_of_nan); }

/* v - v is 0 for finite numbers, and NaN for others. */
INLINE ivec lanes_not_finite(vec v) { return v - v != splat(REAL(0.0)); }
static bool reduce_is_finite(int64_t n, const void *x) {
    return !any_number(n, x, lanes_not_finite);
}

#endif
