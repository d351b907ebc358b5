/* The kernels that attention runs on scores between its matrix products. ops/attention/ computes
 * the products with the gemm kernels.
 *
 * A score panel is a block of C as wide as the micro-kernel's tile: its rows have NR numbers, which
 * are called lanes. The next product reads the panel in place as its A, transposed: row stride 1,
 * column stride NR. Forward computes S^T: rows are keys and lanes are queries, so a query's running
 * maximum and sum stay in one lane and nothing is reduced across lanes. Backward computes S: rows
 * are queries and lanes are keys. Only the first `width` lanes of each row are computed, where
 * width is LANES or NR. */
#ifndef CTI_KERNELS_ATTENTION_TMPL_H
#define CTI_KERNELS_ATTENTION_TMPL_H

#include "gemm_tmpl.h"
#include "row_sum_tmpl.h"
#include "vmath.h"

/* Calls f with the number of vectors in `width` lanes. This number is a compile-time constant in
 * each of the two calls, so that the inner loops of f are unrolled. */
#define ATTENTION_ROWS(width, f, ...) ((width) > LANES ? f(NV, __VA_ARGS__) : f(1, __VA_ARGS__))

/* Returns a > b ? a : b for scores a and a maximum b. A score that is NaN does not change the
 * maximum; its weight 2^(NaN - max) is NaN, and so is the output. Compilers turn this loop over
 * lanes into one max instruction. */
INLINE vec attention_max(vec a, vec b) {
    for (int l = 0; l < LANES; l++) b[l] = a[l] > b[l] ? a[l] : b[l];
    return b;
}

INLINE vec lane_numbers(void) {
    real lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = (real)l;
    return load(lane);
}

/* ---- masks ---- */

/* Adds biases in units of log 2. A finite bias stays finite when it is divided by log 2: programs
 * often use the lowest finite value for "masked", and if all keys of a query have this bias they
 * get equal weights, whereas a bias of -inf gives weights of zero. */
INLINE void add_bias_rows(const int vectors, int64_t rows, real *s, const real *bias,
                          int64_t bias_row) {
    const vec minus_inf = splat(-(real)INFINITY),
              lowest = splat(sizeof(real) == 4 ? -FLT_MAX : (real)-DBL_MAX);
    for (int64_t i = 0; i < rows; i++, s += NR, bias += bias_row)
        for (int j = 0; j < vectors; j++) {
            const vec b = load(bias + j * LANES), scaled = b * REAL(1.44269504088896340736);
            const vec sum = load(s + j * LANES) + blend(scaled < lowest, lowest, scaled);
            store(s + j * LANES, blend(b == minus_inf, minus_inf, sum));
        }
}

static void attention_add_bias(int64_t rows, int64_t width, void *s, const void *bias,
                               int64_t bias_row) {
    ATTENTION_ROWS(width, add_bias_rows, rows, s, bias, bias_row);
}

INLINE void mask_causal_rows(const int vectors, int64_t rows, int64_t first, bool before, real *s) {
    const vec minus_inf = splat(-(real)INFINITY), lane = lane_numbers();
    for (int64_t i = 0; i < rows; i++, s += NR) {
        const int64_t count = first + i < 0 ? 0 : first + i > NR ? NR : first + i;
        for (int j = 0; j < vectors; j++) {
            const ivec below = lane < splat((real)(count - j * LANES));
            store(s + j * LANES, blend(before ? below : ~below, minus_inf, load(s + j * LANES)));
        }
    }
}

static void attention_mask_causal(int64_t rows, int64_t width, int64_t first, bool before,
                                  void *s) {
    ATTENTION_ROWS(width, mask_causal_rows, rows, first, before, s);
}

static void attention_mask_to_bias(int64_t n, const bool *mask, int64_t stride, void *y) {
    real *to = y;
    if (stride == 1) /* a loop of its own, so that it is vectorized */
        for (int64_t i = 0; i < n; i++) to[i] = mask[i] ? 0 : -(real)INFINITY;
    else
        for (int64_t i = 0; i < n; i++) to[i] = mask[i * stride] ? 0 : -(real)INFINITY;
}

/* ---- forward: the online softmax (Milakov & Gimelshein 2018, arXiv:1805.02867) ---- */

INLINE void scale_row(int64_t n, const real *x, real factor, real *y) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) store(y + j, load(x + j) * factor);
    if (j < n) store_part(y + j, load_part(x + j, n - j) * factor, n - j);
}

INLINE bool online_softmax_update_rows(const int vectors, int64_t keys, real *s, real *max,
                                       real *sum, int64_t d, real *out) {
    vec new_max[NV], shift[NV], added[NV], rescale[NV];
    for (int j = 0; j < vectors; j++) new_max[j] = load(max + j * LANES);
    for (int64_t i = 0; i < keys; i++)
        for (int j = 0; j < vectors; j++)
            new_max[j] = attention_max(load(s + i * NR + j * LANES), new_max[j]);
    /* grown: some query's maximum has grown. begun: some query's sum was not 0, so `out` is
     * defined. */
    bool grown = false, begun = false;
    for (int j = 0; j < vectors; j++) {
        const vec old_max = load(max + j * LANES);
        grown = grown || any_lane(old_max != new_max[j]);
        shift[j] = blend(new_max[j] == -(real)INFINITY, splat(0),
                         new_max[j]); /* -inf - -inf would be NaN */
        rescale[j] = v_exp2_below(old_max - shift[j]);
        added[j] = splat(0);
        store(max + j * LANES, new_max[j]);
    }
    for (int64_t i = 0; i < keys; i++)
        for (int j = 0; j < vectors; j++) {
            const vec p = v_exp2_below(load(s + i * NR + j * LANES) - shift[j]);
            store(s + i * NR + j * LANES, p);
            added[j] += p;
        }
    for (int j = 0; j < vectors; j++) {
        const vec before = load(sum + j * LANES);
        begun = begun || any_lane(before != REAL(0.0));
        store(sum + j * LANES, (grown ? before * rescale[j] : before) + added[j]);
    }
    if (begun && grown)
        for (int i = 0; i < vectors * LANES; i++) {
            const real factor = rescale[i / LANES][i % LANES];
            if (factor != 1) scale_row(d, out + i * d, factor, out + i * d);
        }
    return begun;
}

static bool attention_online_softmax_update(int64_t keys, int64_t width, void *s, void *max,
                                            void *sum, int64_t d, void *out) {
    return ATTENTION_ROWS(width, online_softmax_update_rows, keys, s, max, sum, d, out);
}

static bool attention_online_softmax_finalize(int64_t queries, int64_t d, void *max_, void *sum_,
                                              const void *out, void *y, int64_t y_row) {
    real *max = max_, *sum = sum_;
    ivec found = {0};
    for (int64_t i = 0; i < queries; i++) {
        real *to = (real *)y + i * y_row;
        const real inverse = 1 / sum[i];
        if (sum[i] == 0) {
            max[i] = 0;
            for (int64_t j = 0; j < d; j++) to[j] = 0;
        } else {
            const real *from = (const real *)out + i * d;
            sum[i] = inverse;
            int64_t j = 0;
            for (; j + LANES <= d; j += LANES) {
                const vec v = load(from + j) * inverse;
                found |= v != v;
                store(to + j, v);
            }
            if (j < d) {
                const vec v = load_part(from + j, d - j) * inverse;
                found |= v != v;
                store_part(to + j, v, d - j);
            }
        }
    }
    return any_lane(found);
}

/* ---- weights and their gradients from the saved statistics ---- */

/* Computes ds = p (dp - dot), and ds = 0 if p is 1: all other weights of that query are then below
 * the last place of 1, and dp - dot would be the rounding error of two equal sums. */
INLINE void softmax_backward_rows(const int vectors, int64_t queries, real *s, const real *dp,
                                  const real *max, const real *inverse_sum, const real *dot,
                                  real *ds, int64_t ds_row) {
    for (int64_t i = 0; i < queries; i++, s += NR, dp += NR, ds += ds_row) {
        const vec m = splat(max[i]), z = splat(inverse_sum[i]), d = splat(dot[i]);
        for (int j = 0; j < vectors; j++) {
            const vec p = v_exp2_below(load(s + j * LANES) - m) * z;
            store(s + j * LANES, p);
            store(ds + j * LANES,
                  keep(p != REAL(0.0), keep(p != REAL(1.0), p) * (load(dp + j * LANES) - d)));
        }
    }
}

static void attention_softmax_backward(int64_t queries, int64_t width, void *s, const void *dp,
                                       const void *max, const void *inverse_sum, const void *dot,
                                       void *ds, int64_t ds_row) {
    ATTENTION_ROWS(width, softmax_backward_rows, queries, s, dp, max, inverse_sum, dot, ds, ds_row);
}

INLINE void softmax_from_stats_rows(const int vectors, int64_t queries, real *s, const real *max,
                                    const real *inverse_sum, real factor) {
    for (int64_t i = 0; i < queries; i++, s += NR) {
        const vec m = splat(max[i]), z = splat(inverse_sum[i] * factor);
        for (int j = 0; j < vectors; j++)
            store(s + j * LANES, v_exp2_below(load(s + j * LANES) - m) * z);
    }
}

static void attention_softmax_from_stats(int64_t queries, int64_t width, void *s, const void *max,
                                         const void *inverse_sum, double factor) {
    ATTENTION_ROWS(width, softmax_from_stats_rows, queries, s, max, inverse_sum, (real)factor);
}

/* Computes LANES rows at a time. Each row has a vector of partial sums; gemm_sums transposes these
 * vectors and adds them, so the results of all rows are one vector. */
static void attention_row_dots(int64_t rows, int64_t n, const void *a_, int64_t a_row,
                               const void *b_, int64_t b_row, void *y_) {
    const real *a = a_, *b = b_;
    real *y = y_;
    for (int64_t i = 0; i < rows; i += LANES) {
        gemm_vec sum[LANES] = {0};
        for (int l = 0; l < LANES && i + l < rows; l++) {
            const real *of_a = a + (i + l) * a_row, *of_b = b + (i + l) * b_row;
            int64_t j = 0;
            for (; j + LANES <= n; j += LANES) sum[l] += gemm_load(of_a + j) * gemm_load(of_b + j);
            if (j < n)
                sum[l] += gemm_load_if(of_a + j, true, n - j) * gemm_load_if(of_b + j, true, n - j);
        }
        gemm_store_if(y + i, gemm_sums(sum), true, rows - i);
    }
}

#define ATTENTION_KERNELS                                                                          \
    {                                                                                              \
        .lanes = LANES,                                                                            \
        .add_bias = attention_add_bias,                                                            \
        .mask_causal = attention_mask_causal,                                                      \
        .mask_to_bias = attention_mask_to_bias,                                                    \
        .online_softmax_update = attention_online_softmax_update,                                  \
        .online_softmax_finalize = attention_online_softmax_finalize,                              \
        .softmax_backward = attention_softmax_backward,                                            \
        .softmax_from_stats = attention_softmax_from_stats,                                        \
        .row_dots = attention_row_dots,                                                            \
    }

#endif
