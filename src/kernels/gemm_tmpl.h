/* Matrix products: the register block that src/gemm/gemm.c drives, and the packing of what it cannot read well where it lies.
 *
 * A block has MR rows of C and NR = NV vectors of columns. For each k it loads NV vectors of B and adds to MR x NV accumulators, all in
 * registers, one broadcast element of A times each: so A may lie in any way, while rows of B are vectors, in place or packed as
 * panels of NR columns (Goto & van de Geijn 2008; BLIS).
 *
 *        k ->            NR
 *     +--------+      +------+         Every element of C is the sum over k in order, whatever block it lies in. A block at an edge
 *  MR |   A    |   k  |   B  |         is computed with as many rows and vectors as there are; nothing outside of A, B or C is
 *     +--------+      |      |         read or written.
 *                     +------+  */
#ifndef CTI_KERNELS_GEMM_TMPL_H
#define CTI_KERNELS_GEMM_TMPL_H

#include "gemm_tuning_tmpl.h"
#include "kernels.h"
#include "simd.h"

#ifdef CTI_F64_KERNELS
#define GEMM_LANES (CTI_VECTOR_BYTES / 8)   /* LANES, for the preprocessor; 0 in the scalar build */
#else
#define GEMM_LANES (CTI_VECTOR_BYTES / 4)
#endif

#if CTI_VECTOR_BYTES
typedef vec gemm_vec;
#else
typedef real gemm_vec;   /* GCC keeps vectors of one element in memory */
#endif

#if defined __clang__
enum { TURN = 1 };   /* k in a turn of the block's loop: it mixes several, and runs out of registers */
#define GEMM_UNROLL _Pragma("unroll")
#else
enum { TURN = 4 };
#define GEMM_UNROLL _Pragma("GCC unroll 32")
#endif

INLINE gemm_vec gemm_load(const real *p) { gemm_vec v; memcpy(&v, p, sizeof v); return v; }
INLINE void gemm_store(real *p, gemm_vec v) { memcpy(p, &v, sizeof v); }

/* ---- packing ---- */

#if CTI_VECTOR_BYTES
#if GEMM_LANES == 16
#define GEMM_ZIP_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define GEMM_ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif GEMM_LANES == 8
#define GEMM_ZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define GEMM_ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif GEMM_LANES == 4
#define GEMM_ZIP_LOW 0, 4, 1, 5
#define GEMM_ZIP_HIGH 2, 6, 3, 7
#else
#define GEMM_ZIP_LOW 0, 2
#define GEMM_ZIP_HIGH 1, 3
#endif
#if defined __clang__
#define GEMM_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GEMM_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

/* Interleaving row i with row i + LANES/2 turns the index (row, lane), read as one binary number, left by one bit; log2 LANES turns
 * swap row and lane. */
INLINE void gemm_transpose(vec x[LANES]) {
    GEMM_UNROLL for (int turn = 1; turn < LANES; turn *= 2) {
        vec y[LANES];
        GEMM_UNROLL for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = GEMM_SHUFFLE(x[i], x[i + LANES / 2], GEMM_ZIP_LOW);
            y[2 * i + 1] = GEMM_SHUFFLE(x[i], x[i + LANES / 2], GEMM_ZIP_HIGH);
        }
        GEMM_UNROLL for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}
#endif

/* Lines of a matrix, `each` to a pointer, 1 or 4: an address has a base, an index, here the bytes to one of the next lines, and a
 * constant. each and count are constants of the caller. */
typedef struct {
    const char *base[(MR_NARROW + 3) / 4];
    int64_t to[4];
} gemm_lines;
_Static_assert(CTI_VECTOR_BYTES != 64 || (int)TURN <= ((int)MR_NARROW + 3) / 4, "a pointer for each k of a turn");

INLINE gemm_lines gemm_lines_of(const int each, const int count, const real *x, int64_t bytes) {
    gemm_lines l = {.to = {0, bytes, 2 * bytes, 3 * bytes}};
    GEMM_UNROLL for (int i = 0; i < count; i += each) l.base[i / each] = (const char *)x + i * bytes;
    return l;
}

INLINE const real *gemm_line(const int each, const gemm_lines *l, int i) { return (const real *)(l->base[i / each] + l->to[i % each]); }

INLINE void gemm_advance(const int each, const int count, gemm_lines *l, int64_t bytes) {
    GEMM_UNROLL for (int i = 0; i < count; i += each) l->base[i / each] += bytes;
}

/* Else compilers keep each pointer plus each index in a register of its own, and have none left. */
INLINE void gemm_hide(gemm_lines *l) { __asm__("" : "+r"(l->to[1]), "+r"(l->to[2]), "+r"(l->to[3])); }

#if CTI_VECTOR_BYTES
_Static_assert((int)LANES <= (int)MR_NARROW, "gemm_lines has pointers for that many");

/* packed[p width + i] = x[i along + p] for p < k, a multiple of LANES, and i < count, a constant of at most LANES; 0 from i = n on. */
INLINE void gemm_turn(const int width, const int count, int64_t n, int64_t k, const real *x, int64_t along, real *packed) {
    gemm_lines rows = gemm_lines_of(4, LANES, x, along * (int64_t)sizeof(real));
    for (; k > 0; k -= LANES, packed += LANES * width, gemm_advance(4, LANES, &rows, LANES * (int64_t)sizeof(real))) {
        vec block[LANES];
        gemm_hide(&rows);
        GEMM_UNROLL for (int i = 0; i < LANES; i++) block[i] = i < count && i < n ? load(gemm_line(4, &rows, i)) : (vec){0};
        gemm_transpose(block);
        GEMM_UNROLL for (int i = 0; i < LANES; i++) memcpy(packed + i * width, &block[i], (size_t)count * sizeof(real));
    }
}

/* The same for fewer than LANES k; n is at most count, or count is LANES. */
__attribute__((noinline)) static void gemm_turn_rest(int64_t width, int64_t count, int64_t n, int64_t k, const real *x, int64_t along,
                                                     real *packed) {
    vec block[LANES];
    GEMM_UNROLL for (int i = 0; i < LANES; i++) block[i] = i < n ? load_part(x + i * along, k) : (vec){0};
    gemm_transpose(block);
    GEMM_UNROLL for (int i = 0; i < LANES; i++)
        if (i < k) store_part(packed + i * width, block[i], count);
}

INLINE void gemm_clear(const int width, const int count, int64_t k, real *packed) {
    for (int64_t p = 0; p < k; p++) memset(packed + p * width, 0, (size_t)count * sizeof(real));
}
#endif

/* packed[p width + i] = x[i along + p step] for p < k, i < n; zero for n <= i < width. width is a constant of the caller. */
INLINE void gemm_pack(const int width, int64_t n, int64_t k, const real *x, int64_t along, int64_t step, real *packed) {
    int64_t p = 0;
    if (along == 1) {   /* an edge: fours, as a loop over n would be a call for each p */
        memset(packed, 0, (size_t)(k * width) * sizeof(real));
        for (; p < k; p++) {
            int64_t i = 0;
            for (; i + 4 <= n; i += 4) memcpy(packed + p * width + i, x + p * step + i, 4 * sizeof(real));
            for (; i < n; i++) packed[p * width + i] = x[p * step + i];
        }
        return;
    }
#if CTI_VECTOR_BYTES
    enum { PART = 128 };   /* of the panel, along K: what is written a vector at a time and stays in the first-level cache */
    for (int64_t part, whole = step == 1 ? k / LANES * LANES : 0; p < whole; p += part) {
        part = whole - p < PART ? whole - p : PART;
        GEMM_UNROLL for (int i = 0; i < width; i += LANES) {
            const int count = width - i < LANES ? width - i : LANES;
            real *to = packed + p * width + i;
            if (i + count <= n) gemm_turn(width, count, count, part, x + i * along + p, along, to);
            else if (i < n) gemm_turn(width, count, n - i, part, x + i * along + p, along, to);
            else gemm_clear(width, count, part, to);
        }
    }
    if (CTI_VECTOR_BYTES == 64 && step == 1 && k - p > 4) {   /* masked moves; fewer are sooner copied one by one */
        GEMM_UNROLL for (int i = 0; i < width; i += LANES) {
            const int count = width - i < LANES ? width - i : LANES;
            real *to = packed + p * width + i;
            if (i < n) gemm_turn_rest(width, count, n - i, k - p, x + i * along + p, along, to);
            else gemm_clear(width, count, k - p, to);
        }
        return;
    }
#endif
    for (; p < k; p++) {
        for (int64_t i = 0; i < n; i++) packed[p * width + i] = x[i * along + p * step];
        for (int64_t i = n; i < width; i++) packed[p * width + i] = 0;
    }
}

/* Panels of `width`, side by side, so that a row of the source is read on and on. Where rows are far apart no processor guesses where
 * the next one begins, so it is asked for. */
INLINE void gemm_pack_panels(const int width, int64_t n, int64_t k, const real *x, int64_t along, int64_t step, real *packed) {
    const int64_t whole = along == 1 ? n / width * width : 0;
    const real *row = x;
    for (int64_t p = 0; p < k && whole > 0; p++, row += step) {
        const char *ahead = (const char *)(row + PREFETCH_K * step);
        for (int64_t i = 0; i < whole; i += width) {
            GEMM_UNROLL for (int at = 0; at < width * (int)sizeof(real); at += 64) __builtin_prefetch(ahead + i * (int64_t)sizeof(real) + at);
            memcpy(packed + i * k + p * width, row + i, (size_t)width * sizeof(real));
        }
    }
    for (int64_t i = whole; i < n; i += width)
        gemm_pack(width, n - i < width ? n - i : width, k, x + i * along, along, step, packed + i * k);
}

static void gemm_pack_a(int64_t m, int64_t k, const void *a, int64_t row_stride, int64_t col_stride, void *packed) {
    gemm_pack_panels(MR, m, k, a, row_stride, col_stride, packed);
}

static void gemm_pack_b(int64_t k, int64_t n, const void *b, int64_t row_stride, int64_t col_stride, void *packed) {
    gemm_pack_panels(NR, n, k, b, col_stride, row_stride, packed);
}

/* ---- the register block ---- */

/* to = v, or from + v; with part its first n lanes. */
INLINE void gemm_put(real *to, const real *from, gemm_vec v, bool part, int64_t n) {
#if CTI_VECTOR_BYTES
    if (part) {
        store_part(to, from ? load_part(from, n) + v : v, n);
        return;
    }
#endif
    (void)part, (void)n;
    gemm_store(to, from ? gemm_load(from) + v : v);
}

INLINE gemm_vec gemm_get(const real *from, bool part, int64_t n) {
#if CTI_VECTOR_BYTES
    if (part) return load_part(from, n);
#endif
    (void)part, (void)n;
    return gemm_load(from);
}

/* How A lies; packed, its columns are dense and follow each other, which a processor fetches ahead by itself. Where it is dense one way
 * or the other a turn of the loop does several k: counting and moving pointers for each takes a processor's front end a third as long as
 * the multiplications, which shows as soon as another thread shares it. */
typedef enum { APART, DENSE_ROWS, DENSE_COLUMNS, PACKED } gemm_way;

INLINE bool gemm_by_columns(const gemm_way way) { return way == DENSE_COLUMNS || way == PACKED; }

/* sum + x b, rounded once at any level of optimisation, so that no bit depends on the block. GCC forms it in the register of a factor
 * that is not wanted again and moves it back, unless it is told how; AVX-512 takes an x that is used but once from memory. */
INLINE gemm_vec gemm_fma(const bool once, gemm_vec sum, gemm_vec x, gemm_vec b) {
#if CTI_VECTOR_BYTES && defined __x86_64__ && defined __FMA__ && !defined __clang__
#if CTI_VECTOR_BYTES == 64 && defined CTI_F64_KERNELS
    if (once) return (gemm_vec)_mm512_fmadd_pd((__m512d)x, (__m512d)b, (__m512d)sum);
#elif CTI_VECTOR_BYTES == 64
    if (once) return (gemm_vec)_mm512_fmadd_ps((__m512)x, (__m512)b, (__m512)sum);
#endif
    (void)once;
    if (sizeof(real) == 4) __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(b));
    else __asm__("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(b));
    return sum;
#else
    (void)once;
    return sum + x * b;
#endif
}

/* The u-th k of a turn: sum += A's column times a row of B, whose last vector has n columns where it is a part. Compilers are not to
 * mix two of them: they would run out of registers. */
INLINE void gemm_step(const int rows, const int vectors, const bool part, const gemm_way way, const int each, int64_t n,
                      const gemm_lines *a, const gemm_lines *b, const int u, gemm_vec sum[MR_NARROW][NV]) {
    gemm_vec bp[NV];
    __asm__ volatile("" ::: "memory");
    GEMM_UNROLL for (int j = 0; j < vectors; j++) bp[j] = gemm_get(gemm_line(4, b, u) + j * LANES, part && j == vectors - 1, n);
    GEMM_UNROLL for (int i = 0; i < rows; i++) {
        const gemm_vec x = (gemm_by_columns(way) ? gemm_line(each, a, u)[i] : gemm_line(each, a, i)[u]) - (gemm_vec){0};
        GEMM_UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = gemm_fma(vectors == 1, sum[i][j], x, bp[j]);
    }
}

/* rows, vectors and way are constants, and so is part: whether the last vector may have less than LANES columns. */
INLINE void gemm_block(const int rows, const int vectors, const bool part, const gemm_way way, const cti_gemm_form *form, int64_t n,
                       const real *a, const real *b, const real *base, real *c) {
    const int turn = way == APART ? 1 : TURN, lines = gemm_by_columns(way) ? turn : rows;
    const int64_t last = n - (vectors - 1) * LANES, size = sizeof(real);   /* columns of the last vector; bytes */
    const int64_t to_row = form->a_row * size, to_k = way == DENSE_ROWS ? size : form->a_col * size, b_to_k = form->b_row * size;
    /* What multiplies by a number in memory is two instructions inside the core, not one, where the address has an index. */
    const int each = CTI_VECTOR_BYTES == 64 && vectors == 1 && gemm_by_columns(way) ? 1 : 4;
    gemm_lines of_a = gemm_lines_of(each, lines, a, gemm_by_columns(way) ? to_k : to_row), of_b = gemm_lines_of(4, turn, b, b_to_k);
    const char *ahead = (const char *)a + PREFETCH_K * to_k;
    gemm_vec sum[MR_NARROW][NV] = {0};
    /* C is wanted at the end, and may come from far; processors of the widest vectors have room for what waits to be written. */
    GEMM_UNROLL for (int i = 0; i < rows && CTI_VECTOR_BYTES < 64; i++) {
        GEMM_UNROLL for (int at = 0; at < vectors * (int)sizeof(gemm_vec); at += 64) __builtin_prefetch((char *)(c + i * form->row) + at, 1);
    }
    const uint64_t k = (uint64_t)form->k, in_turn = turn;   /* unsigned, as then a division is a shift */
    for (uint64_t turns = k / in_turn; turns > 0; turns--) {
        gemm_hide(&of_a), gemm_hide(&of_b);
        GEMM_UNROLL for (int u = 0; u < turn; u++) {
            /* Rows of A next to each other are one line or two for each k, which that many broadcasts would wait for. */
            if (vectors > 1 && (way == APART || way == DENSE_COLUMNS)) __builtin_prefetch(ahead + (way == DENSE_COLUMNS ? of_a.to[u] : 0));
            if (vectors > 1 && way == APART && rows > 3) __builtin_prefetch(ahead + (rows - 1) * to_row);
            gemm_step(rows, vectors, part, way, each, last, &of_a, &of_b, u, sum);
        }
        gemm_advance(each, lines, &of_a, turn * to_k), gemm_advance(4, turn, &of_b, turn * b_to_k), ahead += turn * to_k;
    }
    for (uint64_t left = k % in_turn; left > 0; left--, gemm_advance(each, lines, &of_a, to_k), gemm_advance(4, turn, &of_b, b_to_k))
        gemm_step(rows, vectors, part, way, each, last, &of_a, &of_b, 0, sum);
    const real alpha = (real)form->alpha;
    const int64_t row = form->row, base_row = form->base_row;
    if (alpha != 1) {
        GEMM_UNROLL for (int i = 0; i < rows * vectors; i++) sum[i / vectors][i % vectors] *= alpha;
    }
    GEMM_UNROLL for (int i = 0; i < rows; i++) {
        GEMM_UNROLL for (int j = 0; j < vectors; j++)
            gemm_put(c + j * LANES, base ? base + j * LANES : NULL, sum[i][j], part && j == vectors - 1, last);
        c += row;
        if (base) base += base_row;
        __asm__("" : "+r"(c));   /* one addition a row: else compilers find each address from some other row's */
    }
}

/* ---- tiles: functions that are left alone, as each wants all registers ---- */

#define TILE_ARGUMENTS const cti_gemm_form *form, int64_t m, int64_t n, const real *a, const real *b, const real *base, real *c
#define TILE_AS(f) f(form, m, n, a, b, base, c)
#define TILE(rows, vectors, part, way) gemm_block(rows, vectors, part, way, form, n, a, b, base, c)

#define TILE_SWITCH(part, way) \
    switch (m) { \
        TILE_ROWS(1, part, way); TILE_ROWS(2, part, way); TILE_ROWS(3, part, way); TILE_ROWS(4, part, way); \
        TILE_ROWS(5, part, way); TILE_ROWS(6, part, way); TILE_ROWS(7, part, way); TILE_ROWS(8, part, way); \
        TILE_ROWS(9, part, way); TILE_ROWS(10, part, way); TILE_ROWS(11, part, way); TILE_ROWS(12, part, way); \
        TILE_ROWS(13, part, way); TILE_ROWS(14, part, way); TILE_ROWS(15, part, way); TILE_ROWS(16, part, way); \
    }
#define TILE_ROWS(rows, part, way) \
    case rows: \
        switch ((n + LANES - 1) / LANES) { \
            TILE_COLUMNS(rows, 1, part, way); TILE_COLUMNS(rows, 2, part, way); TILE_COLUMNS(rows, 3, part, way); \
            TILE_COLUMNS(rows, 4, part, way); \
        } \
        break
#define TILE_COLUMNS(rows, vectors, part, way) \
    case vectors: \
        if ((part || (rows) != MR || (vectors) != NV) && (vectors) <= NV && (rows) <= ((vectors) == 1 ? MR_NARROW : MR)) \
            TILE(rows, vectors, part, way); \
        break

/* Blocks of whole vectors of columns but the largest, A dense one way or the other, */
__attribute__((noinline)) static void gemm_tile_rows(TILE_ARGUMENTS) {
    TILE_SWITCH(false, DENSE_ROWS)
}

__attribute__((noinline)) static void gemm_tile_columns(TILE_ARGUMENTS) {
    TILE_SWITCH(false, DENSE_COLUMNS)
}

/* any whose columns lie next to each other in C, */
__attribute__((noinline)) static void gemm_tile_any(TILE_ARGUMENTS) {
    TILE_SWITCH(true, APART)
}
#undef TILE_COLUMNS
#undef TILE_ROWS
#undef TILE_SWITCH

/* and the largest. */
__attribute__((noinline)) static void gemm_tile_whole(TILE_ARGUMENTS) {
    (void)m;
    if (form->a_col == 1) TILE(MR, NV, false, DENSE_ROWS);
    else if (form->a_row == 1 && form->a_col == MR) TILE(MR, NV, false, PACKED);
    else if (form->a_row == 1) TILE(MR, NV, false, DENSE_COLUMNS);
    else TILE(MR, NV, false, APART);
}

INLINE void gemm_tile_dense(TILE_ARGUMENTS) {
    if (m == MR && n == NR) TILE_AS(gemm_tile_whole);
    else if (n % LANES == 0 && form->a_col == 1) TILE_AS(gemm_tile_rows);
    else if (n % LANES == 0 && form->a_row == 1) TILE_AS(gemm_tile_columns);
    else TILE_AS(gemm_tile_any);
}

/* Columns of C that are not next to each other are written from a block that has them so. */
__attribute__((noinline)) static void gemm_tile_apart(TILE_ARGUMENTS) {
    real apart[MR_NARROW * NR];
    cti_gemm_form dense = *form;
    dense.row = NR, dense.col = 1;
    gemm_tile_dense(&dense, m, n, a, b, NULL, apart);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = i * form->row + j * form->col;
            c[at] = base ? base[i * form->base_row + j * form->col] + apart[i * NR + j] : apart[i * NR + j];
        }
}

INLINE void gemm_tile(TILE_ARGUMENTS) {
    if (form->col == 1) TILE_AS(gemm_tile_dense);
    else TILE_AS(gemm_tile_apart);
}
#undef TILE
#undef TILE_AS
#undef TILE_ARGUMENTS

/* Equal shares of m, at most so many each, by short divisions. */
INLINE int64_t gemm_share(int64_t m, int64_t most) {
    if (m > INT32_MAX) return most;
    const uint32_t rows = (uint32_t)m, blocks = (rows + (uint32_t)most - 1) / (uint32_t)most;
    return (rows + blocks - 1) / blocks;
}

/* Rows in equal shares, as a block of few waits for its sums, each by all panels. */
__attribute__((noinline)) static void gemm_several(const cti_gemm_form *form, int64_t m, int64_t n, const real *a, const char *b,
                                                   int64_t panel, const real *base, real *c) {
    const int64_t most = n > LANES ? MR : MR_NARROW, rows = m > most ? gemm_share(m, most) : m;
    for (int64_t i = 0; i < m; i += rows) {
        const char *b_at = b;
        for (int64_t j = 0; j < n; j += NR, b_at += panel) {
            const int64_t at = j * form->col;
            gemm_tile(form, m - i < rows ? m - i : rows, n - j < NR ? n - j : NR, a + i * form->a_row, (const real *)b_at,
                      base ? base + i * form->base_row + at : NULL, c + i * form->row + at);
        }
    }
}

static void gemm_blocks(const cti_gemm_form *form, int64_t m, int64_t n, const void *a, const void *b, int64_t panel, const void *base,
                        void *c) {
    if (n <= NR && m <= (n > LANES ? MR : MR_NARROW)) gemm_tile(form, m, n, a, b, base, c);
    else gemm_several(form, m, n, a, b, panel, base, c);
}

/* ---- few rows: nothing packed ---- */

/* A block of dot products: rows of A and columns of B that are dense along K. Its sums are vectors too, so B need not be turned. */
/* Lane i becomes the sum of x[i]'s lanes, each in the same order; x is used up. */
INLINE gemm_vec gemm_sums(gemm_vec x[LANES]) {
#if CTI_VECTOR_BYTES
    GEMM_UNROLL for (int half = LANES / 2; half > 0; half /= 2) {
        GEMM_UNROLL for (int i = 0; i < half; i++)
            x[i] = GEMM_SHUFFLE(x[i], x[i + half], GEMM_ZIP_LOW) + GEMM_SHUFFLE(x[i], x[i + half], GEMM_ZIP_HIGH);
    }
#endif
    return x[0];
}

/* sum[i][j] += a[i] b[j], a vector of each, or the first n lanes of it. */
INLINE void gemm_dot_step(const int rows, const bool part, int64_t n, const real *a, int64_t a_row, const real *const b[DOT_COLS],
                          int64_t p, gemm_vec *sum) {
    gemm_vec bp[DOT_COLS];
    GEMM_UNROLL for (int j = 0; j < DOT_COLS; j++) bp[j] = gemm_get(b[j] + p, part, n);
    GEMM_UNROLL for (int i = 0; i < rows; i++) {
        gemm_vec x = gemm_get(a + i * a_row + p, part, n);
        GEMM_UNROLL for (int j = 0; j < DOT_COLS; j++) sum[i * DOT_COLS + j] += x * bp[j];
    }
}

/* rows is a constant; n <= DOT_COLS: columns that are not there repeat the first. */
INLINE void gemm_dot_block(const int rows, int64_t n, int64_t k, const real *a, int64_t a_row, const real *b, int64_t b_col, real alpha,
                           bool add, real *c, int64_t row, int64_t col) {
    enum { ALL = (DOT_ROWS * DOT_COLS + LANES - 1) / LANES * LANES };
    gemm_vec sum[ALL] = {0};
    const real *columns[DOT_COLS];
    real out[ALL];
    int64_t p = 0;
    GEMM_UNROLL for (int j = 0; j < DOT_COLS; j++) columns[j] = j < n ? b + j * b_col : b;
    for (; p + LANES <= k; p += LANES) gemm_dot_step(rows, false, LANES, a, a_row, columns, p, sum);
    if (p < k) gemm_dot_step(rows, true, k - p, a, a_row, columns, p, sum);
    GEMM_UNROLL for (int i = 0; i < rows * DOT_COLS; i += LANES) gemm_store(out + i, gemm_sums(sum + i));
    for (int i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            real *to = c + i * row + j * col, x = alpha * out[i * DOT_COLS + j];
            *to = add ? *to + x : x;
        }
    }
}

static void gemm_dots(int64_t m, int64_t n, int64_t k, const void *a_, int64_t a_row, const void *b_, int64_t b_col, double alpha, bool add,
                      void *c_, int64_t row, int64_t col) {
    const int64_t blocks = (m + DOT_ROWS - 1) / DOT_ROWS, share = (m + blocks - 1) / blocks;
    for (int64_t j = 0; j < n; j += DOT_COLS) {
        const int64_t columns = n - j < DOT_COLS ? n - j : DOT_COLS;
        const real *b = (const real *)b_ + j * b_col;
        for (int64_t i = 0; i < m; i += share) {
            const real *a = (const real *)a_ + i * a_row;
            real *c = (real *)c_ + i * row + j * col;
#define DOTS(rows) \
    case rows: \
        if ((rows) <= DOT_ROWS) gemm_dot_block(rows, columns, k, a, a_row, b, b_col, (real)alpha, add, c, row, col); \
        break
            switch (m - i < share ? m - i : share) { DOTS(1); DOTS(2); DOTS(3); DOTS(4); DOTS(5); DOTS(6); }
#undef DOTS
        }
    }
}

/* y = alpha x B, or += with add; k rows of B, columns next to each other: `count` vectors of y at a time. */
INLINE void gemm_row_columns(const int count, int64_t k, const real *x, const real *b, int64_t b_row, real alpha, bool add, real *y) {
    gemm_vec sum[GEMV_VECTORS] = {0};
    for (int64_t p = 0; p < k; p++, b += b_row) {
        GEMM_UNROLL for (int j = 0; j < count; j++) sum[j] += x[p] * gemm_load(b + j * LANES);
    }
    GEMM_UNROLL for (int j = 0; j < count; j++) {
        real *to = y + j * LANES;
        gemm_store(to, add ? gemm_load(to) + alpha * sum[j] : alpha * sum[j]);
    }
}

static void gemm_row(int64_t n, int64_t k, const void *x_, int64_t x_stride, const void *b_, int64_t b_row, int64_t b_col, double alpha_,
                     bool add, void *y_, int64_t y_stride) {
    const real *x = x_, *b = b_, alpha = (real)alpha_;
    real *y = y_, dense[KC];
    if (x_stride != 1) {
        for (int64_t p = 0; p < k; p++) dense[p] = x[p * x_stride];
        x = dense;
    }
    int64_t j = 0;
    if (b_col == 1 && y_stride == 1) {
        for (; j + GEMV_VECTORS * LANES <= n; j += GEMV_VECTORS * LANES)
            gemm_row_columns(GEMV_VECTORS, k, x, b + j, b_row, alpha, add, y + j);
        for (; j + LANES <= n; j += LANES) gemm_row_columns(1, k, x, b + j, b_row, alpha, add, y + j);
    } else if (b_row == 1) {
        gemm_dots(1, n, k, x, 0, b, b_col, alpha, add, y, 0, y_stride);
        return;
    }
    for (; j < n; j++) {
        real sum = 0;
        for (int64_t p = 0; p < k; p++) sum += x[p] * b[p * b_row + j * b_col];
        y[j * y_stride] = add ? y[j * y_stride] + alpha * sum : alpha * sum;
    }
}

#define GEMM_KERNELS { \
    .mr = MR, .nr = NR, .lanes = LANES, .tall = MR_NARROW, .kc = KC, .tuning = GEMM_TUNING, \
    .pack_a = gemm_pack_a, .pack_b = gemm_pack_b, .blocks = gemm_blocks, .dots = gemm_dots, .row = gemm_row \
}

#endif
