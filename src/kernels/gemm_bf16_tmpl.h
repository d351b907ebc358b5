/* Products of an A of f32 and a B of bf16. Packing converts B to f32, so the macro-kernel is that
 * of f32, and C has the bits that a B of f32 with the same numbers gives. dots and gemv are in
 * gemm_dots_tmpl.h. */
#ifndef CTI_KERNELS_GEMM_BF16_TMPL_H
#define CTI_KERNELS_GEMM_BF16_TMPL_H

#include "gemm_dots_tmpl.h"
#include "gemm_pack_tmpl.h"

#ifndef CTI_F64_KERNELS
/* y[i] = x[i step], i < n */
INLINE void gemm_widen(int64_t n, const bf16_stored *x, int64_t step, real *y) {
    int64_t i = 0;
    if (step == 1)
        for (; i + LANES <= n; i += LANES) store(y + i, load_bf16(x + i));
    for (; i < n; i++) y[i] = get_bf16(x + i * step);
}

/* Packs B as gemm_pack_b does. If rows of B are dense, each is converted into a row of a panel.
 * Otherwise a panel's columns are converted to f32 in chunks of K_CHUNK k, and each chunk is then
 * packed from f32, while it is in L1d. */
static void gemm_pack_b_bf16(int64_t k, int64_t n, const void *b, int64_t row_stride,
                             int64_t col_stride, void *packed_) {
    enum { K_CHUNK = 128 };
    real wide[NR * K_CHUNK], *packed = packed_;
    const bf16_stored *x = b;
    for (int64_t j = 0; j < n; j += NR, x += NR * col_stride, packed += NR * k) {
        const int64_t columns = n - j < NR ? n - j : NR;
        for (int64_t p = 0; p < k && col_stride == 1; p++) {
            real *row = packed + p * NR;
            __builtin_prefetch(x + (p + PREFETCH_K) * row_stride);
            gemm_widen(columns, x + p * row_stride, 1, row);
            if (columns < NR) memset(row + columns, 0, (size_t)(NR - columns) * sizeof *row);
        }
        for (int64_t p = 0; p < k && col_stride != 1; p += K_CHUNK) {
            const int64_t chunk = k - p < K_CHUNK ? k - p : K_CHUNK;
            for (int64_t i = 0; i < columns; i++)
                gemm_widen(chunk, x + i * col_stride + p * row_stride, row_stride,
                           wide + i * K_CHUNK);
            gemm_pack(NR, columns, chunk, wide, K_CHUNK, 1, packed + p * NR);
        }
    }
}

static void gemm_dots_bf16(const cti_gemm_rows *g) { gemm_dots_of(OF_BF16, g); }
static void gemm_gemv_bf16(const cti_gemm_rows *g) { gemm_gemv_of(OF_BF16, g); }

#define GEMM_KERNELS_OF_BF16 GEMM_KERNELS_WITH(gemm_pack_b_bf16, gemm_dots_bf16, gemm_gemv_bf16)
#endif

#endif
