/* AVX512-BF16: the micro-kernel computes 12 rows by 2 vectors of columns, like AVX-512's. For each
 * pair of k it loads two vectors of pairs of B, and broadcasts one pair of A for each row. */
#include "bf16.h"
#include "bf16_product_tmpl.h"

/* The number of pairs of k in one iteration of the micro-kernel's loop. */
#if defined __clang__
enum { BF16_PAIRS = 1 }; /* clang interleaves several pairs and then spills registers */
#else
enum { BF16_PAIRS = 4 };
#endif

/* clang 16 recurses without end (in VectorCombine) on a splat that is cast to bf16. HIDE_SPLAT
 * hides from it that x is a splat. */
#if defined __clang_major__ && __clang_major__ == 16
#define HIDE_SPLAT(x) __asm__("" : "+v"(x))
#else
#define HIDE_SPLAT(x) ((void)0)
#endif

/* Adds the products of one pair of k. The barrier keeps GCC from interleaving two pairs, which
 * would need more registers than there are. */
INLINE void bf16_add_pair(const int rows, const int vectors, const uint32_t *a, const char *b,
                          __m512 sum[BF16_MR][BF16_NV]) {
    __m512bh y[BF16_NV];
    __asm__ volatile("" ::: "memory");
    UNROLL
    for (int j = 0; j < vectors; j++) y[j] = (__m512bh)_mm512_loadu_si512(b + j * 64);
    UNROLL
    for (int i = 0; i < rows; i++) {
        __m512i pair = _mm512_set1_epi32((int)a[i]);
        HIDE_SPLAT(pair);
        const __m512bh x = (__m512bh)pair;
        UNROLL
        for (int j = 0; j < vectors; j++) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, y[j]);
    }
}

/* Computes a tile of rows x vectors, both compile-time constants of the caller. */
INLINE void bf16_micro_kernel(const int rows, const int vectors, const cti_gemm_params *params,
                              int64_t n, const uint32_t *a, const char *b, const float *base,
                              float *c) {
    __m512 sum[BF16_MR][BF16_NV];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++) sum[i][j] = _mm512_setzero_ps();
    }
    int64_t pairs = (params->k + 1) / 2;
    for (; pairs >= BF16_PAIRS; pairs -= BF16_PAIRS) {
        UNROLL
        for (int u = 0; u < BF16_PAIRS; u++)
            bf16_add_pair(rows, vectors, a + u * BF16_MR, b + u * BF16_NV * 64, sum);
        a += BF16_PAIRS * BF16_MR;
        b += BF16_PAIRS * BF16_NV * 64;
    }
    for (; pairs > 0; pairs--, a += BF16_MR, b += BF16_NV * 64)
        bf16_add_pair(rows, vectors, a, b, sum);

    const __m512 alpha = _mm512_set1_ps((float)params->alpha);
    const __mmask16 last = bf16_first_of_16(n - (vectors - 1) * 16);
    UNROLL
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < vectors; j++) { /* compilers unroll this; clang 14 to 16 warn about an
                                             * UNROLL */
            const __mmask16 mask = j == vectors - 1 ? last : 0xFFFF;
            __m512 x = _mm512_mul_ps(alpha, sum[i][j]);
            if (base) x = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, base + j * 16), x);
            _mm512_mask_storeu_ps(c + j * 16, mask, x);
        }
        c += params->row;
        if (base) base += params->base_row;
        __asm__("" : "+r"(c)); /* computes one row's addresses at a time */
    }
}

/* Computes a tile of `rows` rows; rows is a compile-time constant of the caller. */
INLINE void bf16_tile_of_rows(const int rows, const cti_gemm_params *params, int64_t n,
                              const uint32_t *a, const char *b, const float *base, float *c) {
    if (n > 16) bf16_micro_kernel(rows, 2, params, n, a, b, base, c);
    else bf16_micro_kernel(rows, 1, params, n, a, b, base, c);
}

__attribute__((noinline)) static void bf16_narrow_tile(int64_t m, const cti_gemm_params *params,
                                                       int64_t n, const uint32_t *a, const char *b,
                                                       const float *base, float *c) {
    switch (m) {
    case 1: bf16_tile_of_rows(1, params, n, a, b, base, c); break;
    case 2: bf16_tile_of_rows(2, params, n, a, b, base, c); break;
    case 3: bf16_tile_of_rows(3, params, n, a, b, base, c); break;
    case 4: bf16_tile_of_rows(4, params, n, a, b, base, c); break;
    case 5: bf16_tile_of_rows(5, params, n, a, b, base, c); break;
    case 6: bf16_tile_of_rows(6, params, n, a, b, base, c); break;
    case 7: bf16_tile_of_rows(7, params, n, a, b, base, c); break;
    case 8: bf16_tile_of_rows(8, params, n, a, b, base, c); break;
    case 9: bf16_tile_of_rows(9, params, n, a, b, base, c); break;
    case 10: bf16_tile_of_rows(10, params, n, a, b, base, c); break;
    case 11: bf16_tile_of_rows(11, params, n, a, b, base, c); break;
    case 12: bf16_tile_of_rows(12, params, n, a, b, base, c); break;
    }
}
_Static_assert((int)BF16_MR <= 12, "bf16_narrow_tile has a case for each number of rows");

__attribute__((noinline)) static void bf16_full_tile(const cti_gemm_params *params, int64_t n,
                                                     const uint32_t *a, const char *b,
                                                     const float *base, float *c) {
    bf16_micro_kernel(BF16_MR, BF16_NV, params, n, a, b, base, c);
}

__attribute__((noinline)) static void bf16_strided_tile(int64_t m, const cti_gemm_params *params,
                                                        int64_t n, const uint32_t *a, const char *b,
                                                        const float *base, float *c) {
    float sum[BF16_MR * BF16_NR];
    const cti_gemm_params dense = {.k = params->k, .row = BF16_NR, .col = 1, .alpha = 1};
    bf16_narrow_tile(m, &dense, n, a, b, NULL, sum);
    bf16_store_tile(params, m, n, sum, base, c);
}

static void bf16_tile(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                      const void *b, const float *base, float *c) {
    if (params->col != 1) bf16_strided_tile(m, params, n, a, b, base, c);
    else if (m == BF16_MR && n > 16) bf16_full_tile(params, n, a, b, base, c);
    else bf16_narrow_tile(m, params, n, a, b, base, c);
}

static void bf16_product(const cti_gemm_params *params, int64_t m, int64_t n, const void *a,
                         const void *b, int64_t panel, const void *base, void *c) {
    bf16_panels_of_b(&(bf16_block){params, m, n, a, b, panel, base, c}, bf16_tile);
}

static const cti_gemm_kernels avx512bf16_kernels = BF16_KERNELS(bf16_product);

void cti_kernels_avx512bf16(cti_kernels *table) { table->bf16 = &avx512bf16_kernels; }
