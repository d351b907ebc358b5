/* Elementary functions of a vector. The f32 vectors have their own: an argument reduction and a minimax polynomial each (Remez, in
 * extended precision); the errors stated are the largest that tests/test_kernels.c may find. f64, which is for checking, and
 * the scalar build, which is the specification, ask libm lane by lane. Denormals, infinities and NaN come out right. */
#ifndef CT_VMATH_H
#define CT_VMATH_H

#include "simd.h"

#if defined CT_F64_KERNELS || !CT_VECTOR_BYTES

static real libm_exp(real x) { return LIBM(exp)(x); }
static real libm_log(real x) { return LIBM(log)(x); }
static real libm_tanh(real x) { return LIBM(tanh)(x); }
static real libm_normal_cdf(real x) { return (real)(0.5 * erfc(-(double)x * 0.70710678118654752440)); }

INLINE vec v_exp(vec x) { return lanes(x, libm_exp); }
INLINE vec v_exp_sum(vec x, vec low) {
    vec e = lanes(x, libm_exp);
    return e * lanes(keep(e != REAL(0.0), low), libm_exp);   /* where e is 0, low may be anything */
}
INLINE vec v_log(vec x) { return lanes(x, libm_log); }
INLINE vec v_tanh(vec x) { return lanes(x, libm_tanh); }
/* In f64 the rounding of x / sqrt 2 costs up to 2 x^2 units of the last place in the lower tail. */
INLINE vec v_normal_cdf(vec x) { return lanes(x, libm_normal_cdf); }

#else

/* e^(x + low) for a small low:  x = n ln 2 + r,  e^x = 2^n e^r.  Where it underflows to 0 no denormal is computed on the way,
 * which would be slow: masks of -inf or -1e9 are common. The sum's error is that of v_exp */
INLINE vec v_exp_sum(vec x, vec low) {
    const vec magic = splat(0x1.8p23f);   /* adding it rounds to an integer, which stands in the low bits */
    ivec live = ~(x < -104.0f);           /* NaN lives */
    vec y = keep(live, x);
    y = select(y > 89.0f, splat(89.0f), y);
    vec shifted = y * 1.44269504f + magic, n = shifted - magic;
    uvec k = (uvec)shifted - (uvec)magic, half = (uvec)((ivec)k >> 1);
    vec r = (y - n * 0.693359375f) + n * 2.12194440e-4f + low;
    vec p = splat(1.381459879e-03f);
    p = p * r + 8.368716575e-03f;
    p = p * r + 4.166838899e-02f;
    p = p * r + 1.666652113e-01f;
    p = p * r + 4.999999404e-01f;
    p = (p * r) * r + r + 1.0f;
    return keep(live, p * (vec)((half + 127) << 23) * (vec)((k - half + 127) << 23));
}

/* 1 ulp */
INLINE vec v_exp(vec x) { return v_exp_sum(x, splat(-0.0f)); }   /* -0: what is added costs nothing */

/* x = 2^n m, m in [sqrt 1/2, sqrt 2), f = m - 1:  log x = n ln 2 + f - f^2/2 + f^3 P(f).  1 ulp */
INLINE vec v_log(vec x) {
    ivec tiny = x < FLT_MIN;
    vec scaled = select(tiny, x * 0x1p23f, x);
    uvec bits = (uvec)scaled, exponent = (bits - 0x3f3504f3) & 0xff800000;
    vec n = __builtin_convertvector((ivec)exponent >> 23, vec) - keep(tiny, splat(23));
    vec f = (vec)(bits - exponent) - 1.0f;
    vec p = splat(7.105210423e-02f);
    p = p * f - 1.196254566e-01f;
    p = p * f + 1.188660488e-01f;
    p = p * f - 1.235891208e-01f;
    p = p * f + 1.421341002e-01f;
    p = p * f - 1.667035073e-01f;
    p = p * f + 2.000251263e-01f;
    p = p * f - 2.499997318e-01f;
    p = p * f + 3.333330750e-01f;
    vec y = f * f * (p * f - 0.5f) - n * 2.12194440e-4f + f + n * 0.693359375f;
    vec special = select(x < 0.0f, splat(NAN), select(x == 0.0f, splat(-INFINITY), x));
    return select((x > 0.0f) & (x <= FLT_MAX), y, special);
}

/* |x| < 0.625:  x + x^3 P(x^2);  else  1 - 2 / (e^2|x| + 1).  2 ulp */
INLINE vec v_tanh(vec x) {
    vec magnitude = v_abs(x), s = x * x;
    vec p = splat(-5.697384011e-03f);
    p = p * s + 2.063254640e-02f;
    p = p * s - 5.373779684e-02f;
    p = p * s + 1.333142072e-01f;
    p = p * s - 3.333328068e-01f;
    vec small = p * s * x + x;
    vec large = 1.0f - 2.0f / (v_exp(2.0f * magnitude) + 1.0f);
    return select(magnitude < 0.625f, small, copy_sign(large, x));
}

#endif

/* 1 / (1 + e^-x), from e^-|x|, so that small values keep their digits.  3 ulp */
INLINE vec v_sigmoid(vec x) {
    vec e = v_exp(-v_abs(x));
    return select(x < REAL(0.0), e, splat(1)) / (REAL(1.0) + e);
}

/* s = 1 / (1 + e^-x) with 1 - s, each with all its digits */
typedef struct {
    vec s, rest;
} sigmoid_pair;
INLINE sigmoid_pair v_sigmoid_pair(vec x) {
    vec e = v_exp(-v_abs(x)), near = REAL(1.0) / (REAL(1.0) + e), far = e * near;
    ivec negative = x < REAL(0.0);
    return (sigmoid_pair){select(negative, far, near), select(negative, near, far)};
}

/* e^(-x^2/2). x^2 would lose digits that matter in the tail: with x = h + l, h of half the digits,
 * x^2 = h^2 + l (x + h), and h^2 is exact */
INLINE vec v_gauss(vec x) {
    const integer head = sizeof(real) == 4 ? (integer)0xfffff000 : (integer)0xfffffffff8000000;
    vec h = (vec)((ivec)x & head), l = x - h;
    return v_exp_sum(REAL(-0.5) * h * h, REAL(-0.5) * l * (x + h));
}

#if !defined CT_F64_KERNELS && CT_VECTOR_BYTES

/* Phi(-|x|) = e^(-x^2/2) s P(s),  s = 1 / (1 + 0.3 |x|);  Phi(x) = 1 - Phi(-x).  4 ulp, in the lower tail too */
INLINE vec v_normal_cdf(vec x) {
    vec s = 1.0f / (1.0f + 0.3f * v_abs(x));
    vec p = splat(-2.062345424e-02f);
    p = p * s + 1.124355325e-01f;
    p = p * s - 2.282134103e-01f;
    p = p * s + 1.917842826e-01f;
    p = p * s - 7.942328332e-02f;
    p = p * s + 9.615672272e-02f;
    p = p * s + 7.838968658e-02f;
    p = p * s + 1.102354171e-01f;
    p = p * s + 1.195718148e-01f;
    p = p * s + 1.196866898e-01f;
    vec tail = v_gauss(x) * (s * p);
    return select(x < 0.0f, tail, 1.0f - tail);
}

#endif
#endif
