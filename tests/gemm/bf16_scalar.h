/* The products of bf16 panels in plain C: the specification. AVX512-BF16 packs and computes the
 * same bits. In plain C they are slower than f32 products, so no instruction set has them. */
#ifndef BF16_SCALAR_H
#define BF16_SCALAR_H

#include <math.h>
#include <string.h>

#define CTI_VECTOR_BYTES 0
#include "src/kernels/bf16_product_tmpl.h"

/* Returns x y + s rounded once, for x and y that are bf16 values. fmaf would do, but in MinGW's
 * libm it overflows in an intermediate result. Here the product is exact in f64, and the sum is
 * rounded to odd, so that rounding it again to f32 gives the right result (Boldo and Melquiond,
 * 2008). */
static float bf16_scalar_fma(float x, float y, float s) {
    const double product = (double)x * (double)y, sum = product + (double)s;
    const double part = sum - product, error = (product - (sum - part)) + ((double)s - part);
    if (!(error < 0 || error > 0)) return (float)sum; /* exact, infinite or NaN */
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (bits % 2 == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

static float bf16_scalar_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static void bf16_scalar_tile(const cti_gemm_params *params, int64_t m, int64_t n, const void *a_,
                             const void *b_, const float *base, float *c) {
    const bf16_bits *a = a_, *b = b_;
    float sum[BF16_MR * BF16_NR] = {0};
    for (int64_t pair = 0; pair < (params->k + 1) / 2; pair++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const bf16_bits *x = a + (pair * BF16_MR + i) * 2,
                                *y = b + (pair * BF16_NR + j) * 2;
                float s = sum[i * BF16_NR + j];
                s = bf16_scalar_flushed(bf16_scalar_fma(bf16_value(x[1]), bf16_value(y[1]), s));
                s = bf16_scalar_flushed(bf16_scalar_fma(bf16_value(x[0]), bf16_value(y[0]), s));
                sum[i * BF16_NR + j] = s;
            }
    bf16_store_tile(params, m, n, sum, base, c);
}

static void bf16_scalar_product(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                                const void *b, int64_t panel, const void *base, void *c) {
    bf16_panels_of_b(&(bf16_block){params, m, n, a, b, panel, base, c}, bf16_scalar_tile);
}

static const cti_gemm_kernels bf16_scalar = BF16_KERNELS(bf16_scalar_product);

#endif
