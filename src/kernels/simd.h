/* The vectors that kernels are written on: GCC's vector extensions, as wide as the ISA this file is compiled for.
 *
 * A translation unit is compiled for one ISA and one dtype: CT_F64_KERNELS picks double, and CT_VECTOR_BYTES the width
 * (of one element in the scalar build). Everything is static: an object exports its table and nothing else. */
#ifndef CT_SIMD_H
#define CT_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef CT_F64_KERNELS
typedef double real;
typedef int64_t integer;   /* as wide as real */
#define REAL(x) x
#else
typedef float real;
typedef int32_t integer;
#define REAL(x) x##f
#endif

#if CT_VECTOR_BYTES
enum { LANES = CT_VECTOR_BYTES / sizeof(real) };
#else
enum { LANES = 1 };
#endif

typedef real vec __attribute__((vector_size(LANES * sizeof(real))));
typedef integer ivec __attribute__((vector_size(LANES * sizeof(real)))); /* also masks: 0 or -1 in each lane */

#define INLINE static inline __attribute__((always_inline))

INLINE vec splat(real x) { return x - (vec){0}; }
INLINE vec load(const real *p) { vec v; memcpy(&v, p, sizeof v); return v; }
INLINE void store(real *p, vec v) { memcpy(p, &v, sizeof v); }

/* The first n lanes, 0 <= n <= LANES; the rest of a loaded vector is zero. */
INLINE vec load_part(const real *p, int64_t n) { vec v = {0}; memcpy(&v, p, (size_t)n * sizeof(real)); return v; }
INLINE void store_part(real *p, vec v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof(real)); }

INLINE vec select(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); } /* mask ? a : b */

#endif
