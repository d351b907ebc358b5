/* Reading lines of blocks (block_line.h) as f32. A vector never crosses the middle of a block,
 * because it has at most 16 lanes and begins at a multiple of its lanes. */
#ifndef CTI_KERNELS_GEMM_BLOCKS_TMPL_H
#define CTI_KERNELS_GEMM_BLOCKS_TMPL_H

#include "gemm_source_tmpl.h"
#include "half.h"

_Static_assert((int)LANES <= (int)CTI_BLOCK_LENGTH / 2, "a vector lies in half a block");

enum {
    /* The scales that are widened at once. Lines of 576 and 896 elements have 18 and 28. */
    BLOCK_SCALES = LANES > 8 ? 32 : 16,
};

/* Returns a scale. */
INLINE real gemm_block_scale(const char *scale) {
    uint16_t half;
    memcpy(&half, scale, sizeof half);
    const uint32_t bits = cti_f16_widen(half);
    float value;
    memcpy(&value, &bits, sizeof value);
    return (real)value;
}

#ifndef CTI_F64_KERNELS
/* Returns LANES scales. */
INLINE gemm_vec gemm_block_scale_vec(const char *scale) {
#if CTI_VECTOR_BYTES == 64
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)scale));
#elif CTI_VECTOR_BYTES
    uint16_t half[LANES];
    memcpy(half, scale, sizeof half);
    ivec bits;
    for (int l = 0; l < LANES; l++) bits[l] = half[l];
    const ivec sign = (bits & 0x8000) << 16, magnitude = (bits & 0x7FFF) << 13,
               exponent = bits & 0x7C00;
    /* The exponent's bias is 112 larger in f32. An infinity or NaN keeps the largest exponent. A
     * denormal becomes 2^-14 + itself, from which 2^-14 is subtracted, so that no denormal of f32
     * appears: a thread may count these as zero. */
    const ivec more = (exponent == 0x7C00) & (112 << 23), less = (exponent == 0) & (1 << 23);
    const vec wide = (vec)(magnitude + (112 << 23) + more + less);
    const vec value = wide - keep(exponent == 0, splat(0x1p-14f));
    return (vec)((ivec)value | sign);
#else
    return gemm_block_scale(scale);
#endif
}
#endif

/* Sets out[i] to scale number first + i of a line of blocks, as far as there are as many, and
 * returns first; or, near the end of the line, does so for an earlier first: BLOCK_SCALES scales
 * are read at once, and none behind the line. What lies before the scales are codes, which are
 * widened too if the line has fewer scales, but not used. */
INLINE int64_t gemm_block_scales(const gemm_source of, const char *line, int64_t blocks,
                                 int64_t first, real out[BLOCK_SCALES]) {
    const int bits = gemm_code_bits(of);
    const char *scale = line + cti_line_codes(bits, blocks * CTI_BLOCK_LENGTH);
    const int64_t size = (int64_t)sizeof(uint16_t);
#ifndef CTI_F64_KERNELS
    if (cti_line_bytes(bits, blocks * CTI_BLOCK_LENGTH) >= BLOCK_SCALES * size) {
        const int64_t at = first + BLOCK_SCALES <= blocks ? first : blocks - BLOCK_SCALES;
        UNROLL
        for (int i = 0; i < BLOCK_SCALES; i += LANES)
            gemm_store(out + i, gemm_block_scale_vec(scale + (at + i) * size));
        return at;
    }
#endif
    for (int64_t i = first; i < blocks; i++) out[i - first] = gemm_block_scale(scale + i * size);
    return first;
}

/* Returns element i of a block, whose codes and scale are given. */
INLINE real gemm_block_get(const gemm_source of, const char *codes, int i, real scale) {
    if (of == OF_Q8_0) return (real)(signed char)codes[i] * scale;
    const int pair = (unsigned char)codes[i % (CTI_BLOCK_LENGTH / 2)];
    return (real)((i < CTI_BLOCK_LENGTH / 2 ? pair & 15 : pair >> 4) - 8) * scale;
}

/* Returns the elements from number l of a half of a block on, LANES of them. A product of a code
 * and a scale is exact, so all ways to compute it have the same bits. */
INLINE gemm_vec gemm_block_load(const gemm_source of, const char *codes, const int half, int l,
                                real scale) {
#if CTI_VECTOR_BYTES && !defined CTI_F64_KERNELS
    const char *at = of == OF_Q8_0 ? codes + half * CTI_BLOCK_LENGTH / 2 + l : codes + l;
#if CTI_VECTOR_BYTES == 64
    const __m128i code = _mm_loadu_si128((const void *)at);
    if (of == OF_Q8_0) return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(code)) * splat(scale);
    /* The 16 values that a code can mean fit into one vector, from which each code picks its
     * own. The permutation reads the lower 4 bits of a lane. */
    const vec values = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    const __m512i pair = _mm512_cvtepu8_epi32(code);
    return (vec)_mm512_permutexvar_ps(half ? _mm512_srli_epi32(pair, 4) : pair,
                                      (__m512)(values * splat(scale)));
#else
    ivec code;
#if CTI_VECTOR_BYTES == 32
    const __m128i byte = _mm_loadl_epi64((const void *)at);
    code = (ivec)(of == OF_Q8_0 ? _mm256_cvtepi8_epi32(byte) : _mm256_cvtepu8_epi32(byte));
#else
    for (int i = 0; i < LANES; i++)
        code[i] = of == OF_Q8_0 ? (signed char)at[i] : (unsigned char)at[i];
#endif
    if (of == OF_Q4_0) code = (half ? code >> 4 : code & 15) - 8;
    return __builtin_convertvector(code, vec) * splat(scale);
#endif
#else
    return gemm_block_get(of, codes, half * CTI_BLOCK_LENGTH / 2 + l, scale) - (gemm_vec){0};
#endif
}

#endif
