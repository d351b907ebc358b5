/* The kernels of products with a B of blocks. Only f32's table has them. */
#include "products.h"

#include "gemm_dots_tmpl.h"

void CTI_PUT(block_products)(cti_kernels *table);

#ifdef CTI_F64_KERNELS
void CTI_PUT(block_products)(cti_kernels *table) { (void)table; }
#else

/* ---- widen ---- */

INLINE void gemm_widen_blocks(const gemm_source of, int64_t length, const char *line, int64_t first,
                              int64_t n, float *out) {
    enum { HALF = CTI_BLOCK_LENGTH / 2 };
    const int64_t end = first + n, bytes = cti_line_codes(gemm_code_bits(of), CTI_BLOCK_LENGTH);
    const char *scales = line + cti_line_codes(gemm_code_bits(of), length);
    for (int64_t i = first, stop; i < end; i = stop) {
        const int64_t block = i / CTI_BLOCK_LENGTH, begin = block * CTI_BLOCK_LENGTH;
        const real scale = gemm_block_scale(scales + block * (int64_t)sizeof(uint16_t));
        const char *codes = line + block * bytes;
        float *to = out + (begin - first); /* of the block's first element */
        stop = begin + CTI_BLOCK_LENGTH < end ? begin + CTI_BLOCK_LENGTH : end;
        int at = (int)(i - begin);
        const int last = (int)(stop - begin);
        if (at == 0 && last == CTI_BLOCK_LENGTH) {
            UNROLL
            for (int half = 0; half < 2; half++)
                for (int l = 0; l < HALF; l += LANES)
                    gemm_store(to + half * HALF + l, gemm_block_load(of, codes, half, l, scale));
            continue;
        }
        for (; at < last; at++) to[at] = gemm_block_get(of, codes, at, scale);
    }
}

/* ---- gemv ---- */

enum {
    /* The blocks of a tile of gemv, and its accumulators: as many as gemv has with other B. */
    TILE_BLOCKS = LANES > 4 ? LANES / 4 : 1,
    TILE_VECTORS = TILE_BLOCKS * CTI_BLOCK_LENGTH / LANES,
};

/* Computes y = alpha x B, or y += alpha x B with add, for `count` blocks of columns, which begin
 * with block number `block` of each line. */
INLINE void gemv_blocks(const gemm_source of, const int count, const cti_gemm_rows *g,
                        const real *x, int64_t block, real *y) {
    enum { HALF = CTI_BLOCK_LENGTH / 2 };
    const int64_t bytes = cti_line_codes(gemm_code_bits(of), CTI_BLOCK_LENGTH);
    const int64_t scales = cti_line_codes(gemm_code_bits(of), g->b_row);
    const real alpha = (real)g->alpha;
    const char *line = g->b;
    gemm_vec sum[TILE_VECTORS] = {0};
    for (int64_t p = 0; p < g->k; p++, line += gemm_source_bytes(of, g->b_row)) {
        const gemm_vec xp = x[p] - (gemm_vec){0};
        UNROLL
        for (int i = 0; i < count; i++) {
            const char *codes = line + (block + i) * bytes;
            const real scale =
                gemm_block_scale(line + scales + (block + i) * (int64_t)sizeof(uint16_t));
            gemm_vec *to = sum + i * CTI_BLOCK_LENGTH / LANES;
            UNROLL
            for (int half = 0; half < 2; half++)
                for (int l = 0; l < HALF; l += LANES, to++)
                    *to = gemm_multiply_add(*to, xp, gemm_block_load(of, codes, half, l, scale));
        }
    }
    for (int j = 0; j < count * CTI_BLOCK_LENGTH / LANES; j++) {
        real *to = y + j * LANES;
        gemm_store(to, g->add ? gemm_load(to) + alpha * sum[j] : alpha * sum[j]);
    }
}

INLINE void gemm_gemv_blocks(const gemm_source of, const cti_gemm_rows *g) {
    real dense[KC], *y = g->c;
    const real *x = g->a;
    if (g->a_col != 1) {
        for (int64_t p = 0; p < g->k; p++) dense[p] = x[p * g->a_col];
        x = dense;
    }
    const int64_t first = g->b_first / CTI_BLOCK_LENGTH, blocks = g->n / CTI_BLOCK_LENGTH;
    int64_t i = 0;
    for (; i + TILE_BLOCKS <= blocks; i += TILE_BLOCKS)
        gemv_blocks(of, TILE_BLOCKS, g, x, first + i, y + i * CTI_BLOCK_LENGTH);
    for (; i < blocks; i++) gemv_blocks(of, 1, g, x, first + i, y + i * CTI_BLOCK_LENGTH);
}

/* ---- the tables ---- */

#define BLOCK_KERNELS(name, of)                                                                    \
    static void gemm_dots_##name(const cti_gemm_rows *g) { gemm_dots_of(of, g); }                  \
    static void gemm_gemv_##name(const cti_gemm_rows *g) { gemm_gemv_blocks(of, g); }              \
    static void gemm_widen_##name(int64_t length, const void *line, int64_t first, int64_t n,      \
                                  float *out) {                                                    \
        gemm_widen_blocks(of, length, line, first, n, out);                                        \
    }                                                                                              \
    static const cti_gemm_kernels *gemm_kernels_##name(const cti_gemm_kernels *of_f32) {           \
        static cti_gemm_kernels kernels;                                                           \
        kernels = *of_f32;                                                                         \
        kernels.dots = gemm_dots_##name;                                                           \
        kernels.gemv = gemm_gemv_##name;                                                           \
        kernels.widen = gemm_widen_##name;                                                         \
        return &kernels;                                                                           \
    }
BLOCK_KERNELS(q8_0, OF_Q8_0)
BLOCK_KERNELS(q4_0, OF_Q4_0)

void CTI_PUT(block_products)(cti_kernels *table) {
    table->gemm_of_q8_0 = gemm_kernels_q8_0(table->gemm);
    table->gemm_of_q4_0 = gemm_kernels_q4_0(table->gemm);
}
#endif
