/* The helpers that the kernels of matrix products share: vectors, unrolled loops, and the addresses
 * of several rows or columns at once. */
#ifndef CTI_KERNELS_GEMM_VEC_TMPL_H
#define CTI_KERNELS_GEMM_VEC_TMPL_H

#include "gemm_tuning_tmpl.h"
#include "horizontal_tmpl.h"

#if CTI_VECTOR_BYTES
typedef vec gemm_vec;
#else
typedef real gemm_vec; /* a vector of one element would be kept in memory by GCC */
#endif

/* The number of k in one iteration of the micro-kernel's loop. */
#if defined __clang__
enum { UNROLL_K = 1 }; /* clang interleaves several k and then spills registers */
#else
enum { UNROLL_K = 4 };
#endif

/* These load and store a gemm_vec; with by_part only its first n lanes. by_part is a compile-time
 * constant of the caller. */
#if CTI_VECTOR_BYTES
#define gemm_load(p)                load(p)
#define gemm_store(p, v)            store(p, v)
#define gemm_load_if(p, by_part, n) ((by_part) ? load_part(p, n) : load(p))
INLINE void gemm_store_if(real *p, gemm_vec v, bool by_part, int64_t n) {
    if (by_part) store_part(p, v, n);
    else store(p, v);
}
#else
INLINE gemm_vec gemm_load_real(const real *p) { return *p; }
INLINE gemm_vec gemm_load_stored(const stored *p) { return get_one(p); }
#define gemm_load(p)                BY_POINTER(p, gemm_load)(p)
#define gemm_load_if(p, by_part, n) ((void)(by_part), (void)(n), gemm_load(p))
INLINE void gemm_store(real *p, gemm_vec v) { *p = v; }
INLINE void gemm_store_if(real *p, gemm_vec v, bool by_part, int64_t n) {
    (void)by_part, (void)n;
    *p = v;
}
#endif

/* Returns sum + x b, rounded once if the instruction set has an FMA. With AVX2 and AVX-512 the FMA
 * is named, so that all kernels have the same bits at any level of optimisation: for sum + x * b
 * GCC makes an FMA from -O2 on, and clang only if product and sum stay in one basic block. */
#if CTI_VECTOR_BYTES && defined __FMA__
#ifdef CTI_F64_KERNELS
#define GEMM_FMA(bits, type) _mm##bits##_fmadd_pd((type##d)x, (type##d)b, (type##d)sum)
#define GEMM_FMA_ONE         __builtin_fma
#else
#define GEMM_FMA(bits, type) _mm##bits##_fmadd_ps((type)x, (type)b, (type)sum)
#define GEMM_FMA_ONE         __builtin_fmaf
#endif
INLINE gemm_vec gemm_multiply_add(gemm_vec sum, gemm_vec x, gemm_vec b) {
#if CTI_VECTOR_BYTES == 64
    return (gemm_vec)GEMM_FMA(512, __m512);
#else
    return (gemm_vec)GEMM_FMA(256, __m256);
#endif
}
INLINE real gemm_multiply_add_one(real sum, real x, real b) { return GEMM_FMA_ONE(x, b, sum); }
#else
INLINE gemm_vec gemm_multiply_add(gemm_vec sum, gemm_vec x, gemm_vec b) { return sum + x * b; }
INLINE real gemm_multiply_add_one(real sum, real x, real b) { return sum + x * b; }
#endif

/* Returns x in a register: otherwise GCC may load it again as an operand of each FMA. */
INLINE gemm_vec gemm_in_register(gemm_vec x) {
#if CTI_VECTOR_BYTES
    return rounded(x);
#else
    return x;
#endif
}

/* The addresses of `count` lines (rows or columns) of a matrix, all at the same distance from one
 * to the next. An x86 address is base + index, so one base pointer serves per_base lines (1 or 4):
 * 16 lines take 4 registers for bases and 3 for the distances of 1, 2 and 3 lines. per_base and
 * count are compile-time constants of the caller. */
typedef struct {
    const char *base[(MR_NARROW + 3) / 4];
    int64_t to[4];
} gemm_lines;
_Static_assert((int)UNROLL_K <= (CTI_VECTOR_BYTES == 64 ? ((int)MR_NARROW + 3) / 4 : (int)UNROLL_K),
               "a base for each k of an unrolled iteration");

INLINE gemm_lines gemm_lines_of(const int per_base, const int count, const void *x, int64_t bytes) {
    gemm_lines l = {.to = {0, bytes, 2 * bytes, 3 * bytes}};
    UNROLL
    for (int i = 0; i < count; i += per_base) l.base[i / per_base] = (const char *)x + i * bytes;
    return l;
}

INLINE const void *gemm_line(const int per_base, const gemm_lines *l, int i) {
    return l->base[i / per_base] + l->to[i % per_base];
}
INLINE const real *gemm_real_line(const int per_base, const gemm_lines *l, int i) {
    return gemm_line(per_base, l, i);
}

INLINE void gemm_advance(const int per_base, const int count, gemm_lines *l, int64_t bytes) {
    UNROLL
    for (int i = 0; i < count; i += per_base) l->base[i / per_base] += bytes;
}

/* Hides from the compiler how the distances were computed: otherwise it keeps base + distance of
 * every line in a register of its own, and there are too few registers. */
INLINE void gemm_opaque(gemm_lines *l) {
    __asm__("" : "+r"(l->to[1]), "+r"(l->to[2]), "+r"(l->to[3]));
}

#endif
