/* The vectors that kernels are written with: GCC's vector extensions, in the width of the
 * instruction set (ISA) that the file is compiled for.
 *
 * A translation unit is compiled for one ISA and one dtype: CTI_F64_KERNELS picks double, and
 * CTI_VECTOR_BYTES is the width (0: one element, the scalar build). Everything is static; an object
 * exports only the function that puts its kernels into a table (CTI_PUT). A comparison of vectors
 * gives 0 or -1 in each lane, and < and > give 0 if an operand is NaN. That is how v_max and v_min
 * return NaN if an operand is NaN.
 *
 * An element of a tensor is `stored` in memory and `real` in arithmetic. In f32 and f64 the two are
 * one type. Numbers that only an op's own kernels read are real in memory too: packed panels, tiles
 * of C, attention's scores, and the statistics that forward saves for backward (mean, rstd, max, 1
 * / sum, cosines). load and store (vectors) convert if the pointer is to stored; get and put
 * (single elements) always do. A 16-bit dtype would be a third case of the types below, with its
 * conversions in to_real, to_stored, get_all, load_stored, store_stored and the two _part. */
#ifndef CTI_KERNELS_SIMD_H
#define CTI_KERNELS_SIMD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if CTI_VECTOR_BYTES && (defined __AVX512F__ || defined __AVX2__)
#include <immintrin.h>
#endif

#ifdef CTI_F64_KERNELS
typedef double real;
typedef int64_t integer; /* as wide as real */
typedef uint64_t natural;
#define REAL(x)    x
#define LIBM(name) name
#else
typedef float real;
typedef int32_t integer;
typedef uint32_t natural;
#define REAL(x)    x##f
#define LIBM(name) name##f
#endif

#if CTI_VECTOR_BYTES
enum { LANES = CTI_VECTOR_BYTES / sizeof(real) };
#else
enum { LANES = 1 };
#endif
/* LANES for the preprocessor; 0 in the scalar build. */
#ifdef CTI_F64_KERNELS
#define VECTOR_LANES (CTI_VECTOR_BYTES / 8)
#else
#define VECTOR_LANES (CTI_VECTOR_BYTES / 4)
#endif

/* The lanes of a and b that the indices select: 0 ... LANES - 1 are a's, LANES ... are b's. */
#if defined __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define UNROLL             _Pragma("unroll")
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#define UNROLL             _Pragma("GCC unroll 32")
#endif

typedef real vec __attribute__((vector_size(LANES * sizeof(real))));
/* Signed integers, and masks: 0 or -1 in each lane. */
typedef integer ivec __attribute__((vector_size(LANES * sizeof(real))));
/* Bits, for arithmetic that wraps around. */
typedef natural uvec __attribute__((vector_size(LANES * sizeof(real))));

#define INLINE static inline __attribute__((always_inline))

#ifdef CTI_STORED_APART
/* For tests/kernels/test_stored.c: f32 in a struct, so that a loop that forgets to convert does not
 * compile. */
typedef struct {
    float value;
} stored;
INLINE real to_real(stored x) { return (real)x.value; }
INLINE stored to_stored(real x) { return (stored){(float)x}; }
#else
typedef real stored;
INLINE real to_real(stored x) { return x; }
INLINE stored to_stored(real x) { return x; }
#endif

INLINE real get_one(const stored *p) { return to_real(*p); }
INLINE void put_one(stored *p, real x) { *p = to_stored(x); }

INLINE vec splat(real x) { return x - (vec){0}; }
INLINE vec load_real(const real *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store_real(real *p, vec v) { memcpy(p, &v, sizeof v); }
/* to[i] = from[i], i < n */
INLINE void get_all(int64_t n, const stored *from, real *to) {
#ifdef CTI_STORED_APART
    for (int64_t i = 0; i < n; i++) to[i] = get_one(from + i);
#else
    memcpy(to, from, (size_t)n * sizeof *to);
#endif
}

/* Arrays that are read once, from one end to the other, are prefetched FETCH bytes ahead, which is
 * further than the hardware prefetcher goes. An array that is also written is prefetched for
 * writing: the prefetch invalidates other cores' copies of the line, and the store does not wait
 * for that. */
enum { FETCH = 2048 };
INLINE void fetch(const void *p) { __builtin_prefetch((const char *)p + FETCH); }
INLINE void fetch_to_write(void *p) { __builtin_prefetch((char *)p + FETCH, 1); }

/* Returns -1 in the first n lanes, and 0 in the others. */
INLINE ivec first_lanes(int64_t n) {
    static const integer number[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ivec lane;
    memcpy(&lane, number, sizeof lane);
    return lane < (integer)(n < LANES ? n : LANES);
}

/* These load and store the first n lanes: none for n <= 0, all for n >= LANES. Other lanes of a
 * loaded vector are zero. Masked moves are used if the ISA has them: filling a vector in memory
 * element by element and then loading it would be a store-forwarding stall. */
INLINE vec load_real_part(const real *p, int64_t n) {
    if (n >= LANES) return load_real(p);
#if CTI_VECTOR_BYTES == 64 && defined CTI_F64_KERNELS
    return (vec)_mm512_maskz_loadu_pd((__mmask8)(n > 0 ? (1u << n) - 1 : 0), p);
#elif CTI_VECTOR_BYTES == 64
    return (vec)_mm512_maskz_loadu_ps((__mmask16)(n > 0 ? (1u << n) - 1 : 0), p);
#elif CTI_VECTOR_BYTES == 32 && defined CTI_F64_KERNELS
    return (vec)_mm256_maskload_pd(p, (__m256i)first_lanes(n));
#elif CTI_VECTOR_BYTES == 32
    return (vec)_mm256_maskload_ps(p, (__m256i)first_lanes(n));
#else
    vec v = {0};
    for (int l = 0; l < LANES - 1; l++)
        if (l < n) v[l] = p[l];
    return v;
#endif
}
INLINE void store_real_part(real *p, vec v, int64_t n) {
    if (n >= LANES) {
        store_real(p, v);
        return;
    }
#if CTI_VECTOR_BYTES == 64 && defined CTI_F64_KERNELS
    _mm512_mask_storeu_pd(p, (__mmask8)(n > 0 ? (1u << n) - 1 : 0), (__m512d)v);
#elif CTI_VECTOR_BYTES == 64
    _mm512_mask_storeu_ps(p, (__mmask16)(n > 0 ? (1u << n) - 1 : 0), (__m512)v);
#elif CTI_VECTOR_BYTES == 32 && defined CTI_F64_KERNELS
    _mm256_maskstore_pd(p, (__m256i)first_lanes(n), (__m256d)v);
#elif CTI_VECTOR_BYTES == 32
    _mm256_maskstore_ps(p, (__m256i)first_lanes(n), (__m256)v);
#else
    for (int l = 0; l < LANES - 1; l++)
        if (l < n) p[l] = v[l];
#endif
}

#ifdef CTI_STORED_APART
INLINE vec load_stored_part(const stored *p, int64_t n) {
    real lanes[LANES] = {0};
    for (int l = 0; l < LANES; l++)
        if (l < n) lanes[l] = get_one(p + l);
    return load_real(lanes);
}
INLINE void store_stored_part(stored *p, vec v, int64_t n) {
    for (int l = 0; l < LANES; l++)
        if (l < n) put_one(p + l, v[l]);
}
INLINE vec load_stored(const stored *p) { return load_stored_part(p, LANES); }
INLINE void store_stored(stored *p, vec v) { store_stored_part(p, v, LANES); }
#else
INLINE vec load_stored(const stored *p) { return load_real(p); }
INLINE vec load_stored_part(const stored *p, int64_t n) { return load_real_part(p, n); }
INLINE void store_stored(stored *p, vec v) { store_real(p, v); }
INLINE void store_stored_part(stored *p, vec v, int64_t n) { store_real_part(p, v, n); }
#endif

/* An element of bf16 in memory. Only the B of f32's products is of this type (gemm_of_bf16). */
typedef struct {
    uint16_t bits;
} bf16_stored;
#ifndef CTI_F64_KERNELS
INLINE real get_bf16(const bf16_stored *p) {
    const uint32_t bits = (uint32_t)p->bits << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* Returns the values as f32: the bf16 is the upper half of a lane, and the lower half is 0. */
INLINE vec load_bf16(const bf16_stored *p) {
#if CTI_VECTOR_BYTES == 64
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16);
#elif CTI_VECTOR_BYTES == 32
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16);
#else
    vec v;
    for (int l = 0; l < LANES; l++) v[l] = get_bf16(p + l);
    return v;
#endif
}
/* Does the same for n elements, 0 <= n < LANES, and reads no memory behind them. */
INLINE vec load_bf16_part(const bf16_stored *p, int64_t n) {
#if CTI_VECTOR_BYTES == 64
    const __mmask16 first = (__mmask16)((1u << n) - 1);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, p)), 16);
#else
    bf16_stored part[LANES] = {0};
    for (int64_t l = 0; l < n; l++) part[l] = p[l];
    return load_bf16(part);
#endif
}
#endif

/* Picks f_real for a pointer to real, and f_stored otherwise. */
#define BY_POINTER(p, f)                                                                           \
    _Generic((p), real *: f##_real, const real *: f##_real, default: f##_stored)
#define BY_POINTER_PART(p, f)                                                                      \
    _Generic((p), real *: f##_real_part, const real *: f##_real_part, default: f##_stored_part)
#define load(p)             BY_POINTER(p, load)(p)
#define load_part(p, n)     BY_POINTER_PART(p, load)(p, n)
#define store(p, v)         BY_POINTER(p, store)(p, v)
#define store_part(p, v, n) BY_POINTER_PART(p, store)(p, v, n)

/* Returns -1 in the lanes whose byte is true, and 0 in the others. */
INLINE ivec load_mask(const bool *p, int64_t n) {
    integer lane[LANES] = {0};
    if (n >= LANES)
        for (int l = 0; l < LANES; l++) lane[l] = -(integer)p[l];
    else
        for (int l = 0; l < n; l++) lane[l] = -(integer)p[l];
    ivec mask;
    memcpy(&mask, lane, sizeof mask);
    return mask;
}

/* Returns x, rounded before it is added to anything. In a b + c d compilers may fuse either product
 * into an FMA, depending on the code around it; in rounded(a * b) + c * d they can fuse only c
 * d. */
INLINE vec rounded(vec x) {
#if CTI_VECTOR_BYTES && defined __x86_64__
    __asm__("" : "+v"(x));
#elif CTI_VECTOR_BYTES && defined __aarch64__
    __asm__("" : "+w"(x));
#endif
    return x;
}

/* mask ? a : b, and mask ? a : 0 */
INLINE vec blend(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }
INLINE vec keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }

INLINE vec v_max(vec a, vec b) { return blend((a > b) | (a != a), a, b); } /* NaN wins */
INLINE vec v_min(vec a, vec b) { return blend((a < b) | (a != a), a, b); }
INLINE ivec sign_bit(vec x) { return (ivec)x & (ivec)splat(REAL(-0.0)); }
INLINE vec v_abs(vec x) { return (vec)((ivec)x & ~(ivec)splat(REAL(-0.0))); }
INLINE vec copy_sign(vec x, vec sign) { return (vec)((ivec)x | sign_bit(sign)); } /* x >= 0 */

/* Returns f of each lane. If one instruction does the same and f need not set errno, compilers use
 * it. */
INLINE vec each_lane(vec x, real (*f)(real)) {
    for (int l = 0; l < LANES; l++) x[l] = f(x[l]);
    return x;
}
/* The instruction is named if there is one: compilers replace a loop over sqrt by it only if sqrt
 * need not set errno. */
INLINE vec v_sqrt(vec x) {
#if CTI_VECTOR_BYTES == 64 && defined CTI_F64_KERNELS
    return (vec)_mm512_sqrt_pd((__m512d)x);
#elif CTI_VECTOR_BYTES == 64
    return (vec)_mm512_sqrt_ps((__m512)x);
#elif CTI_VECTOR_BYTES == 32 && defined CTI_F64_KERNELS
    return (vec)_mm256_sqrt_pd((__m256d)x);
#elif CTI_VECTOR_BYTES == 32
    return (vec)_mm256_sqrt_ps((__m256)x);
#else
    return each_lane(x, LIBM(sqrt));
#endif
}

INLINE bool any_lane(ivec mask) {
#if CTI_VECTOR_BYTES == 64
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif CTI_VECTOR_BYTES == 32
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    integer any = 0;
    for (int l = 0; l < LANES; l++) any |= mask[l];
    return any != 0;
#endif
}

#endif
