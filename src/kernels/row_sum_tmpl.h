/* The two loops that the kernels of reductions and rows are made of: a sum of terms and a row of
 * terms. A term is a function of its operands: the vectors of up to three arrays at one place, and
 * up to three constants.
 *
 *     INLINE vec t_dot(operands o) { return o.a * o.b; } */
#ifndef CTI_KERNELS_ROW_SUM_TMPL_H
#define CTI_KERNELS_ROW_SUM_TMPL_H

#include "horizontal_tmpl.h"

/* The arrays of a row, and three constants. The name of a constant is its place in the expression
 * ((a - shift) - rest) scale, to which most terms are similar. */
typedef struct {
    const stored *a, *b, *c; /* b or c may be NULL: an element of b is then 1, and one of c 0 */
    vec shift, rest, scale;
} terms;

typedef struct {
    vec a, b, c, shift, rest, scale;
} operands;

typedef vec term(operands o);

/* Returns the operands of a vector of elements from i on; n elements are left. */
INLINE operands operands_at(const terms *t, int64_t i, int64_t n) {
    /* c is loaded first: GCC then tests for NULL once for several vectors */
    const vec c = t->c ? load_part(t->c + i, n) : splat(0);
    const vec b = t->b ? load_part(t->b + i, n) : splat(1);
    return (operands){.a = load_part(t->a + i, n),
                      .b = b,
                      .c = c,
                      .shift = t->shift,
                      .rest = t->rest,
                      .scale = t->scale};
}
INLINE vec term_at(const terms *t, int64_t i, int64_t n, term *f) {
    return f(operands_at(t, i, n));
}

/* y[i] = term i. y may be one of the arrays. */
INLINE void row_map(int64_t n, const terms *t, stored *y, term *f) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, term_at(t, i, LANES, f));
    if (i < n) store_part(y + i, term_at(t, i, n - i, f), n - i);
}

/* Four vectors of sums, whose additions are independent and overlap. */
typedef struct {
    vec v0, v1, v2, v3;
} quad;
enum { QUAD = 4 * LANES };

INLINE quad quad_add(quad x, quad y) {
    return (quad){x.v0 + y.v0, x.v1 + y.v1, x.v2 + y.v2, x.v3 + y.v3};
}

/* Returns the terms of elements [i, i + n), and zeros beyond; n >= QUAD counts as QUAD. */
INLINE quad quad_at(const terms *t, int64_t i, int64_t n, term *f) {
    if (n >= QUAD)
        return (quad){term_at(t, i, LANES, f), term_at(t, i + LANES, LANES, f),
                      term_at(t, i + 2 * LANES, LANES, f), term_at(t, i + 3 * LANES, LANES, f)};
    vec v[4] = {{0}, {0}, {0}, {0}};
    UNROLL
    for (int k = 0; k < 4; k++) {
        const int64_t at = k * LANES;
        if (at < n) v[k] = keep(first_lanes(n - at), term_at(t, i + at, n - at, f));
    }
    return (quad){v[0], v[1], v[2], v[3]};
}

/* Returns the sum over begin <= k < end, in order, of the n <= QUAD terms at k step, side by
 * side. */
INLINE quad sum_run(int64_t begin, int64_t end, int64_t step, int64_t n, const terms *t, term *f) {
    quad sum = quad_at(t, begin * step, n, f);
    for (int64_t k = begin + 1; k < end; k++) sum = quad_add(sum, quad_at(t, k * step, n, f));
    return sum;
}
/* Returns the sum over k < count of the n <= QUAD terms at k step, side by side. Runs of 16 are
 * summed in order. Then two runs are added, two such pairs, and so on, like the carries of a binary
 * counter: the error grows with 16 + log2 count instead of count. */
INLINE quad sum_quads(int64_t count, int64_t step, int64_t n, const terms *t, term *f) {
    enum { RUN = 16 };
    if (count <= 0) return (quad){0};
    if (count <= RUN) return sum_run(0, count, step, n, t, f);
    quad level[64], sum;
    int depth = 0;
    for (int64_t k = 0, runs = 0; k < count; k += RUN, runs++) {
        sum = sum_run(k, count - k < RUN ? count : k + RUN, step, n, t, f);
        for (int64_t carry = runs; carry & 1; carry >>= 1) sum = quad_add(level[--depth], sum);
        level[depth++] = sum;
    }
    sum = level[--depth];
    while (depth) sum = quad_add(level[--depth], sum);
    return sum;
}

/* Returns a vector whose lanes add up to the sum of a row's n terms. */
INLINE vec sum_vector(int64_t n, const terms *t, term *f) {
    if (n <= LANES) return keep(first_lanes(n), term_at(t, 0, n, f));
    quad s = {0};
    if (n >= QUAD) s = sum_quads(n / QUAD, QUAD, QUAD, t, f);
    if (n % QUAD) s = quad_add(s, quad_at(t, n - n % QUAD, n % QUAD, f));
    return (s.v0 + s.v1) + (s.v2 + s.v3);
}
INLINE real sum_terms(int64_t n, const terms *t, term *f) { return sum_lanes(sum_vector(n, t, f)); }

/* Returns a vector whose largest lane is the largest of a row's n terms. A NaN wins; the largest of
 * no terms is -inf. */
INLINE vec max_vector(int64_t n, const terms *t, term *f) {
    const vec least = splat((real)-INFINITY);
    quad top = {least, least, least, least};
    int64_t i = 0;
    for (; i + QUAD <= n; i += QUAD) {
        const quad q = quad_at(t, i, QUAD, f);
        top = (quad){v_max(top.v0, q.v0), v_max(top.v1, q.v1), v_max(top.v2, q.v2),
                     v_max(top.v3, q.v3)};
    }
    for (; i < n; i += LANES)
        top.v0 = v_max(top.v0, blend(first_lanes(n - i), term_at(t, i, n - i, f), least));
    return v_max(v_max(top.v0, top.v1), v_max(top.v2, top.v3));
}
INLINE real max_terms(int64_t n, const terms *t, term *f) { return max_lanes(max_vector(n, t, f)); }

/* The terms of up to three sums that one pass over a row computes. */
typedef struct {
    vec v[3];
} triple;
typedef triple triple_term(operands o);
INLINE triple triple_at(const terms *t, int64_t i, int64_t n, triple_term *f) {
    return f(operands_at(t, i, n));
}
enum { TRIPLE_BLOCK = 32 * LANES };

/* Returns the sums of a block of elements [begin, end), whose lanes are not yet added up. A lane
 * has at most 16 terms of each of two accumulators. */
INLINE triple triple_block(const int count, int64_t begin, int64_t end, const terms *t,
                           triple_term *f) {
    triple even = {{{0}, {0}, {0}}}, odd = even;
    int64_t i = begin;
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
        const triple p = triple_at(t, i, LANES, f), q = triple_at(t, i + LANES, LANES, f);
        for (int k = 0; k < count; k++) even.v[k] += p.v[k], odd.v[k] += q.v[k];
    }
    for (; i < end; i += LANES) {
        const triple p = triple_at(t, i, end - i, f);
        for (int k = 0; k < count; k++) even.v[k] += keep(first_lanes(end - i), p.v[k]);
    }
    for (int k = 0; k < count; k++) even.v[k] += odd.v[k];
    return even;
}

/* Computes `count` sums over a row. The sums of blocks are added in f64. */
INLINE void sum_triples(const int count, int64_t n, const terms *t, triple_term *f, double sum[3]) {
    for (int k = 0; k < count; k++) sum[k] = 0;
    for (int64_t i = 0; i < n; i += TRIPLE_BLOCK) {
        const triple part =
            triple_block(count, i, n - i < TRIPLE_BLOCK ? n : i + TRIPLE_BLOCK, t, f);
        for (int k = 0; k < count; k++) sum[k] += (double)sum_lanes(part.v[k]);
    }
}

INLINE vec t_a(operands o) { return o.a; }
INLINE vec t_dot(operands o) { return o.a * o.b; }

#endif
