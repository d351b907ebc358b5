/* Products of bf16 panels by pairs of k, and their table: C = base + alpha A B.
 *
 * Each element of C is summed over pairs of k in order, as vdpbf16ps does: the second product of a
 * pair is added to the sum first, then its first product. Each of the two is an FMA that rounds to
 * nearest; its operands and its result count as zero below 2^-126. The sum is multiplied by alpha,
 * which rounds, and added to the base, which rounds again. */
#ifndef CTI_KERNELS_BF16_PRODUCT_TMPL_H
#define CTI_KERNELS_BF16_PRODUCT_TMPL_H

#include "bf16_tmpl.h"
#include "gemm_tuning_tmpl.h"
#include "products.h"

enum {
    BF16_MR = 12,
    BF16_NV = 2,
    BF16_NR = BF16_NV * 16,
    /* The longest K block: 12 rows of A take 24 KB and leave the rest of L1d to B. */
    BF16_KC = 1024,
};
_Static_assert((int)BF16_NR <= (int)CTI_GEMM_ROUNDED_NR, "src/gemm has so wide a buffer");

static void bf16_pack_a(int64_t m, int64_t k, const void *a, int64_t row, int64_t col,
                        void *packed) {
    const bf16_panels p = {.width = BF16_MR, .layout = BF16_BY_PAIR, .unit = 2, .term_count = 1};
    bf16_pack_panels(&p, m, k, a, row, col, packed);
}

static void bf16_pack_b(int64_t k, int64_t n, const void *b, int64_t row, int64_t col,
                        void *packed) {
    const bf16_panels p = {.width = BF16_NR, .layout = BF16_BY_PAIR, .unit = 2, .term_count = 1};
    bf16_pack_panels(&p, n, k, b, col, row, packed);
}

static void bf16_store_tile(const cti_gemm_params *params, int64_t m, int64_t n, const float *sum,
                            const float *base, float *c) {
    bf16_store_sums(params, m, n, sum, BF16_NR, base, c);
}

/* The arguments of one call of the macro-kernel: C (m, n) = base + alpha A B. A is one panel; the
 * panels of B are `panel` bytes apart. */
typedef struct {
    const cti_gemm_params *params;
    int64_t m, n;
    const void *a;
    const char *b;
    int64_t panel;
    const float *base; /* NULL stands for zero */
    float *c;
} bf16_block;

/* Computes the tile of one panel of B, n <= BF16_NR. */
typedef void bf16_tile_kernel(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                              const void *b, const float *base, float *c);

INLINE void bf16_panels_of_b(const bf16_block *x, bf16_tile_kernel *tile) {
    const char *b = x->b;
    for (int64_t j = 0; j < x->n; j += BF16_NR, b += x->panel) {
        const int64_t at = j * x->params->col;
        tile(x->params, x->m, x->n - j < BF16_NR ? x->n - j : BF16_NR, x->a, b,
             x->base ? x->base + at : NULL, x->c + at);
    }
}

#define BF16_KERNELS(product)                                                                      \
    {.mr = BF16_MR,                                                                                \
     .nr = BF16_NR,                                                                                \
     .lanes = 16,                                                                                  \
     .mr_narrow = BF16_MR,                                                                         \
     .kc = BF16_KC,                                                                                \
     .tuning = GEMM_TUNING,                                                                        \
     .packed_bytes = sizeof(bf16_bits),                                                            \
     .k_unit = 2,                                                                                  \
     .pack_a = bf16_pack_a,                                                                        \
     .pack_b = bf16_pack_b,                                                                        \
     .macro_kernel = (product)}

#endif
