/* Elementary functions in f64, in plain C without branches or calls, so that the compiler
 * vectorises the loops that call them. The random numbers need them, because their bits must be the
 * same on every ISA, and so do the powers and the sines of f32 and the logarithms of sums. Each is
 * a Taylor series with a relative error of 1e-14 or less. */
#ifndef CTI_KERNELS_DOUBLE_TMPL_H
#define CTI_KERNELS_DOUBLE_TMPL_H

#include "simd.h"

static inline uint64_t bits_of(double x) {
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline double double_of(uint64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* ---- series ---- */

/* The coefficients of four series, the one of the lowest power first:
 *
 *     e^x    = exp_series(x)
 *     atanh x = x + x^3 atanh_series(x^2)
 *     sin x  = x + x^3 sine_series(x^2)
 *     cos x  = 1 + x^2 cosine_series(x^2) */
static const double exp_series[] = {
    1,         1,          1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,
    1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800};
static const double atanh_series[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                      1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19};
static const double sine_series[] = {
    -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double cosine_series[] = {
    -1.0 / 2,       1.0 / 24,        -1.0 / 720,         1.0 / 40320,
    -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};

/* The sum over k < n of series[k] x^k, by Horner's rule. n is a constant and the loop is unrolled:
 * the coefficients become operands of the instructions. */
INLINE double series_at(const int n, const double *series, double x) {
    double sum = series[n - 1];
    UNROLL
    for (int k = n - 2; k >= 0; k--) sum = sum * x + series[k];
    return sum;
}

/* ---- logarithms and powers ---- */

/* log x = n ln 2 + log m,  m in [sqrt 1/2, sqrt 2),  log m = 2 atanh s,  s = (m - 1) / (m + 1). x
 * is positive and normal. */
typedef struct {
    double n, log_m;
} log_parts;
static inline log_parts double_log(double x) {
    const uint64_t root = 0x3fe6a09e667f3bcd, bits = bits_of(x) - root + 0x3ff0000000000000;
    const double n = double_of(bits >> 52 | 0x4330000000000000) -
                     (0x1p52 + 1023); /* the bits of 2^52 hold a whole number below it */
    const double m = double_of((bits & 0xfffffffffffff) + root), s = (m - 1) / (m + 1), z = s * s;
    return (log_parts){n, 2 * s + 2 * s * (z * series_at(9, atanh_series, z))};
}

static inline double double_log_e(double x) {
    const log_parts p = double_log(x);
    return p.n * 0.69314718055994530942 + p.log_m;
}
static inline double double_log_2(double x) {
    const log_parts p = double_log(x);
    return p.n + p.log_m * 1.4426950408889634074;
}

/* log (1 + x) for x >= 0, corrected by the rounding error of 1 + x. *inverse is 1 / (1 + x). */
static inline double double_log_1p(double x, double *inverse) {
    const double u = 1 + x;
    *inverse = 1 / u;
    return double_log_e(u) + (x - (u - 1)) * *inverse;
}

/* 2^x = 2^n e^r,  r = (x - n) ln 2,  n the nearest integer to x; |x| <= 1022. */
static inline double double_exp2(double x) {
    const double shifted = x + 0x1.8p52, n = shifted - 0x1.8p52,
                 r = (x - n) * 0.69314718055994530942;
    return series_at(12, exp_series, r) * double_of((bits_of(shifted) + 1023) << 52);
}

/* ---- angles ---- */

/* cos and sin of `turn` full turns, 0 <= turn <= 1: the nearest number of quarter turns, and the
 * angle x that is left. */
static inline void double_turn(double turn, double *cosine, double *sine) {
    const double shifted = 4 * turn + 0x1.8p52,
                 x = (4 * turn - (shifted - 0x1.8p52)) * 1.5707963267948966192, z = x * x;
    const uint64_t quarter = bits_of(shifted), swap = -(quarter & 1);
    const uint64_t near = bits_of(series_at(8, cosine_series, z) * z + 1),
                   far = bits_of(x + x * (z * series_at(7, sine_series, z)));
    *cosine = double_of(((near & ~swap) | (far & swap)) ^ ((quarter + 1) & 2) << 62);
    *sine = double_of(((far & ~swap) | (near & swap)) ^ (quarter & 2) << 62);
}

#endif
