/* The kernels of unary.h's rows, and clamp. */
#ifndef CTI_KERNELS_UNARY_TMPL_H
#define CTI_KERNELS_UNARY_TMPL_H

#include "libm.h"
#include "double_tmpl.h"
#include "map_tmpl.h"
#include "vmath.h"

/* ---- activations ---- */

/* NaN and -0 stay, as in torch. The slope at y = max(x, 0) is the slope at x. */
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

INLINE both b_softplus(vec x, vec g) {
    const ivec linear = x > REAL(20.0);
    return (both){blend(linear, x, v_log1p_exp(x)), blend(linear, g, g * v_sigmoid(x))};
}

INLINE both b_relu_squared(vec x, vec g) {
    const vec y = blend(x < REAL(0.0), splat(0), x);
    return (both){y * y, blend(x <= REAL(0.0), splat(0), g * (REAL(2.0) * y))};
}

/* With u = 1.702 x the slope is s (1 + u (1 - s)). Beyond 800, where s is 0 or 1, the factor u is
 * replaced by 0: inf 0 would be NaN. */
INLINE both b_quick_gelu(vec x, vec g) {
    const vec u = REAL(1.702) * x, near = keep(v_abs(u) < REAL(800.0), u);
    const sigmoid_pair p = v_sigmoid_pair(u);
    return (both){x * p.s, g * (p.s * (REAL(1.0) + near * p.rest))};
}

/* ---- floor ---- */

/* If |x| < 2^23 (f64: 2^52), x + 2^23 is rounded to a whole number. A larger x is whole. */
INLINE vec v_floor(vec x) {
    const real much = REAL(1.0) / (sizeof(real) == 4 ? (real)FLT_EPSILON : (real)DBL_EPSILON);
    const vec nearest = copy_sign((v_abs(x) + much) - much, x);
    const vec lower = nearest - keep(nearest > x, splat(1));
    return blend((v_abs(x) < much) & (lower != x), lower, x); /* -0 and NaN stay */
}

/* ---- the kernels of the lists ---- */

#define MAP(name, value)                                                                           \
    INLINE vec value_##name(vec x) { return value; }                                               \
    static void map_##name(int64_t n, const void *x, void *y) { map(n, x, y, value_##name); }
#define MAP_SLOPE(name, xy, slope)                                                                 \
    INLINE vec slope_##name(vec xy, vec g) { return slope; }                                       \
    static void map_##name##_backward(int64_t n, const void *x, const void *g, void *dx) {         \
        map_backward(n, x, g, dx, slope_##name);                                                   \
    }
#define MAP_FROM_X(name, value, slope) MAP(name, value) MAP_SLOPE(name, x, slope)
#define MAP_FROM_Y(name, value, slope) MAP(name, value) MAP_SLOPE(name, y, slope)
#define MAP_NOTHING(name)
CTI_UNARY_KERNELS(MAP, MAP_FROM_X, MAP_FROM_Y, MAP_NOTHING)

#define MAP_SCALAR(name, value)                                                                    \
    INLINE vec value_##name(vec x, vec a) { return value; }                                        \
    static void map_##name(int64_t n, const void *x, double a, void *y) {                          \
        map_scalar(n, x, (real)a, y, value_##name);                                                \
    }
#define MAP_SCALAR_FROM_X(name, value, slope)                                                      \
    MAP_SCALAR(name, value)                                                                        \
    INLINE vec slope_##name(vec x, vec a, vec g) { return slope; }                                 \
    static void map_##name##_backward(int64_t n, const void *x, double a, const void *g,           \
                                      void *dx) {                                                  \
        map_scalar_backward(n, x, (real)a, g, dx, slope_##name);                                   \
    }
CTI_SCALAR_KERNELS(MAP_SCALAR, MAP_SCALAR_FROM_X, MAP_NOTHING)

#define MAP_BOTH(name)                                                                             \
    static void map_##name##_both(int64_t n, const void *x, const void *g, void *y, void *dx) {    \
        map_both(n, x, g, y, dx, b_##name);                                                        \
    }
CTI_BOTH_KERNELS(MAP_BOTH)

#define MAP_SCALAR_BOTH(name)                                                                      \
    INLINE both b_##name(vec x, vec a, vec g) {                                                    \
        return (both){value_##name(x, a), slope_##name(x, a, g)};                                  \
    }                                                                                              \
    static void map_##name##_both(int64_t n, const void *x, double a, const void *g, void *y,      \
                                  void *dx) {                                                      \
        map_scalar_both(n, x, (real)a, g, y, dx, b_##name);                                        \
    }
CTI_SCALAR_BOTH_KERNELS(MAP_SCALAR_BOTH)

/* ---- powers ---- */

INLINE vec v_square(vec x) { return x * x; }
INLINE vec v_cube(vec x) { return x * x * x; }
INLINE vec v_inverse(vec x) { return REAL(1.0) / x; }
INLINE vec v_one(vec x) {
    (void)x;
    return splat(1);
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

/* ---- bounds ---- */

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
