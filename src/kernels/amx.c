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
 * smallest first. A panel has each chunk of k once for each term, and the micro-kernel computes all
 * products of a chunk before the next.
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
 * times term b[p] of B. A panel has the terms 0 ... term_count - 1. */
typedef struct {
    int term_count, count;
    int a[AMX_MOST_PRODUCTS], b[AMX_MOST_PRODUCTS];
} amx_products;
static const amx_products amx_one_product = {1, 1, {0}, {0}};
static const amx_products amx_three_products = {2, 3, {1, 0, 0}, {0, 1, 0}};
static const amx_products amx_six_products = {3, 6, {2, 1, 0, 1, 0, 0}, {0, 1, 2, 0, 1, 0}};

INLINE void amx_pack(const bf16_layout layout, const int term_count, int64_t n, int64_t k,
                     const float *x, int64_t line, int64_t step, void *packed) {
    const bf16_panels of = {
        .width = AMX_ROWS, .layout = layout, .unit = BF16_CHUNK, .term_count = term_count};
    bf16_pack_panels(&of, n, k, x, line, step, packed);
}

/* Implements `magnitudes` of cti_gemm_kernels, by which split operands near the ends of f32's range
 * are found. The least is kept minus 1, so that 0 becomes the greatest and does not count: of a
 * loop that asks for 0 compilers make no vectors. */
INLINE void amx_magnitudes_of(int64_t n, const float *x, const int64_t step, uint32_t *least,
                              uint32_t *most) {
    uint32_t low = *least - 1, high = *most;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i * step, sizeof bits);
        bits &= 0x7FFFFFFF;
        high = bits > high ? bits : high;
        low = bits - 1 < low ? bits - 1 : low;
    }
    *least = low + 1;
    *most = high;
}

static void amx_magnitudes(int64_t n, const void *x, int64_t step, uint32_t *least,
                           uint32_t *most) {
    if (step == 1) amx_magnitudes_of(n, x, 1, least, most);
    else amx_magnitudes_of(n, x, step, least, most);
}

/* ---- the macro-kernel ---- */

/* A tile of C with m rows, and where its sums are stored: in C itself or in a buffer. `row` and
 * sum_row are the distances of rows, in numbers. */
typedef struct {
    int64_t m, row, sum_row;
    float *c, *sum;
} amx_target;

/* Computes rows x cols tiles of C, 1 or 2 of each, and stores their sums. `of`, rows and cols are
 * compile-time constants of the caller. The loads of a chunk stand before its products, so that no
 * load waits behind one. Meanwhile the rows of C are prefetched for writing, a few in each chunk:
 * at the rate of tiles the stores would otherwise wait for memory. */
INLINE void amx_multiply_tiles(const amx_products *of, const int rows, const int cols,
                               int64_t chunks, const char *a, const char *b, const amx_target *to) {
    enum { B_ROW = 2 * AMX_TILE_BYTES };
    const int64_t lines = (to->m + chunks - 1) / chunks; /* prefetched during a chunk */
    const float *next = to->c, *end = to->c + to->m * to->row;
    tile_zero(0);
    if (cols > 1) tile_zero(1);
    if (rows > 1) tile_zero(2);
    if (rows > 1 && cols > 1) tile_zero(3);
    for (; chunks > 0; chunks--) {
        for (int64_t i = 0; i < lines && next != end; i++, next += to->row) {
            __builtin_prefetch(next, 1);
            if (cols > 1) __builtin_prefetch(next + 16, 1);
        }
        UNROLL
        for (int p = 0; p < of->count; p++) {
            const char *x = a + of->a[p] * AMX_CHUNK_BYTES, *y = b + of->b[p] * AMX_CHUNK_BYTES;
            const bool new_a = p == 0 || of->a[p] != of->a[p - 1];
            tile_load(6, y, B_ROW);
            if (new_a) tile_load(4, x, AMX_TILE_BYTES);
            if (cols > 1) tile_load(7, y + AMX_TILE_BYTES, B_ROW);
            if (rows > 1 && new_a) tile_load(5, x + AMX_TILE_ROWS * AMX_TILE_BYTES, AMX_TILE_BYTES);
            tile_multiply(0, 4, 6);
            if (cols > 1) tile_multiply(1, 4, 7);
            if (rows > 1) tile_multiply(2, 5, 6);
            if (rows > 1 && cols > 1) tile_multiply(3, 5, 7);
        }
        a += of->term_count * AMX_CHUNK_BYTES;
        b += of->term_count * AMX_CHUNK_BYTES;
    }
    const int64_t row = to->sum_row * (int64_t)sizeof(float);
    float *sum = to->sum, *second = sum + AMX_TILE_ROWS * to->sum_row;
    tile_store(0, sum, row);
    if (cols > 1) tile_store(1, sum + 16, row);
    if (rows > 1) tile_store(2, second, row);
    if (rows > 1 && cols > 1) tile_store(3, second + 16, row);
}

/* Computes m x n elements of C, where m and n are at most AMX_ROWS. Whole tiles are stored straight
 * to C if C is nothing but their sums; other tiles go through a buffer. */
INLINE void amx_tile(const amx_products *of, const cti_gemm_params *params, int64_t chunks,
                     int64_t m, int64_t n, const char *a, const char *b, const float *base,
                     float *c) {
    _Alignas(64) float buffer[AMX_ROWS * AMX_ROWS];
    const bool whole = m % 16 == 0 && n % 16 == 0 && params->col == 1;
    const bool direct = whole && !base && params->alpha == 1;
    const amx_target to = {.m = m,
                           .row = params->row,
                           .sum_row = direct ? params->row : AMX_ROWS,
                           .c = c,
                           .sum = direct ? c : buffer};
    if (m > 16 && n > 16) amx_multiply_tiles(of, 2, 2, chunks, a, b, &to);
    else if (m > 16) amx_multiply_tiles(of, 2, 1, chunks, a, b, &to);
    else if (n > 16) amx_multiply_tiles(of, 1, 2, chunks, a, b, &to);
    else amx_multiply_tiles(of, 1, 1, chunks, a, b, &to);
    if (!direct) bf16_store_sums(params, m, n, buffer, AMX_ROWS, base, c);
}

INLINE void amx_product(const amx_products *of, const cti_gemm_params *params, int64_t m, int64_t n,
                        const void *a, const void *b, int64_t panel, const float *base, float *c) {
    const int64_t chunks = (params->k + BF16_CHUNK - 1) / BF16_CHUNK;
    for (int64_t j = 0; j < n; j += AMX_ROWS) {
        const int64_t at = j * params->col;
        amx_tile(of, params, chunks, m, n - j < AMX_ROWS ? n - j : AMX_ROWS, a,
                 (const char *)b + j / AMX_ROWS * panel, base ? base + at : NULL, c + at);
    }
}

/* ---- the tables ---- */

/* Defines the packing and the macro-kernel for the list of products `its`; `name` ends the names of
 * these functions. */
#define AMX_PRODUCTS(name, its)                                                                    \
    static void amx_pack_a_##name(int64_t m, int64_t k, const void *a, int64_t row, int64_t col,   \
                                  void *packed) {                                                  \
        amx_pack(BF16_BY_LINE, (its).term_count, m, k, a, row, col, packed);                       \
    }                                                                                              \
    static void amx_pack_b_##name(int64_t k, int64_t n, const void *b, int64_t row, int64_t col,   \
                                  void *packed) {                                                  \
        amx_pack(BF16_BY_PAIR, (its).term_count, n, k, b, col, row, packed);                       \
    }                                                                                              \
    static void amx_product_##name(const cti_gemm_params *params, int64_t m, int64_t n,            \
                                   const void *a, const void *b, int64_t panel, const void *base,  \
                                   void *c) {                                                      \
        amx_product(&(its), params, m, n, a, b, panel, base, c);                                   \
    }
AMX_PRODUCTS(x1, amx_one_product)
AMX_PRODUCTS(x3, amx_three_products)
AMX_PRODUCTS(x6, amx_six_products)

/* A panel of the longest K block takes 64 KB with one or three products and 48 KB with six, so
 * L2 holds several of them. */
#define AMX_TABLE(name, its_terms, its_kc, its_magnitudes)                                         \
    {.mr = AMX_ROWS,                                                                               \
     .nr = AMX_ROWS,                                                                               \
     .lanes = 16,                                                                                  \
     .mr_narrow = AMX_ROWS,                                                                        \
     .kc = (its_kc),                                                                               \
     .tuning = GEMM_TUNING,                                                                        \
     .packed_bytes = (its_terms) * (int)sizeof(bf16_bits),                                         \
     .k_unit = BF16_CHUNK,                                                                         \
     .begin = amx_begin,                                                                           \
     .end = amx_end,                                                                               \
     .magnitudes = (its_magnitudes),                                                               \
     .pack_a = amx_pack_a_##name,                                                                  \
     .pack_b = amx_pack_b_##name,                                                                  \
     .macro_kernel = amx_product_##name}
static const cti_gemm_kernels amx_bf16 = AMX_TABLE(x1, 1, 1024, NULL);
static const cti_gemm_kernels amx_bf16x3 = AMX_TABLE(x3, 2, 512, amx_magnitudes);
static const cti_gemm_kernels amx_bf16x6 = AMX_TABLE(x6, 3, 256, amx_magnitudes);

void cti_kernels_amx(cti_kernels *table) {
    table->bf16 = &amx_bf16;
    table->bf16x3 = &amx_bf16x3;
    table->bf16x6 = &amx_bf16x6;
}
