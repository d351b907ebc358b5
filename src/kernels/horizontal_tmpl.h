/* Across the lanes. One vector is folded by halves: lane l with lane l + LANES/2, and so on. As many vectors as there are lanes fold
 * together, each step making one vector of two, so that in the end lane r has what vector r folds to: the same operations in the same
 * order, a tenth of the work. */
#ifndef CTI_KERNELS_HORIZONTAL_TMPL_H
#define CTI_KERNELS_HORIZONTAL_TMPL_H

#include "simd.h"

#ifdef CTI_F64_KERNELS
#define ACROSS_LANES (CTI_VECTOR_BYTES / 8)   /* LANES, for the preprocessor; 0 in the scalar build */
#else
#define ACROSS_LANES (CTI_VECTOR_BYTES / 4)
#endif

#if defined __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define UNROLL _Pragma("unroll")
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* The lower halves of a's and of b's groups of 16, 8, 4 or 2 lanes, and the upper ones; FOLDS(f, group) from the widest group on. */
#if ACROSS_LANES == 16
#define LOW_16(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH_16(a, b) SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define LOW_8(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define HIGH_8(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#define LOW_4(a, b) SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)
#define HIGH_4(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31)
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define FOLDS(fold) fold(16) fold(8) fold(4) fold(2)
#elif ACROSS_LANES == 8
#define LOW_8(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_8(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LOW_4(a, b) SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
#define HIGH_4(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define FOLDS(fold) fold(8) fold(4) fold(2)
#elif ACROSS_LANES == 4
#define LOW_4(a, b) SHUFFLE(a, b, 0, 1, 4, 5)
#define HIGH_4(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2, 4, 6)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3, 5, 7)
#define FOLDS(fold) fold(4) fold(2)
#elif ACROSS_LANES == 2
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3)
#define FOLDS(fold) fold(2)
#else
#define FOLDS(fold)
#endif

INLINE vec v_plus(vec a, vec b) { return a + b; }

INLINE real fold_lanes(vec v, vec (*f)(vec, vec)) {
#define FOLD(group) v = f(v, HIGH_##group(v, v));
    FOLDS(FOLD)
#undef FOLD
    (void)f;
    return v[0];
}
INLINE real sum_lanes(vec v) { return fold_lanes(v, v_plus); }
INLINE real max_lanes(vec v) { return fold_lanes(v, v_max); } /* NaN wins */

/* Lane r of the result is what row[r] folds to. */
INLINE vec fold_rows(vec row[LANES], vec (*f)(vec, vec)) {
#define FOLD(group) \
    UNROLL for (int i = 0; i < group / 2; i++) row[i] = f(LOW_##group(row[2 * i], row[2 * i + 1]), HIGH_##group(row[2 * i], row[2 * i + 1]));
    FOLDS(FOLD)
#undef FOLD
    (void)f;
    return row[0];
}

#endif
