/* Elementwise functions of one array, and their derivatives. What is left over after the last whole
 * vector goes through the same vector function, so that an element's result does not depend on
 * where it stands. */
#ifndef CTI_KERNELS_UNARY_TMPL_H
#define CTI_KERNELS_UNARY_TMPL_H

#include "libm.h"
#include "double_tmpl.h"
#include "vmath.h"

INLINE void map(int64_t n, const void *x, void *y, vec (*f)(vec)) {
    const stored *from = x;
    stored *to = y;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(from + i)));
    if (i < n) store_part(to + i, f(load_part(from + i, n - i)), n - i);
}

/* dx = f(x or y, g) */
INLINE void map_backward(int64_t n, const void *x, const void *g, void *dx,
                         vec (*f)(vec x, vec g)) {
    const stored *a = x, *b = g;
    stored *to = dx;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(a + i), load(b + i)));
    if (i < n) store_part(to + i, f(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}

/* What an activation's forward and its backward share: its value at x, and g times its slope
 * there. */
typedef struct {
    vec value, dx;
} both;

INLINE void map_both(int64_t n, const void *x, const void *g, void *y, void *dx,
                     both (*f)(vec x, vec g)) {
    const stored *a = x, *b = g;
    stored *value = y, *to = dx;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const both p = f(load(a + i), load(b + i));
        store(value + i, p.value);
        store(to + i, p.dx);
    }
    if (i < n) {
        const both p = f(load_part(a + i, n - i), load_part(b + i, n - i));
        store_part(value + i, p.value, n - i);
        store_part(to + i, p.dx, n - i);
    }
}

/* ---- activations ---- */

/* NaN and -0 stay, as in torch. */
INLINE both b_relu(vec x, vec g) {
    return (both){blend(x < REAL(0.0), splat(0), x), blend(x <= REAL(0.0), splat(0), g)};
}

INLINE both b_gelu(vec x, vec g) {
    const normal_pair p = v_normal_pair(x);
    return (both){x * p.cdf, g * p.slope};
}

/* With s = 1 / (1 + e^-x):  x s,  and  s (1 + x (1 - s)) */
INLINE both b_silu(vec x, vec g) {
    const sigmoid_pair p = v_sigmoid_pair(x);
    return (both){x * p.s, g * (p.s * (REAL(1.0) + x * p.rest))};
}

/* 0.5 x (1 + tanh u) = x s,  s = sigmoid(2 u),  u = sqrt(2/pi) (x + 0.044715 x^3);  s + x s (1 - s)
 * 2u'.  Beyond 30 s is 0 or 1, and the factors must not overflow */
INLINE both b_gelu_tanh(vec x, vec g) {
    const vec c = blend(x > REAL(30.0), splat(30), blend(x < REAL(-30.0), splat(-30), x));
    const vec u2 = REAL(1.5957691216057307) * (c + REAL(0.044715) * c * c * c);
    const vec slope = REAL(1.5957691216057307) * (REAL(1.0) + REAL(0.134145) * c * c);
    const sigmoid_pair p = v_sigmoid_pair(u2);
    return (both){x * p.s, g * (p.s + c * p.s * p.rest * slope)};
}

static void map_relu_both(int64_t n, const void *x, const void *g, void *y, void *dx) {
    map_both(n, x, g, y, dx, b_relu);
}
static void map_silu_both(int64_t n, const void *x, const void *g, void *y, void *dx) {
    map_both(n, x, g, y, dx, b_silu);
}
static void map_gelu_both(int64_t n, const void *x, const void *g, void *y, void *dx) {
    map_both(n, x, g, y, dx, b_gelu);
}
static void map_gelu_tanh_both(int64_t n, const void *x, const void *g, void *y, void *dx) {
    map_both(n, x, g, y, dx, b_gelu_tanh);
}

/* ---- y = f(x) ---- */
INLINE vec v_neg(vec x) { return -x; }
INLINE vec v_relu(vec x) { return b_relu(x, x).value; }
INLINE vec v_silu(vec x) { return b_silu(x, x).value; }
INLINE vec v_gelu(vec x) { return b_gelu(x, x).value; }
INLINE vec v_gelu_tanh(vec x) { return b_gelu_tanh(x, x).value; }

static void map_neg(int64_t n, const void *x, void *y) { map(n, x, y, v_neg); }
static void map_exp(int64_t n, const void *x, void *y) { map(n, x, y, v_exp); }
static void map_log(int64_t n, const void *x, void *y) { map(n, x, y, v_log); }
static void map_sqrt(int64_t n, const void *x, void *y) { map(n, x, y, v_sqrt); }
static void map_abs(int64_t n, const void *x, void *y) { map(n, x, y, v_abs); }
static void map_tanh(int64_t n, const void *x, void *y) { map(n, x, y, v_tanh); }
static void map_sigmoid(int64_t n, const void *x, void *y) { map(n, x, y, v_sigmoid); }
static void map_relu(int64_t n, const void *x, void *y) { map(n, x, y, v_relu); }
static void map_silu(int64_t n, const void *x, void *y) { map(n, x, y, v_silu); }
static void map_gelu(int64_t n, const void *x, void *y) { map(n, x, y, v_gelu); }
static void map_gelu_tanh(int64_t n, const void *x, void *y) { map(n, x, y, v_gelu_tanh); }

/* ---- dx = g f', from y ---- */
INLINE vec d_exp(vec y, vec g) { return g * y; }
INLINE vec d_sqrt(vec y, vec g) { return g / (REAL(2.0) * y); }
INLINE vec d_tanh(vec y, vec g) { return g * (REAL(1.0) - y * y); }
INLINE vec d_sigmoid(vec y, vec g) { return g * y * (REAL(1.0) - y); }
INLINE vec d_relu(vec y, vec g) { return b_relu(y, g).dx; } /* y is positive where x is */

/* ---- dx = g f', from x ---- */
INLINE vec d_log(vec x, vec g) { return g / x; }
INLINE vec d_abs(vec x, vec g) { /* g sign x */
    return blend(x > REAL(0.0), g, blend(x < REAL(0.0), -g, x * REAL(0.0)));
}

INLINE vec d_silu(vec x, vec g) { return b_silu(x, g).dx; }
INLINE vec d_gelu(vec x, vec g) { return b_gelu(x, g).dx; }
INLINE vec d_gelu_tanh(vec x, vec g) { return b_gelu_tanh(x, g).dx; }

static void map_exp_backward(int64_t n, const void *y, const void *g, void *dx) {
    map_backward(n, y, g, dx, d_exp);
}
static void map_sqrt_backward(int64_t n, const void *y, const void *g, void *dx) {
    map_backward(n, y, g, dx, d_sqrt);
}
static void map_tanh_backward(int64_t n, const void *y, const void *g, void *dx) {
    map_backward(n, y, g, dx, d_tanh);
}
static void map_sigmoid_backward(int64_t n, const void *y, const void *g, void *dx) {
    map_backward(n, y, g, dx, d_sigmoid);
}
static void map_relu_backward(int64_t n, const void *y, const void *g, void *dx) {
    map_backward(n, y, g, dx, d_relu);
}
static void map_log_backward(int64_t n, const void *x, const void *g, void *dx) {
    map_backward(n, x, g, dx, d_log);
}
static void map_abs_backward(int64_t n, const void *x, const void *g, void *dx) {
    map_backward(n, x, g, dx, d_abs);
}
static void map_silu_backward(int64_t n, const void *x, const void *g, void *dx) {
    map_backward(n, x, g, dx, d_silu);
}
static void map_gelu_backward(int64_t n, const void *x, const void *g, void *dx) {
    map_backward(n, x, g, dx, d_gelu);
}
static void map_gelu_tanh_backward(int64_t n, const void *x, const void *g, void *dx) {
    map_backward(n, x, g, dx, d_gelu_tanh);
}

/* ---- y = f(x, a) ---- */
INLINE void map_scalar(int64_t n, const void *x, real a, void *y, vec (*f)(vec x, vec a)) {
    const stored *from = x;
    stored *to = y;
    const vec s = splat(a);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(from + i), s));
    if (i < n) store_part(to + i, f(load_part(from + i, n - i), s), n - i);
}

INLINE vec v_scale(vec x, vec a) { return x * a; }
INLINE vec v_shift(vec x, vec a) { return x + a; }
INLINE vec v_square(vec x) { return x * x; }
INLINE vec v_cube(vec x) { return x * x * x; }
INLINE vec v_inverse(vec x) { return REAL(1.0) / x; }
INLINE vec v_one(vec x) {
    (void)x;
    return splat(1);
}

static void map_scale(int64_t n, const void *x, double a, void *y) {
    map_scalar(n, x, (real)a, y, v_scale);
}
static void map_add_scalar(int64_t n, const void *x, double a, void *y) {
    map_scalar(n, x, (real)a, y, v_shift);
}

/* y[i] = scale x[i]^e, or times g[i]. In f32 what is positive and normal goes through f64's
 * logarithm and exponential. */
INLINE void powers(int64_t n, const stored *x, double e, double scale, const stored *g, stored *y) {
    enum { CHUNK = 32 };
    for (int64_t at = 0; at < n; at += CHUNK) {
        const int count = n - at < CHUNK ? (int)(n - at) : CHUNK;
        double power[CHUNK];
        bool plain = sizeof(real) == 4 && fabs(e) < 1e6;
        if (plain) {
            int odd = 0;
            for (int i = 0; i < CHUNK; i++) power[i] = i < count ? (double)get_one(x + at + i) : 1;
            for (int i = 0; i < CHUNK; i++)
                odd |= !(power[i] >= (double)FLT_MIN && power[i] <= (double)FLT_MAX);
            plain = !odd;
        }
        if (plain) {
            for (int i = 0; i < CHUNK; i++) {
                const double t = e * double_log_2(power[i]), low = t < -1000 ? -1000 : t;
                power[i] = double_exp2(low > 1000 ? 1000 : low);
            }
        } else {
            for (int i = 0; i < count; i++) power[i] = cti_libm_pow((double)get_one(x + at + i), e);
        }
        if (g)
            for (int i = 0; i < count; i++)
                put_one(y + at + i, get_one(g + at + i) * (real)(scale * power[i]));
        else
            for (int i = 0; i < count; i++) put_one(y + at + i, (real)(scale * power[i]));
    }
}

static void map_pow(int64_t n, const void *x, double e, void *y) {
    if (e == 0.0) map(n, x, y, v_one);
    else if (e == 2.0) map(n, x, y, v_square);
    else if (e == 3.0) map(n, x, y, v_cube);
    else if (e == -1.0) map(n, x, y, v_inverse);
    else if (e == 0.5) map(n, x, y, v_sqrt);
    else powers(n, x, e, 1, NULL, y);
}

INLINE vec d_none(vec x, vec g) {
    (void)x;
    (void)g;
    return splat(0);
}
INLINE vec d_square(vec x, vec g) { return REAL(2.0) * x * g; }
INLINE vec d_cube(vec x, vec g) { return REAL(3.0) * x * x * g; }
INLINE vec d_inverse(vec x, vec g) {
    const vec y = REAL(1.0) / x;
    return -g * y * y;
}
INLINE vec d_root(vec x, vec g) { return g * (REAL(0.5) / v_sqrt(x)); }

static void map_pow_backward(int64_t n, const void *x, double e, const void *g, void *dx) {
    if (e == 0.0) map_backward(n, x, g, dx, d_none);
    else if (e == 2.0) map_backward(n, x, g, dx, d_square);
    else if (e == 3.0) map_backward(n, x, g, dx, d_cube);
    else if (e == -1.0) map_backward(n, x, g, dx, d_inverse);
    else if (e == 0.5) map_backward(n, x, g, dx, d_root);
    else powers(n, x, e - 1, e, g, dx);
}

/* ---- steps and bounds ---- */

INLINE vec v_sign(vec x) { return keep(x > REAL(0.0), splat(1)) - keep(x < REAL(0.0), splat(1)); }

/* To |x| < 2^23 (f64: 2^52) adding that much rounds to a whole number; what is beyond is one. */
INLINE vec v_floor(vec x) {
    const real much = REAL(1.0) / (sizeof(real) == 4 ? (real)FLT_EPSILON : (real)DBL_EPSILON);
    const vec nearest = copy_sign((v_abs(x) + much) - much, x);
    const vec lower = nearest - keep(nearest > x, splat(1));
    return blend((v_abs(x) < much) & (lower != x), lower, x); /* -0 and NaN stay */
}

static void map_sign(int64_t n, const void *x, void *y) { map(n, x, y, v_sign); }
static void map_floor(int64_t n, const void *x, void *y) { map(n, x, y, v_floor); }

/* NaN stays, and a bound that is NaN wins; of bounds that cross the upper one wins. */
static void map_clamp(int64_t n, const void *x, double low, double high, void *y) {
    const stored *from = x;
    const vec least = splat((real)low), most = splat((real)high);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec v = load_part(from + i, n - i);
        store_part((stored *)y + i, v_min(most, v_max(least, v)), n - i);
    }
}
static void map_clamp_backward(int64_t n, const void *x, double low, double high, const void *g,
                               void *dx) {
    const stored *from = x, *cotangent = g;
    for (int64_t i = 0; i < n; i += LANES) {
        const vec v = load_part(from + i, n - i);
        const ivec inside = (v >= (real)low) & (v <= (real)high);
        store_part((stored *)dx + i, keep(inside, load_part(cotangent + i, n - i)), n - i);
    }
}

#endif
