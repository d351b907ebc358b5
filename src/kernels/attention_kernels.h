/* The kernels of attention (products.c). */
#ifndef CTI_KERNELS_ATTENTION_KERNELS_H
#define CTI_KERNELS_ATTENTION_KERNELS_H

#include "kernels.h"

/* The work of attention on scores between its matrix products (ops/attention/). A score panel has
 * rows of gemm.nr numbers (lanes), of which the first `width` are computed: `lanes` or gemm.nr.
 * Scores are divided by log 2, so that a weight is 2^score before it is normalised. max, sum,
 * inverse_sum and dot have one number for each query. */
struct cti_attention_kernels {
    int64_t lanes; /* the lanes of a vector */

    /* panel += bias / log 2, and -inf where the bias is -inf. Rows of the bias are bias_row apart:
     * nr, or 0 for one row that is added to all */
    void (*add_bias)(int64_t rows, int64_t width, void *panel, const void *bias, int64_t bias_row);
    /* row i: -inf in lanes >= first + i; with `before`, in lanes < first + i instead */
    void (*mask_causal)(int64_t rows, int64_t width, int64_t first, bool before, void *panel);
    /* y[i] = mask[i stride] ? 0 : -inf */
    void (*mask_to_bias)(int64_t n, const bool *mask, int64_t stride, void *y);

    /* Panels whose rows are keys and whose lanes are queries. With m = max(max, s) over all rows:
     * s = 2^(s - m), sum = sum 2^(max - m) + the sum of s, out[query][d] *= 2^(max - m), max = m.
     * Returns whether any sum was not 0 before the call. If none was, out is not read or written:
     * it is still undefined */
    bool (*online_softmax_update)(int64_t keys, int64_t width, void *panel, void *max, void *sum,
                                  int64_t d, void *out);
    /* y[i] = out[i] / sum[i], then sum[i] = 1 / sum[i]. A query that attends to nothing, sum 0,
     * gets zeros in all three: y[i], sum[i], max[i]. out's rows are d apart. Returns whether any
     * y[i] has a NaN */
    bool (*online_softmax_finalize)(int64_t queries, int64_t d, void *max, void *sum,
                                    const void *out, void *y, int64_t y_row);

    /* Panels whose rows are queries and whose lanes are keys. p = 2^(s - max) inverse_sum replaces
     * s, and ds = p (dp - dot), 0 where p is 0 or 1; ds's rows are ds_row apart */
    void (*softmax_backward)(int64_t queries, int64_t width, void *s, const void *dp,
                             const void *max, const void *inverse_sum, const void *dot, void *ds,
                             int64_t ds_row);
    /* s = 2^(s - max) inverse_sum factor */
    void (*softmax_from_stats)(int64_t queries, int64_t width, void *s, const void *max,
                               const void *inverse_sum, double factor);

    /* y[i] = <a[i], b[i]> */
    void (*row_dots)(int64_t rows, int64_t n, const void *a, int64_t a_row, const void *b,
                     int64_t b_row, void *y);
};

#endif
