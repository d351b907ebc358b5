/* What the files of matrix products share: vectors, unrolled loops, and addresses of several lines
 * at once. */
#ifndef CTI_KERNELS_GEMM_VEC_TMPL_H
#define CTI_KERNELS_GEMM_VEC_TMPL_H

#include "gemm_tuning_tmpl.h"
#include "horizontal_tmpl.h"

#if CTI_VECTOR_BYTES
typedef vec gemm_vec;
#else
typedef real gemm_vec; /* GCC keeps vectors of one element in memory */
#endif

/* Steps along K in one iteration of the micro-kernel's loop. */
#if defined __clang__
enum { UNROLL_K = 1 }; /* clang interleaves several, and spills */
#else
enum { UNROLL_K = 4 };
#endif

/* load and store of a gemm_vec; by_part: the first n lanes, else all. by_part is a constant of the
 * caller. */
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
INLINE gemm_vec gemm_load_stored(const stored *p) { return get(p); }
#define gemm_load(p)                BY_POINTER(p, gemm_load)(p)
#define gemm_load_if(p, by_part, n) ((void)(by_part), (void)(n), gemm_load(p))
INLINE void gemm_store(real *p, gemm_vec v) { *p = v; }
INLINE void gemm_store_if(real *p, gemm_vec v, bool by_part, int64_t n) {
    (void)by_part, (void)n;
    *p = v;
}
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

INLINE gemm_lines gemm_lines_of(const int each, const int count, const void *x, int64_t bytes) {
    gemm_lines l = {.to = {0, bytes, 2 * bytes, 3 * bytes}};
    UNROLL
    for (int i = 0; i < count; i += each) l.base[i / each] = (const char *)x + i * bytes;
    return l;
}

INLINE const void *gemm_line(const int each, const gemm_lines *l, int i) {
    return l->base[i / each] + l->to[i % each];
}
INLINE const real *gemm_real_line(const int each, const gemm_lines *l, int i) {
    return gemm_line(each, l, i);
}

INLINE void gemm_advance(const int each, const int count, gemm_lines *l, int64_t bytes) {
    UNROLL
    for (int i = 0; i < count; i += each) l->base[i / each] += bytes;
}

/* Hides the distances' origin: else compilers keep each base plus each distance in a register of
 * its own, and spill. */
INLINE void gemm_opaque(gemm_lines *l) {
    __asm__("" : "+r"(l->to[1]), "+r"(l->to[2]), "+r"(l->to[3]));
}

#endif
