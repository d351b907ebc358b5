/* Horizontal operations, across the lanes of a vector, and the shuffles that all kernels share.
 *
 * A fold (the sum or the maximum of all lanes) combines lane l with lane l + LANES / 2, then does
 * the same with the lower half, and so on. Folding LANES vectors together takes a tenth of the time
 * of folding each: every step makes one vector of two, and at the end lane r is the fold of vector
 * r, computed by the same operations in the same order. */
#ifndef CTI_KERNELS_HORIZONTAL_TMPL_H
#define CTI_KERNELS_HORIZONTAL_TMPL_H

#include "simd.h"

/* LOW_g(a, b), HIGH_g(a, b): the lower, or upper, half of each group of g lanes, a's groups before
 * b's. FOLDS(f): f(g) for each g, the widest first. INTERLEAVE_LOW, _HIGH: a's lane 0, b's lane 0,
 * a's lane 1, ..., of the lower, or upper, halves. */
/* clang-format off */
#if VECTOR_LANES == 16
#define LOW_16(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH_16(a, b) SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define LOW_8(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define HIGH_8(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#define LOW_4(a, b) SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)
#define HIGH_4(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31)
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define FOLDS(fold) fold(16) fold(8) fold(4) fold(2)
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) \
    SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VECTOR_LANES == 8
#define LOW_8(a, b) SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_8(a, b) SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LOW_4(a, b) SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
#define HIGH_4(a, b) SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define FOLDS(fold) fold(8) fold(4) fold(2)
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif VECTOR_LANES == 4
#define LOW_4(a, b) SHUFFLE(a, b, 0, 1, 4, 5)
#define HIGH_4(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2, 4, 6)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3, 5, 7)
#define FOLDS(fold) fold(4) fold(2)
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#elif VECTOR_LANES == 2
#define LOW_2(a, b) SHUFFLE(a, b, 0, 2)
#define HIGH_2(a, b) SHUFFLE(a, b, 1, 3)
#define FOLDS(fold) fold(2)
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 2)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 1, 3)
#else
#define FOLDS(fold)
#endif
/* clang-format on */

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

/* Lane r of the result is the fold of row[r]. */
INLINE vec fold_rows(vec row[LANES], vec (*f)(vec, vec)) {
#define FOLD(group)                                                                                \
    UNROLL                                                                                         \
    for (int i = 0; i < (group) / 2; i++)                                                          \
        row[i] =                                                                                   \
            f(LOW_##group(row[2 * i], row[2 * i + 1]), HIGH_##group(row[2 * i], row[2 * i + 1]));
    FOLDS(FOLD)
#undef FOLD
    (void)f;
    return row[0];
}

#endif
