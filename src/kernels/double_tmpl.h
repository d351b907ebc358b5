/* Elementary functions in f64, in plain C without branches or calls, for loops that the compiler
 * makes vectors of: of the random numbers, whose bits must be the same on every ISA, and of f32's
 * powers. Series in the rational coefficients that everyone knows, to 1e-14 or better. */
#ifndef CTI_KERNELS_DOUBLE_TMPL_H
#define CTI_KERNELS_DOUBLE_TMPL_H

#include <stdint.h>
#include <string.h>

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

/* log x = n ln 2 + log m,  m in [sqrt 1/2, sqrt 2),  log m = 2 atanh s,  s = (m - 1) / (m + 1), of
 * x > 0, normal. */
typedef struct {
    double n, log_m;
} log_parts;
static inline log_parts double_log(double x) {
    const uint64_t root = 0x3fe6a09e667f3bcd, bits = bits_of(x) - root + 0x3ff0000000000000;
    const double n = double_of(bits >> 52 | 0x4330000000000000) -
                     (0x1p52 + 1023); /* a whole number behind 2^52 */
    const double m = double_of((bits & 0xfffffffffffff) + root), s = (m - 1) / (m + 1), z = s * s;
    double p = 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return (log_parts){n, 2 * s + 2 * s * (z * p)};
}

static inline double double_log_e(double x) {
    const log_parts p = double_log(x);
    return p.n * 0.69314718055994530942 + p.log_m;
}
static inline double double_log_2(double x) {
    const log_parts p = double_log(x);
    return p.n + p.log_m * 1.4426950408889634074;
}

/* log (1 + x), x >= 0, corrected by the rounding error of 1 + x; and 1 / (1 + x) */
static inline double double_log_1p(double x, double *inverse) {
    const double u = 1 + x;
    *inverse = 1 / u;
    return double_log_e(u) + (x - (u - 1)) * *inverse;
}

/* 2^x, |x| <= 1022 */
static inline double double_exp2(double x) {
    const double shifted = x + 0x1.8p52, n = shifted - 0x1.8p52,
                 r = (x - n) * 0.69314718055994530942;
    double p = 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 1.0 / 2;
    p = p * r + 1;
    return (p * r + 1) * double_of((bits_of(shifted) + 1023) << 52);
}

/* cos and sin of `turn` turns, 0 <= turn <= 1: to the nearest quarter, and the rest of it */
static inline void double_turn(double turn, double *cosine, double *sine) {
    const double shifted = 4 * turn + 0x1.8p52,
                 x = (4 * turn - (shifted - 0x1.8p52)) * 1.5707963267948966192, z = x * x;
    const uint64_t quarter = bits_of(shifted), swap = -(quarter & 1);
    double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
    s = s * z + 1.0 / 6227020800;
    c = c * z - 1.0 / 87178291200;
    s = s * z - 1.0 / 39916800;
    c = c * z + 1.0 / 479001600;
    s = s * z + 1.0 / 362880;
    c = c * z - 1.0 / 3628800;
    s = s * z - 1.0 / 5040;
    c = c * z + 1.0 / 40320;
    s = s * z + 1.0 / 120;
    c = c * z - 1.0 / 720;
    s = s * z - 1.0 / 6;
    c = c * z + 1.0 / 24;
    c = c * z - 1.0 / 2;
    const uint64_t near = bits_of(c * z + 1), far = bits_of(x + x * (z * s));
    *cosine = double_of(((near & ~swap) | (far & swap)) ^ ((quarter + 1) & 2) << 62);
    *sine = double_of(((far & ~swap) | (near & swap)) ^ (quarter & 2) << 62);
}

#endif
