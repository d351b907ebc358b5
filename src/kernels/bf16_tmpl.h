/* Rounding to bf16, and packing into panels of bf16. The file is compiled with AVX512-BF16 for the
 * instruction sets that have it, and in plain C as their specification. A "line" is a row of A or a
 * column of B, as in gemm_pack_tmpl.h.
 *
 * A packed panel has one of two layouts:
 *
 *     BF16_BY_PAIR                                BF16_BY_LINE
 *     line 0: k 0, k 1 | line 1: k 0, k 1 | ...   line 0: k 0 ... k 31 |
 *     line 0: k 2, k 3 | line 1: k 2, k 3 | ...   line 1: k 0 ... k 31 | ...
 *
 * Invariants of panels:
 * 1. A panel has `width` lines, MR rows of A or NR columns of B. Lines behind the matrix's last are
 *    zeros.
 * 2. In BF16_BY_PAIR a panel has, for each pair of k (2p and 2p + 1), the elements of all lines,
 *    the two of one line side by side. vdpbf16ps and the B tiles of AMX read this layout.
 * 3. In BF16_BY_LINE a panel has, for each chunk of BF16_CHUNK k, all elements of the first line,
 *    then all of the second, and so on. The A tiles of AMX read this layout.
 * 4. K is padded with zeros to whole pairs or to whole chunks (`unit`).
 * 5. A panel of several terms has each chunk once for each of them, one behind the other, so its
 *    unit is a chunk: every product of terms reads the same panel. */
#ifndef CTI_KERNELS_BF16_TMPL_H
#define CTI_KERNELS_BF16_TMPL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "products.h"
#include "simd.h"

typedef uint16_t bf16_bits;
typedef enum { BF16_BY_PAIR, BF16_BY_LINE } bf16_layout;
enum { BF16_CHUNK = 32 /* the k of a chunk: one row of an A tile, or one vector of bf16 */ };

/* ---- rounding ---- */

/* Returns the nearest bf16; if two are equally near, the even one. A NaN stays a NaN (quiet); a
 * number that is too large becomes an infinity; a number below 2^-126, the least normal number,
 * becomes a zero of its sign. vcvtneps2bf16 does the same. */
INLINE bf16_bits bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return (bf16_bits)(bits >> 16 | 0x40);
    if (magnitude < 0x00800000) return (bf16_bits)(bits >> 16 & 0x8000);
    return (bf16_bits)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

INLINE float bf16_value(bf16_bits x) {
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* Returns one of the terms 0, 1 and 2 of x. Term 0 is bf16_of(x); each later term is the bf16 of
 * the remainder after the terms before it. The sum of the three is x to within 2^-24 of it. */
INLINE bf16_bits bf16_term(float x, const int term) {
    for (int i = 0; i < term; i++) x -= bf16_value(bf16_of(x));
    return bf16_of(x);
}

#if defined __AVX512BF16__
INLINE __m512 bf16_term_of_16(__m512 x, const int term) {
    UNROLL
    for (int i = 0; i < term; i++)
        x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(
                                 _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16)));
    return x;
}

/* Returns a term of each of the 16 numbers in low, then of each of the 16 in high. */
INLINE __m512i bf16_of_two(__m512 low, __m512 high, const int term) {
    return (__m512i)_mm512_cvtne2ps_pbh(bf16_term_of_16(high, term), bf16_term_of_16(low, term));
}

/* Returns a mask with a bit for each of the first n of 16 lanes. */
INLINE __mmask16 bf16_first_of_16(int64_t n) {
    return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

/* Returns the first n numbers of a line, n <= BF16_CHUNK, then zeros, as 16 pairs. */
INLINE __m512i bf16_pairs_of_line(const float *x, int64_t n, const int term) {
    return n >= BF16_CHUNK
               ? bf16_of_two(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), term)
               : bf16_of_two(_mm512_maskz_loadu_ps(bf16_first_of_16(n), x),
                             _mm512_maskz_loadu_ps(bf16_first_of_16(n - 16), x + 16), term);
}

/* Returns the pair (x[i], y[i]) for each line i in the mask `lines`, and zeros for other lines. A y
 * of NULL counts as zeros. */
INLINE __m512i bf16_pair_of_lines(const float *x, const float *y, __mmask16 lines, const int term) {
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(
        _mm512_loadu_si512(order),
        bf16_of_two(_mm512_maskz_loadu_ps(lines, x),
                    y ? _mm512_maskz_loadu_ps(lines, y) : _mm512_setzero_ps(), term));
}

/* Transposes 16 vectors of 16 elements of 32 bits. */
INLINE void bf16_transpose_pairs(__m512i x[16]) {
    __m512i y[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) { /* 2 x 2 blocks of elements */
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) { /* 4 x 4: x[i + j] has columns j, j + 4, j + 8, j + 12 */
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) { /* 8 x 8 and 16 x 16: blocks of 128 bits */
        const __m512i a = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88),
                      b = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xDD),
                      c = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88),
                      d = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xDD);
        y[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        y[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        y[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
        y[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
    }
    UNROLL
    for (int i = 0; i < 16; i++) x[i] = y[i];
}
#endif

/* ---- packing ---- */

/* The format of the panels that a call packs, all compile-time constants. */
typedef struct {
    int width; /* the number of lines of a panel */
    bf16_layout layout;
    int unit;       /* K is padded to a multiple of this: 2 or BF16_CHUNK */
    int term_count; /* how many terms of each element are packed, 1 to 3: see bf16_term */
} bf16_panels;

/* Packs one term of k numbers, k <= BF16_CHUNK, of n lines, n <= width, into a chunk of a panel. */
INLINE void bf16_pack_chunk_plain(const bf16_panels *p, const int term, int64_t n, int64_t k,
                                  const float *x, int64_t line, int64_t step, bf16_bits *packed) {
    const int64_t padded = p->unit == 2 ? (k + 1) / 2 * 2 : BF16_CHUNK;
    for (int64_t i = 0; i < p->width; i++)
        for (int64_t j = 0; j < padded; j++) {
            const bf16_bits value = i < n && j < k ? bf16_term(x[i * line + j * step], term) : 0;
            packed[p->layout == BF16_BY_LINE ? i * BF16_CHUNK + j
                                             : (j / 2 * p->width + i) * 2 + j % 2] = value;
        }
}

#if defined __AVX512BF16__
/* Packs one term of 16 lines of a panel, from line `first` on, or as many as are left. Either line
 * or step is 1. */
INLINE void bf16_pack_16_lines(const bf16_panels *p, const int term, const int first, int64_t n,
                               int64_t k, const float *x, int64_t line, int64_t step,
                               bf16_bits *packed) {
    const int count = p->width - first < 16 ? p->width - first : 16;
    const bool by_line = step == 1;
    __m512i block[16];
    UNROLL
    for (int i = 0; i < 16; i++) {
        const float *at = by_line ? x + i * line : x + 2 * i * step;
        if (by_line)
            block[i] =
                i < count && i < n ? bf16_pairs_of_line(at, k, term) : _mm512_setzero_si512();
        else
            block[i] = 2 * i < k ? bf16_pair_of_lines(at, 2 * i + 1 < k ? at + step : NULL,
                                                      bf16_first_of_16(n), term)
                                 : _mm512_setzero_si512();
    }
    if (by_line == (p->layout == BF16_BY_PAIR)) bf16_transpose_pairs(block);
    if (p->layout == BF16_BY_LINE) {
        UNROLL
        for (int i = 0; i < 16; i++)
            if (i < count) _mm512_storeu_si512(packed + (first + i) * BF16_CHUNK, block[i]);
        return;
    }
    const int64_t pairs = p->unit == 2 ? (k + 1) / 2 : BF16_CHUNK / 2;
    UNROLL
    for (int i = 0; i < 16; i++)
        if (i < pairs)
            _mm512_mask_storeu_epi32(packed + (i * p->width + first) * 2,
                                     (__mmask16)((1u << count) - 1), block[i]);
}
#endif

INLINE void bf16_pack_chunk(const bf16_panels *p, const int term, int64_t n, int64_t k,
                            const float *x, int64_t line, int64_t step, bf16_bits *packed) {
    packed += term * BF16_CHUNK * p->width;
#if defined __AVX512BF16__
    if (line == 1 || step == 1) {
        UNROLL
        for (int first = 0; first < p->width; first += 16)
            bf16_pack_16_lines(p, term, first, n - first, k, x + first * line, line, step, packed);
        return;
    }
#endif
    bf16_pack_chunk_plain(p, term, n, k, x, line, step, packed);
}

#if defined __AVX512BF16__
/* Packs one term of the pair (x[i], y[i]) of each line i in the mask `lines`, and zeros for the
 * other lines in `written`. */
INLINE void bf16_pack_pair(const bf16_panels *p, const int term, const __mmask16 written,
                           __mmask16 lines, const float *x, const float *y, bf16_bits *packed) {
    const __m512i pair = bf16_pair_of_lines(x, y, lines, term);
    packed += term * BF16_CHUNK * p->width;
    if (written == 0xFFFF) _mm512_storeu_si512(packed, pair);
    else _mm512_mask_storeu_epi32(packed, written, pair);
}

/* Packs BF16_BY_PAIR a matrix in which line is 1: for each k the elements of all lines are one
 * dense row of the source. Each pair of rows is packed into all panels before the next pair, so the
 * source is read in order. */
INLINE void bf16_pack_dense_lines(const bf16_panels *p, int64_t n, int64_t k, const float *x,
                                  int64_t step, bf16_bits *packed) {
    enum { AHEAD = 8 }; /* how many rows ahead is prefetched, like PREFETCH_K */
    const int64_t padded = (k + p->unit - 1) / p->unit * p->unit;
    const int64_t panel = padded * p->term_count * p->width;
    for (int64_t j = 0; j < padded; j += 2, x += 2 * step) {
        bf16_bits *to =
            packed + (j / BF16_CHUNK * p->term_count * BF16_CHUNK + j % BF16_CHUNK) * p->width;
        for (int64_t i = 0; i < n; i += p->width, to += panel) {
            UNROLL
            for (int first = 0; first < p->width; first += 16) {
                const int count = p->width - first < 16 ? p->width - first : 16;
                const float *at = x + i + first;
                const __mmask16 written = (__mmask16)((1u << count) - 1);
                const __mmask16 lines = j < k ? written & bf16_first_of_16(n - i - first) : 0;
                __builtin_prefetch(at + AHEAD * step);
                __builtin_prefetch(at + (AHEAD + 1) * step);
                const float *second = j + 1 < k ? at + step : NULL;
                bf16_pack_pair(p, 0, written, lines, at, second, to + first * 2);
                if (p->term_count > 1)
                    bf16_pack_pair(p, 1, written, lines, at, second, to + first * 2);
                if (p->term_count > 2)
                    bf16_pack_pair(p, 2, written, lines, at, second, to + first * 2);
            }
        }
    }
}
#endif

/* Packs n lines of k numbers into panels, one behind the other. */
INLINE void bf16_pack_panels(const bf16_panels *p, int64_t n, int64_t k, const float *x,
                             int64_t line, int64_t step, bf16_bits *packed) {
#if defined __AVX512BF16__
    if (line == 1 && p->layout == BF16_BY_PAIR) {
        bf16_pack_dense_lines(p, n, k, x, step, packed);
        return;
    }
#endif
    const int64_t panel = (k + p->unit - 1) / p->unit * p->unit * p->term_count * p->width;
    for (int64_t i = 0; i < n; i += p->width, packed += panel) {
        const int64_t lines = n - i < p->width ? n - i : p->width;
        bf16_bits *to = packed;
        for (int64_t j = 0; j < k; j += BF16_CHUNK, to += p->term_count * BF16_CHUNK * p->width) {
            const int64_t depth = k - j < BF16_CHUNK ? k - j : BF16_CHUNK;
            const float *at = x + i * line + j * step;
            bf16_pack_chunk(p, 0, lines, depth, at, line, step, to);
            if (p->term_count > 1) bf16_pack_chunk(p, 1, lines, depth, at, line, step, to);
            if (p->term_count > 2) bf16_pack_chunk(p, 2, lines, depth, at, line, step, to);
        }
    }
}

/* ---- the end of a tile ---- */

/* Writes C = base + alpha sum, rounded after the product and after the sum. Rows of sums are
 * `width` numbers apart, a multiple of LANES. */
INLINE void bf16_store_sums(const cti_gemm_params *params, int64_t m, int64_t n, const float *sum,
                            const int width, const float *base, float *c) {
    const float alpha = (float)params->alpha;
    const int64_t col = params->col;
    for (int64_t i = 0; i < m; i++, sum += width, c += params->row) {
        for (int64_t j = 0; j < n && col == 1; j += LANES) {
            const vec x = alpha * load_real(sum + j);
            store_real_part(c + j, base ? load_real_part(base + j, n - j) + x : x, n - j);
        }
        for (int64_t j = 0; j < n && col != 1; j++)
            c[j * col] = base ? base[j * col] + alpha * sum[j] : alpha * sum[j];
        if (base) base += params->base_row;
    }
}

#endif
