/* What the files of matrix products share: vectors, unrolled loops, and addresses of several lines
 * at once. */
#ifndef CTI_KERNELS_GEMM_VEC_TMPL_H
#define CTI_KERNELS_GEMM_VEC_TMPL_H

#include "gemm_tuning_tmpl.h"
#include "simd.h"

#ifdef CTI_F64_KERNELS
#define GEMM_LANES (CTI_VECTOR_BYTES / 8) /* LANES, for the preprocessor; 0 in the scalar build */
#else
#define GEMM_LANES (CTI_VECTOR_BYTES / 4)
#endif

#if CTI_VECTOR_BYTES
typedef vec gemm_vec;
#else
typedef real gemm_vec; /* GCC keeps vectors of one element in memory */
#endif

/* Steps along K in one iteration of the micro-kernel's loop. */
#if defined __clang__
enum { UNROLL_K = 1 }; /* clang interleaves several, and spills */
#define GEMM_UNROLL _Pragma("unroll")
#else
enum { UNROLL_K = 4 };
#define GEMM_UNROLL _Pragma("GCC unroll 32")
#endif

INLINE gemm_vec gemm_load(const real *p) {
    gemm_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void gemm_store(real *p, gemm_vec v) { memcpy(p, &v, sizeof v); }

/* The first n lanes where masked, which is a constant of the caller; else all. */
INLINE gemm_vec gemm_get(const real *from, bool masked, int64_t n) {
#if CTI_VECTOR_BYTES
    if (masked) return load_part(from, n);
#endif
    (void)masked, (void)n;
    return gemm_load(from);
}

/* to = v, or from + v. */
INLINE void gemm_put(real *to, const real *from, gemm_vec v, bool masked, int64_t n) {
#if CTI_VECTOR_BYTES
    if (masked) {
        store_part(to, from ? load_part(from, n) + v : v, n);
        return;
    }
#endif
    (void)masked, (void)n;
    gemm_store(to, from ? gemm_load(from) + v : v);
}

/* Lanes of a and b by turns, from their lower and their upper halves. */
#if CTI_VECTOR_BYTES
#if GEMM_LANES == 16
#define GEMM_INTERLEAVE_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define GEMM_INTERLEAVE_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif GEMM_LANES == 8
#define GEMM_INTERLEAVE_LOW  0, 8, 1, 9, 2, 10, 3, 11
#define GEMM_INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif GEMM_LANES == 4
#define GEMM_INTERLEAVE_LOW  0, 4, 1, 5
#define GEMM_INTERLEAVE_HIGH 2, 6, 3, 7
#else
#define GEMM_INTERLEAVE_LOW  0, 2
#define GEMM_INTERLEAVE_HIGH 1, 3
#endif
#if defined __clang__
#define GEMM_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GEMM_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif
#endif

/* Addresses of `count` lines (rows or columns) of a matrix, `each` (1 or 4) to a base pointer: an
 * x86 address is a base, an index and a constant, so 16 lines take 4 registers for bases and 3 for
 * the distances. each and count are constants of the caller. */
typedef struct {
    const char *base[(MR_NARROW + 3) / 4];
    int64_t to[4];
} gemm_lines;
_Static_assert(CTI_VECTOR_BYTES != 64 || (int)UNROLL_K <= ((int)MR_NARROW + 3) / 4,
               "a base for each k of an unrolled iteration");

INLINE gemm_lines gemm_lines_of(const int each, const int count, const real *x, int64_t bytes) {
    gemm_lines l = {.to = {0, bytes, 2 * bytes, 3 * bytes}};
    GEMM_UNROLL
    for (int i = 0; i < count; i += each) l.base[i / each] = (const char *)x + i * bytes;
    return l;
}

INLINE const real *gemm_line(const int each, const gemm_lines *l, int i) {
    return (const real *)(l->base[i / each] + l->to[i % each]);
}

INLINE void gemm_advance(const int each, const int count, gemm_lines *l, int64_t bytes) {
    GEMM_UNROLL
    for (int i = 0; i < count; i += each) l->base[i / each] += bytes;
}

/* Hides the distances' origin: else compilers keep each base plus each distance in a register of
 * its own, and spill. */
INLINE void gemm_opaque(gemm_lines *l) {
    __asm__("" : "+r"(l->to[1]), "+r"(l->to[2]), "+r"(l->to[3]));
}

#endif
