/* Elementary functions of vectors. Each function of f32 vectors is an argument reduction and a
 * minimax polynomial (Remez, in extended precision). The stated errors are the largest over all
 * floats; `make bench ROW=vmath` measures them. f64, which is for checking, and the scalar build,
 * which is the specification, call libm for each lane. Results for denormals, infinities and NaN
 * are right. */
#ifndef CTI_KERNELS_VMATH_H
#define CTI_KERNELS_VMATH_H

#include "libm.h"
#include "simd.h"

/* cdf is Phi(x), the distribution function of the normal distribution. slope is the slope of x
 * Phi(x), which is Phi(x) + x phi(x). */
typedef struct {
    vec cdf, slope;
} normal_pair;

#if defined CTI_F64_KERNELS || !CTI_VECTOR_BYTES

static real libm_exp(real x) { return LIBM(exp)(x); }
static real libm_exp2(real x) { return LIBM(exp2)(x); }
static real libm_expm1(real x) { return LIBM(expm1)(x); }
static real libm_log(real x) { return LIBM(log)(x); }
/* glibc's tanhf is off by over 2 ulp */
static real libm_tanh(real x) { return (real)cti_libm_tanh((double)x); }
/* This function is not inlined, so that its product and a sum of the caller never become one FMA:
 * the bits are the same everywhere. */
__attribute__((noinline)) static real libm_normal_cdf(real x) {
    return (real)(0.5 * erfc(-(double)x * 0.70710678118654752440));
}

INLINE vec v_exp(vec x) { return each_lane(x, libm_exp); }
INLINE vec v_exp2_below(vec x) { return each_lane(x, libm_exp2); }
INLINE vec v_expm1_below(vec x) { return each_lane(x, libm_expm1); }
INLINE vec v_log(vec x) { return each_lane(x, libm_log); }
INLINE vec v_tanh(vec x) { return each_lane(x, libm_tanh); }
/* In f64 the rounding of x / sqrt 2 costs up to 2 x^2 units of the last place in the lower tail. */
INLINE vec v_normal_cdf(vec x) { return each_lane(x, libm_normal_cdf); }
/* Beyond 40, where e^(-x^2/2) is 0, the factor x is replaced by 0: inf 0 would be NaN. */
INLINE normal_pair v_normal_pair(vec x) {
    const vec cdf = v_normal_cdf(x), near = keep(v_abs(x) < REAL(40.0), x);
    return (normal_pair){cdf,
                         cdf + near * v_exp(REAL(-0.5) * x * x) * REAL(0.39894228040143267794)};
}

#else

/* Returns x 2^n for whole n in [-252, 254]; k has the same numbers as integers. Only a denormal
 * result is rounded. */
INLINE vec v_scale_2(vec x, vec n, ivec k) {
#if CTI_VECTOR_BYTES == 64
    (void)k;
    return (vec)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    const ivec half = k >> 1;
    (void)n;
    return x * (vec)((half + 127) << 23) * (vec)((k - half + 127) << 23);
#endif
}

/* The parts of e^x = 2^n (1 + less): x = n ln 2 + r with n whole, less = e^r - 1, and k is n as an
 * integer. */
typedef struct {
    vec n, less;
    ivec k;
} exp_parts;
INLINE exp_parts v_exp_parts(vec x) {
    const vec magic =
        splat(0x1.8p23f); /* adding it rounds to an integer, which stands in the low bits */
    const vec shifted = x * 1.44269504f + magic, n = shifted - magic;
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec p = splat(1.39406614e-03f);
    p = p * r + 8.36639758e-03f;
    p = p * r + 4.16664034e-02f;
    p = p * r + 1.66665450e-01f;
    p = p * r + 0.5f;
    return (exp_parts){n, (p * r) * r + r, (ivec)shifted - (ivec)magic};
}

/* The error is 1.06 ulp. If the result underflows to 0 no denormal is computed on the way, because
 * that would be slow and masks of -inf or -1e9 are common. */
INLINE vec v_exp(vec x) {
    const ivec live = ~(x < -104.0f); /* NaN is live */
    const vec y = keep(live, x);
    const exp_parts e = v_exp_parts(blend(y > 89.0f, splat(89.0f), y));
    return keep(live, v_scale_2(e.less + 1.0f, e.n, e.k));
}

/* Returns e^x - 1 for x <= 0 with an error of 0.98 ulp: 2^n (1 + less) - 1 = 2^n less + (2^n - 1).
 * Below -32 it is -1. */
INLINE vec v_expm1_below(vec x) {
    const exp_parts e = v_exp_parts(blend(x < -32.0f, splat(-32.0f), x));
    const vec power = (vec)((e.k + 127) << 23);
    return power * e.less + (power - 1.0f);
}

/* Returns 2^x for -126 <= x <= 0 with an error of 1 ulp: x = n + r, and 2^r is a minimax
 * polynomial. This is half the work of v_exp. Attention keeps its scores in units of log 2 for it,
 * which costs nothing, and r is exact. */
INLINE vec v_exp2_normal(vec x) {
    const vec magic = splat(
        0x1.8p23f +
        127); /* adding it rounds to an integer: n + 127, an exponent, stands in the low bits */
    const vec shifted = x + magic, r = x - (shifted - magic);
    vec p = splat(1.326459089e-03f);
    p = p * r + 9.671619145e-03f;
    p = p * r + 5.550735033e-02f;
    p = p * r + 2.402224046e-01f;
    p = p * r + 6.931469764e-01f;
    p = p * r + 1.0f;
    return p * (vec)((ivec)shifted << 23);
}

/* Returns 2^x for x <= 0, and 0 in place of denormals. NaN gives NaN. */
INLINE vec v_exp2_below(vec x) { return keep(~(x < -126.0f), v_exp2_normal(x)); }

/* Returns log x + more log 2 for a normal x, with an error of 0.87 ulp: x = 2^n m, m in [sqrt 1/2,
 * sqrt 2), f = m - 1, log x = n ln 2 + f - f^2/2 + f^3 P(f). */
INLINE vec v_log_normal(vec x, vec more) {
    const uvec bits = (uvec)x, exponent = (bits - 0x3f3504f3) & 0xff800000;
    const vec n = __builtin_convertvector((ivec)exponent >> 23, vec) + more;
    const vec f = (vec)(bits - exponent) - 1.0f, s = f * f;
    vec even = splat(7.105210423e-02f), odd = splat(-1.196254566e-01f);
    even = even * s + 1.188660488e-01f;
    odd = odd * s - 1.235891208e-01f;
    even = even * s + 1.421341002e-01f;
    odd = odd * s - 1.667035073e-01f;
    even = even * s + 2.000251263e-01f;
    odd = odd * s - 2.499997318e-01f;
    even = even * s + 3.333330750e-01f;
    return s * ((odd * f + even) * f - 0.5f) - n * 2.12194440e-4f + f + n * 0.693359375f;
}

INLINE vec v_log(vec x) {
    const ivec common = (x >= FLT_MIN) & (x <= FLT_MAX);
    if (!any_lane(~common)) return v_log_normal(x, splat(0));
    const ivec tiny = x < FLT_MIN;
    const vec y = v_log_normal(blend(tiny, x * 0x1p23f, x), keep(tiny, splat(-23)));
    const vec special = blend(x < 0.0f, splat(NAN), blend(x == 0.0f, splat(-INFINITY), x));
    return blend((x > 0.0f) & (x <= FLT_MAX), y, special);
}

/* tanh x is x + x^3 P(x^2) for |x| < 0.6, and sign(x) (1 - 2 / (e^2|x| + 1)) otherwise. The error
 * is 1.34 ulp. */
INLINE vec v_tanh(vec x) {
    const vec t = v_abs(x), s = x * x;
    vec p = splat(-5.697384011e-03f);
    p = p * s + 2.063254640e-02f;
    p = p * s - 5.373779684e-02f;
    p = p * s + 1.333142072e-01f;
    p = p * s - 3.333328068e-01f;
    const vec near = (p * s) * x + x;
    const exp_parts e = v_exp_parts(2.0f * blend(t > 10.0f, splat(10.0f), t));
    const vec power = (vec)((e.k + 127) << 23);
    const vec far = 1.0f - 2.0f / ((power * e.less + power) + 1.0f);
    return blend(t < 0.6f, near, copy_sign(far, x));
}

/* With t = |x|, log2 Phi(-t) is nearly a parabola: its polynomial is fitted up to 6.5 and goes on
 * falling up to 10.5. The slope at -t is Phi(-t) times another polynomial. Beyond 10.5 both are 0.
 * The error of x Phi(x) is 4 ulp, or 4 ulp of 1/8 if x Phi(x) is below 1/8: the tail is small and
 * not precise, as in torch. The error of the slope is 2 ulp of 1. */
INLINE normal_pair v_normal_pair(vec x) {
    const vec t = v_abs(x), s = t * t;
    vec even = splat(-3.67911390e-08f), odd = splat(1.00770001e-06f);
    even = even * s - 1.20548002e-05f;
    odd = odd * s + 8.02510986e-05f;
    even = even * s - 2.85289309e-04f;
    odd = odd * s - 1.20333573e-06f;
    even = even * s + 6.96108863e-03f;
    odd = odd * s - 5.24574816e-02f;
    even = even * s - 4.59214032e-01f;
    odd = odd * s - 1.15110505f;
    even = even * s - 1.0f;
    const vec power = v_exp2_normal(odd * t + even);
    even = splat(-1.12835669e-05f), odd = splat(1.44127946e-04f);
    even = even * s - 5.80292195e-04f;
    odd = odd * s - 8.74599093e-04f;
    even = even * s + 2.00189929e-02f;
    odd = odd * s - 1.09404832e-01f;
    even = even * s - 6.36536837e-01f;
    odd = odd * s - 7.97890246e-01f;
    even = even * s + 1.0f;
    const ivec live = ~(t > 10.5f), left = x < 0.0f;
    const vec cdf = keep(live, power), slope = keep(live, power * (odd * t + even));
    return (normal_pair){blend(left, cdf, 1.0f - cdf), blend(left, slope, 1.0f - slope)};
}

#endif

/* Returns 1 / (1 + e^-x) with an error of 1.97 ulp. It is computed from e^-|x|, so that small
 * values keep their digits, and the rounding error of 1 + e^-|x| is corrected. */
INLINE vec v_sigmoid(vec x) {
    const vec e = v_exp(-v_abs(x)), sum = REAL(1.0) + e, lost = e - (sum - REAL(1.0));
    const vec y = blend(x < REAL(0.0), e, splat(1)) / sum;
    return y - y * lost;
}

/* Returns log(1 + e^x) with an error of 2.3 ulp, computed from e = e^-|x|. The rounding error of
 * 1 + e is corrected. */
INLINE vec v_log1p_exp(vec x) {
    const vec e = v_exp(-v_abs(x)), sum = REAL(1.0) + e;
    const vec log_1p = v_log(sum) + (e - (sum - REAL(1.0))) / sum;
    return blend(x > REAL(0.0), x, splat(0)) + log_1p;
}

/* s = 1 / (1 + e^-x) and rest = 1 - s, each with all its digits. */
typedef struct {
    vec s, rest;
} sigmoid_pair;
INLINE sigmoid_pair v_sigmoid_pair(vec x) {
    vec e = v_exp(-v_abs(x)), near = REAL(1.0) / (REAL(1.0) + e), far = e * near;
    ivec negative = x < REAL(0.0);
    return (sigmoid_pair){blend(negative, far, near), blend(negative, near, far)};
}

#endif
