/* The row work of attention in blocks: what lies between the matrix products that ops/attention_*.c make of gemm.h.
 *
 * Scores are computed a panel at a time: rows of NR lanes, the form in which a product reads its B, so that the weights go into the
 * next product where they stand. Going forward the lanes are queries: the running maximum and sum of each query are a lane, and
 * nothing is reduced across lanes. Going backward the lanes are keys. `width` says how many lanes are in use: LANES or NR. */
#ifndef CTI_KERNELS_ATTENTION_TMPL_H
#define CTI_KERNELS_ATTENTION_TMPL_H

#include "gemm_tmpl.h"
#include "row_sum_tmpl.h"
#include "vmath.h"

/* Runs f with the number of vectors in a row as a constant. */
#define ATTENTION_ROWS(width, f, ...) ((width) > LANES ? f(NV, __VA_ARGS__) : f(1, __VA_ARGS__))

/* a > b ? a : b, so NaN in a does not win: 2^(NaN - max) brings it back. By lanes, as compilers make one instruction of that. */
INLINE vec higher(vec a, vec b) {
    for (int l = 0; l < LANES; l++) b[l] = a[l] > b[l] ? a[l] : b[l];
    return b;
}

INLINE vec lane_numbers(void) {
    real lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = (real)l;
    return load(lane);
}

/* ---- what masks do to scores ---- */

/* The lowest finite value, often used for -inf, stays finite when scaled: a row of nothing else is a row of equals. */
INLINE void bias_rows(const int vectors, int64_t rows, real *s, const real *bias, int64_t bias_row) {
    const vec hidden = splat(-(real)INFINITY), least = splat(sizeof(real) == 4 ? -FLT_MAX : (real)-DBL_MAX);
    for (int64_t i = 0; i < rows; i++, s += NR, bias += bias_row)
        for (int j = 0; j < vectors; j++) {
            const vec b = load(bias + j * LANES), scaled = b * REAL(1.44269504088896340736);
            store(s + j * LANES, select(b == hidden, hidden, load(s + j * LANES) + select(scaled < least, least, scaled)));
        }
}

static void attention_bias(int64_t rows, int64_t width, void *s, const void *bias, int64_t bias_row) {
    ATTENTION_ROWS(width, bias_rows, rows, s, bias, bias_row);
}

INLINE void causal_rows(const int vectors, int64_t rows, int64_t first, bool low, real *s) {
    const vec hidden = splat(-(real)INFINITY), lane = lane_numbers();
    for (int64_t i = 0; i < rows; i++, s += NR) {
        const int64_t count = first + i < 0 ? 0 : first + i > NR ? NR : first + i;
        for (int j = 0; j < vectors; j++) {
            const ivec below = lane < splat((real)(count - j * LANES));
            store(s + j * LANES, select(low ? below : ~below, hidden, load(s + j * LANES)));
        }
    }
}

static void attention_causal(int64_t rows, int64_t width, int64_t first, bool low, void *s) {
    ATTENTION_ROWS(width, causal_rows, rows, first, low, s);
}

static void attention_hide(int64_t n, const bool *mask, int64_t stride, void *y) {
    real *to = y;
    if (stride == 1) for (int64_t i = 0; i < n; i++) to[i] = mask[i] ? 0 : -(real)INFINITY;
    else for (int64_t i = 0; i < n; i++) to[i] = mask[i * stride] ? 0 : -(real)INFINITY;
}

/* ---- forward: the online softmax (Milakov & Gimelshein 2018, arXiv:1805.02867) ---- */

INLINE void scale_row(int64_t n, const real *x, real factor, real *y) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) store(y + j, load(x + j) * factor);
    if (j < n) store_part(y + j, load_part(x + j, n - j) * factor, n - j);
}

INLINE bool soften_rows(const int vectors, int64_t n, real *s, real *max, real *sum, int64_t d, real *out) {
    vec top[NV], base[NV], total[NV], factor[NV];
    for (int j = 0; j < vectors; j++) top[j] = load(max + j * LANES);
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < vectors; j++) top[j] = higher(load(s + i * NR + j * LANES), top[j]);
    bool grown = false, begun = false;
    for (int j = 0; j < vectors; j++) {
        const vec old = load(max + j * LANES);
        grown = grown || any_lane(old != top[j]);
        base[j] = select(top[j] == -(real)INFINITY, splat(0), top[j]);
        factor[j] = v_exp2_below(old - base[j]);
        total[j] = splat(0);
        store(max + j * LANES, top[j]);
    }
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < vectors; j++) {
            const vec e = v_exp2_below(load(s + i * NR + j * LANES) - base[j]);
            store(s + i * NR + j * LANES, e);
            total[j] += e;
        }
    for (int j = 0; j < vectors; j++) {
        const vec before = load(sum + j * LANES);
        begun = begun || any_lane(before != REAL(0.0));
        store(sum + j * LANES, (grown ? before * factor[j] : before) + total[j]);
    }
    if (begun && grown)
        for (int i = 0; i < vectors * LANES; i++) {
            const real by = factor[i / LANES][i % LANES];
            if (by != 1) scale_row(d, out + i * d, by, out + i * d);
        }
    return begun;
}

static bool attention_soften(int64_t n, int64_t width, void *s, void *max, void *sum, int64_t d, void *out) {
    return ATTENTION_ROWS(width, soften_rows, n, s, max, sum, d, out);
}

static void attention_finish(int64_t rows, int64_t d, void *max_, void *sum_, const void *out, void *y, int64_t y_row) {
    real *max = max_, *sum = sum_;
    for (int64_t i = 0; i < rows; i++) {
        real *to = (real *)y + i * y_row;
        const real inverse = 1 / sum[i];
        if (sum[i] == 0) {
            max[i] = 0;
            for (int64_t j = 0; j < d; j++) to[j] = 0;
        } else {
            sum[i] = inverse;
            scale_row(d, (const real *)out + i * d, inverse, to);
        }
    }
}

/* ---- backward ---- */

/* Of a weight of 1 dp and dot are the same number, but for their rounding: other weights are below
 * the last place of 1. */
INLINE void scores_rows(const int vectors, int64_t rows, real *s, const real *dp, const real *max, const real *inverse, const real *dot,
                        real *ds, int64_t ds_row) {
    for (int64_t i = 0; i < rows; i++, s += NR, dp += NR, ds += ds_row) {
        const vec m = splat(max[i]), z = splat(inverse[i]), d = splat(dot[i]);
        for (int j = 0; j < vectors; j++) {
            const vec p = v_exp2_below(load(s + j * LANES) - m) * z;
            store(s + j * LANES, p);
            store(ds + j * LANES,
                  keep(p != REAL(0.0), keep(p != REAL(1.0), p) * (load(dp + j * LANES) - d)));
        }
    }
}

static void attention_scores(int64_t rows, int64_t width, void *s, const void *dp, const void *max, const void *inverse, const void *dot,
                             void *ds, int64_t ds_row) {
    ATTENTION_ROWS(width, scores_rows, rows, s, dp, max, inverse, dot, ds, ds_row);
}

INLINE void weights_rows(const int vectors, int64_t rows, real *s, const real *max, const real *inverse, real share) {
    for (int64_t i = 0; i < rows; i++, s += NR) {
        const vec m = splat(max[i]), z = splat(inverse[i] * share);
        for (int j = 0; j < vectors; j++) store(s + j * LANES, v_exp2_below(load(s + j * LANES) - m) * z);
    }
}

static void attention_weights(int64_t rows, int64_t width, void *s, const void *max, const void *inverse, double share) {
    ATTENTION_ROWS(width, weights_rows, rows, s, max, inverse, (real)share);
}

/* LANES rows at a time: a vector of partial sums each, turned so that the sums of all are one vector. */
static void attention_dots(int64_t rows, int64_t n, const void *a_, int64_t a_row, const void *b_, int64_t b_row, void *y_) {
    const real *a = a_, *b = b_;
    real *y = y_;
    for (int64_t i = 0; i < rows; i += LANES) {
        gemm_vec sum[LANES] = {0};
        for (int l = 0; l < LANES && i + l < rows; l++) {
            const real *of_a = a + (i + l) * a_row, *of_b = b + (i + l) * b_row;
            int64_t j = 0;
            for (; j + LANES <= n; j += LANES) sum[l] += gemm_load(of_a + j) * gemm_load(of_b + j);
            if (j < n) sum[l] += gemm_load_if(of_a + j, true, n - j) * gemm_load_if(of_b + j, true, n - j);
        }
        gemm_store_if(y + i, gemm_sums(sum), true, rows - i);
    }
}

#define ATTENTION_KERNELS \
    {LANES, attention_bias, attention_causal, attention_hide, attention_soften, attention_finish, attention_scores, attention_weights, \
     attention_dots}

#endif
