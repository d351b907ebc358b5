/* bf16 products in plain C: the specification of those of other instruction sets. */
#include "bf16.h"
#include "bf16_product_tmpl.h"

#include <math.h>

static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static void tile(const cti_gemm_params *params, int64_t m, int64_t n, const void *a_,
                 const void *b_, const float *base, float *c) {
    const bf16 *a = a_, *b = b_;
    float sum[BF16_MR * BF16_NR] = {0};
    for (int64_t pair = 0; pair < (params->k + 1) / 2; pair++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const bf16 *x = a + (pair * BF16_MR + i) * 2, *y = b + (pair * BF16_NR + j) * 2;
                float s = sum[i * BF16_NR + j];
                s = flushed(fmaf(float_of(x[1]), float_of(y[1]), s));
                s = flushed(fmaf(float_of(x[0]), float_of(y[0]), s));
                sum[i * BF16_NR + j] = s;
            }
    bf16_store_tile(params, m, n, sum, base, c);
}

static void product(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                    const void *b, int64_t panel, const void *base, void *c) {
    bf16_panels_of_b(params, m, n, a, b, panel, base, c, tile);
}

const cti_gemm_kernels cti_bf16_scalar = BF16_KERNELS(product);
