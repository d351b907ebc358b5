/* AMX-BF16: products of bf16 panels, computed by tiles. A tile register has 16 rows of 64 bytes: a
 * tile of C is 16 x 16 f32, a tile of A is 16 rows of 32 k, and a tile of B is 16 pairs of k of 16
 * columns. The micro-kernel computes 32 x 32 of C in four tiles. For each chunk of 32 k it loads
 * two tiles of A and two of B, and uses each of them twice.
 *
 * tdpbf16ps sums the even k of a chunk and the odd k separately, each in order and by FMA, adds the
 * two sums, and adds the result to C. Each step rounds to nearest, and a number below 2^-126 counts
 * as zero.
 *
 * BF16X3 and X6 (Henry, Tang & Heinecke 2019, arXiv:1904.06376): an operand is split into terms of
 * bf16, a = a0 + a1 + a2. a0 is a rounded to bf16; each later term is the rounded remainder after
 * the terms before it. Of the nine products of terms the three, or six, largest are summed, the
 * smallest first. A panel has each chunk of k once for each of these products, with the term that
 * the product takes, so the micro-kernel is the same for one, three and six products.
 *
 * tests/kernels/test_amx.c runs this file on a model of the tiles in plain C. */
#include "bf16.h"
#include "bf16_tmpl.h"
#include "gemm_tuning_tmpl.h"

#ifndef TILE_MODEL
#include <immintrin.h>
#define tile_configure(config)     _tile_loadconfig(config)
#define tile_release()             _tile_release()
#define tile_zero(t)               _tile_zero(t)
#define tile_load(t, from, stride) _tile_loadd(t, from, stride)
#define tile_store(t, to, stride)  _tile_stored(t, to, stride)
#define tile_multiply(c, a, b)     _tile_dpbf16ps(c, a, b)
#endif

enum {
    AMX_TILE_ROWS = 16,
    AMX_TILE_BYTES = 64, /* bytes of a row of a tile */
    AMX_ROWS = 32,       /* the micro-kernel's tile of C, mr and nr */
    AMX_CHUNK_BYTES = AMX_ROWS * BF16_CHUNK * (int)sizeof(bf16_bits),
    AMX_MOST_PRODUCTS = 6,
};
_Static_assert((int)AMX_ROWS <= (int)CTI_GEMM_ROUNDED_NR, "src/gemm has so wide a buffer");

/* ---- tile registers ---- */

static void amx_begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1,
                .row_bytes = {AMX_TILE_BYTES, AMX_TILE_BYTES, AMX_TILE_BYTES, AMX_TILE_BYTES,
                              AMX_TILE_BYTES, AMX_TILE_BYTES, AMX_TILE_BYTES, AMX_TILE_BYTES},
                .rows = {AMX_TILE_ROWS, AMX_TILE_ROWS, AMX_TILE_ROWS, AMX_TILE_ROWS, AMX_TILE_ROWS,
                         AMX_TILE_ROWS, AMX_TILE_ROWS, AMX_TILE_ROWS}};
    _Static_assert(sizeof config == 64, "as ldtilecfg reads it");
    tile_configure(&config);
}

static void amx_end(void) { tile_release(); }

/* ---- packing ---- */

/* The products of terms that are summed, in the order of summation: product p is term a[p] of A
 * times term b[p] of B. */
typedef struct {
    int count;
    int a[AMX_MOST_PRODUCTS], b[AMX_MOST_PRODUCTS];
} amx_products;
static const amx_products amx_one_product = {1, {0}, {0}};
static const amx_products amx_three_products = {3, {1, 0, 0}, {0, 1, 0}};
static const amx_products amx_six_products = {6, {2, 1, 0, 1, 0, 0}, {0, 1, 2, 0, 1, 0}};

/* Packs one term of each number of the n lines, for one of the `count` products. The chunks of the
 * products take turns in a panel, so this writes every count-th chunk, and the caller chooses the
 * first by an offset to `packed`. The caller passes layout and term as constants, so the compiler
 * makes a loop for each. */
INLINE void amx_pack_term(const bf16_layout layout, const int term, int count, int64_t n, int64_t k,
                          const float *x, int64_t line, int64_t step, char *packed) {
    const bf16_panels of = {.width = AMX_ROWS,
                            .layout = layout,
                            .unit = BF16_CHUNK,
                            .term_index = term,
                            .chunk = count * BF16_CHUNK};
    const int64_t chunks = (k + BF16_CHUNK - 1) / BF16_CHUNK;
    bf16_pack_panels(&of, n, k, x, line, step, (bf16_bits *)packed,
                     chunks * count * AMX_CHUNK_BYTES / (int64_t)sizeof(bf16_bits));
}

/* Packs n lines into panels in which each chunk of k appears `count` times, once for each product.
 * Each term is computed once, and copied for later products that take it again. */
INLINE void amx_pack_products(const bf16_layout layout, int count, const int *terms, int64_t n,
                              int64_t k, const float *x, int64_t line, int64_t step, char *packed) {
    const int64_t chunks = (k + BF16_CHUNK - 1) / BF16_CHUNK;
    const int64_t panels = (n + AMX_ROWS - 1) / AMX_ROWS;
    int first[3] = {-1, -1, -1}; /* the first product that takes each term */
    for (int p = 0; p < count; p++) {
        char *to = packed + p * AMX_CHUNK_BYTES;
        const int from = first[terms[p]];
        for (int64_t i = 0; from >= 0 && i < panels * chunks; i++)
            memcpy(to + i * count * AMX_CHUNK_BYTES, packed + (i * count + from) * AMX_CHUNK_BYTES,
                   AMX_CHUNK_BYTES);
        if (from >= 0) continue;
        first[terms[p]] = p;
        switch (terms[p]) {
        case 0: amx_pack_term(layout, 0, count, n, k, x, line, step, to); break;
        case 1: amx_pack_term(layout, 1, count, n, k, x, line, step, to); break;
        case 2: amx_pack_term(layout, 2, count, n, k, x, line, step, to); break;
        }
    }
}

static void amx_pack_left(const amx_products *of, int64_t m, int64_t k, const void *a, int64_t row,
                          int64_t col, void *packed) {
    amx_pack_products(BF16_BY_LINE, of->count, of->a, m, k, a, row, col, packed);
}
static void amx_pack_right(const amx_products *of, int64_t k, int64_t n, const void *b, int64_t row,
                           int64_t col, void *packed) {
    amx_pack_products(BF16_BY_PAIR, of->count, of->b, n, k, b, col, row, packed);
}

/* Implements `magnitudes` of cti_gemm_kernels, by which split operands near the ends of f32's range
 * are found. */
static void amx_magnitudes(int64_t n, const void *x_, int64_t step, uint32_t *least,
                           uint32_t *most) {
    const char *x = x_;
    uint32_t low = *least, high = *most;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i * step * (int64_t)sizeof(float), sizeof bits);
        bits &= 0x7FFFFFFF;
        high = bits > high ? bits : high;
        bits = bits ? bits : UINT32_MAX;
        low = bits < low ? bits : low;
    }
    *least = low;
    *most = high;
}

/* ---- the macro-kernel ---- */

/* Computes rows x cols tiles of C, 1 or 2 of each, and writes their sums into rows of AMX_ROWS
 * numbers. rows and cols are compile-time constants of the caller. */
INLINE void amx_multiply_tiles(const int rows, const int cols, int64_t chunks, const char *a,
                               const char *b, float *sum) {
    enum { SUM_ROW = AMX_ROWS * (int)sizeof(float), B_ROW = 2 * AMX_TILE_BYTES };
    tile_zero(0);
    if (cols > 1) tile_zero(1);
    if (rows > 1) tile_zero(2);
    if (rows > 1 && cols > 1) tile_zero(3);
    for (; chunks > 0; chunks--, a += AMX_CHUNK_BYTES, b += AMX_CHUNK_BYTES) {
        tile_load(4, a, AMX_TILE_BYTES);
        tile_load(6, b, B_ROW);
        tile_multiply(0, 4, 6);
        if (cols > 1) tile_load(7, b + AMX_TILE_BYTES, B_ROW);
        if (cols > 1) tile_multiply(1, 4, 7);
        if (rows > 1) tile_load(5, a + AMX_TILE_ROWS * AMX_TILE_BYTES, AMX_TILE_BYTES);
        if (rows > 1) tile_multiply(2, 5, 6);
        if (rows > 1 && cols > 1) tile_multiply(3, 5, 7);
    }
    tile_store(0, sum, SUM_ROW);
    if (cols > 1) tile_store(1, sum + 16, SUM_ROW);
    if (rows > 1) tile_store(2, sum + AMX_TILE_ROWS * AMX_ROWS, SUM_ROW);
    if (rows > 1 && cols > 1) tile_store(3, sum + AMX_TILE_ROWS * AMX_ROWS + 16, SUM_ROW);
}

/* Computes m x n elements of C, where m and n are at most AMX_ROWS. */
static void amx_tile(const cti_gemm_params *params, int64_t chunks, int64_t m, int64_t n,
                     const char *a, const char *b, const float *base, float *c) {
    _Alignas(64) float sum[AMX_ROWS * AMX_ROWS];
    if (m > 16 && n > 16) amx_multiply_tiles(2, 2, chunks, a, b, sum);
    else if (m > 16) amx_multiply_tiles(2, 1, chunks, a, b, sum);
    else if (n > 16) amx_multiply_tiles(1, 2, chunks, a, b, sum);
    else amx_multiply_tiles(1, 1, chunks, a, b, sum);
    bf16_store_sums(params, m, n, sum, AMX_ROWS, base, c);
}

INLINE void amx_product(int products, const cti_gemm_params *params, int64_t m, int64_t n,
                        const void *a, const void *b, int64_t panel, const float *base, float *c) {
    const int64_t chunks = (params->k + BF16_CHUNK - 1) / BF16_CHUNK * products;
    for (int64_t j = 0; j < n; j += AMX_ROWS) {
        const int64_t at = j * params->col;
        amx_tile(params, chunks, m, n - j < AMX_ROWS ? n - j : AMX_ROWS, a,
                 (const char *)b + j / AMX_ROWS * panel, base ? base + at : NULL, c + at);
    }
}

/* ---- the tables ---- */

/* Defines the packing and the macro-kernel for the list of products `its`; `name` ends the names of
 * these functions. */
#define AMX_PRODUCTS(name, its)                                                                    \
    static void amx_pack_a_##name(int64_t m, int64_t k, const void *a, int64_t row, int64_t col,   \
                                  void *packed) {                                                  \
        amx_pack_left(&(its), m, k, a, row, col, packed);                                          \
    }                                                                                              \
    static void amx_pack_b_##name(int64_t k, int64_t n, const void *b, int64_t row, int64_t col,   \
                                  void *packed) {                                                  \
        amx_pack_right(&(its), k, n, b, row, col, packed);                                         \
    }                                                                                              \
    static void amx_product_##name(const cti_gemm_params *params, int64_t m, int64_t n,            \
                                   const void *a, const void *b, int64_t panel, const void *base,  \
                                   void *c) {                                                      \
        amx_product((its).count, params, m, n, a, b, panel, base, c);                              \
    }
AMX_PRODUCTS(x1, amx_one_product)
AMX_PRODUCTS(x3, amx_three_products)
AMX_PRODUCTS(x6, amx_six_products)

/* A panel of the longest K block takes 64 KB with one product and 96 KB with three or six, so at
 * least three panels fit into a core's L2. */
#define AMX_TABLE(name, products, its_kc, its_magnitudes)                                          \
    {.mr = AMX_ROWS,                                                                               \
     .nr = AMX_ROWS,                                                                               \
     .lanes = 16,                                                                                  \
     .mr_narrow = AMX_ROWS,                                                                        \
     .kc = (its_kc),                                                                               \
     .tuning = GEMM_TUNING,                                                                        \
     .packed_bytes = (products) * (int)sizeof(bf16_bits),                                          \
     .k_unit = BF16_CHUNK,                                                                         \
     .begin = amx_begin,                                                                           \
     .end = amx_end,                                                                               \
     .magnitudes = (its_magnitudes),                                                               \
     .pack_a = amx_pack_a_##name,                                                                  \
     .pack_b = amx_pack_b_##name,                                                                  \
     .macro_kernel = amx_product_##name}
static const cti_gemm_kernels amx_bf16 = AMX_TABLE(x1, 1, 1024, NULL);
static const cti_gemm_kernels amx_bf16x3 = AMX_TABLE(x3, 3, 512, amx_magnitudes);
static const cti_gemm_kernels amx_bf16x6 = AMX_TABLE(x6, 6, 256, amx_magnitudes);

void cti_kernels_amx(cti_kernels *table) {
    table->bf16 = &amx_bf16;
    table->bf16x3 = &amx_bf16x3;
    table->bf16x6 = &amx_bf16x6;
}
