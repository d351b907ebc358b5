/* Elementwise functions of one array, and their derivatives. What is left over after the last whole vector goes through the same
 * vector function, so that an element's result does not depend on where it stands. */
#ifndef CT_MAP_H
#define CT_MAP_H

#include "vmath.h"

INLINE void map(int64_t n, const void *x, void *y, vec (*f)(vec)) {
    const real *from = x;
    real *to = y;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(from + i)));
    if (i < n) store_part(to + i, f(load_part(from + i, n - i)), n - i);
}

/* dx = f(x or y, g) */
INLINE void map_backward(int64_t n, const void *x, const void *g, void *dx, vec (*f)(vec x, vec g)) {
    const real *a = x, *b = g;
    real *to = dx;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, f(load(a + i), load(b + i)));
    if (i < n) store_part(to + i, f(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}

/* ---- y = f(x) ---- */
INLINE vec v_neg(vec x) { return -x; }
INLINE vec v_relu(vec x) { return select(x < REAL(0.0), splat(0), x); } /* NaN and -0 stay, as in torch */
INLINE vec v_silu(vec x) { return x * v_sigmoid(x); }
INLINE vec v_gelu(vec x) { return x * v_normal_cdf(x); }

/* 0.5 x (1 + tanh u) = x sigmoid(2 u),  u = sqrt(2/pi) (x + 0.044715 x^3) */
INLINE vec v_gelu_tanh(vec x) {
    vec u2 = REAL(1.5957691216057307) * (x + REAL(0.044715) * x * x * x);
    return x * v_sigmoid(u2);
}

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
INLINE vec d_relu(vec y, vec g) { return select(y <= REAL(0.0), splat(0), g); }

/* ---- dx = g f', from x ---- */
INLINE vec d_log(vec x, vec g) { return g / x; }
INLINE vec d_abs(vec x, vec g) { return select(x > REAL(0.0), g, select(x < REAL(0.0), -g, x * REAL(0.0))); } /* g sign x */

INLINE vec d_silu(vec x, vec g) {
    sigmoid_pair p = v_sigmoid_pair(x);
    return g * (p.s * (REAL(1.0) + x * p.rest));
}

/* Phi(x) + x phi(x) */
INLINE vec d_gelu(vec x, vec g) {
    return g * (v_normal_cdf(x) + x * v_gauss(x) * REAL(0.39894228040143267794));
}

/* s + x s (1 - s) 2u'.  Beyond 30 the second term is 0, and its factors must not overflow */
INLINE vec d_gelu_tanh(vec x, vec g) {
    vec c = select(x > REAL(30.0), splat(30), select(x < REAL(-30.0), splat(-30), x));
    vec u2 = REAL(1.5957691216057307) * (c + REAL(0.044715) * c * c * c);
    vec slope = REAL(1.5957691216057307) * (REAL(1.0) + REAL(0.134145) * c * c);
    sigmoid_pair p = v_sigmoid_pair(u2);
    return g * (p.s + c * p.s * p.rest * slope);
}

static void exp_backward(int64_t n, const void *y, const void *g, void *dx) { map_backward(n, y, g, dx, d_exp); }
static void sqrt_backward(int64_t n, const void *y, const void *g, void *dx) { map_backward(n, y, g, dx, d_sqrt); }
static void tanh_backward(int64_t n, const void *y, const void *g, void *dx) { map_backward(n, y, g, dx, d_tanh); }
static void sigmoid_backward(int64_t n, const void *y, const void *g, void *dx) { map_backward(n, y, g, dx, d_sigmoid); }
static void relu_backward(int64_t n, const void *y, const void *g, void *dx) { map_backward(n, y, g, dx, d_relu); }
static void log_backward(int64_t n, const void *x, const void *g, void *dx) { map_backward(n, x, g, dx, d_log); }
static void abs_backward(int64_t n, const void *x, const void *g, void *dx) { map_backward(n, x, g, dx, d_abs); }
static void silu_backward(int64_t n, const void *x, const void *g, void *dx) { map_backward(n, x, g, dx, d_silu); }
static void gelu_backward(int64_t n, const void *x, const void *g, void *dx) { map_backward(n, x, g, dx, d_gelu); }
static void gelu_tanh_backward(int64_t n, const void *x, const void *g, void *dx) { map_backward(n, x, g, dx, d_gelu_tanh); }

/* ---- y = f(x, a) ---- */
INLINE void map_scalar(int64_t n, const void *x, real a, void *y, vec (*f)(vec x, vec a)) {
    const real *from = x;
    real *to = y;
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

static void map_scale(int64_t n, const void *x, double a, void *y) { map_scalar(n, x, (real)a, y, v_scale); }
static void map_add_scalar(int64_t n, const void *x, double a, void *y) { map_scalar(n, x, (real)a, y, v_shift); }

static void map_pow(int64_t n, const void *x, double e, void *y) {
    if (e == 2.0) map(n, x, y, v_square);
    else if (e == 3.0) map(n, x, y, v_cube);
    else if (e == -1.0) map(n, x, y, v_inverse);
    else if (e == 0.5) map(n, x, y, v_sqrt);
    else for (int64_t i = 0; i < n; i++) ((real *)y)[i] = (real)pow(((const real *)x)[i], e);
}

INLINE vec d_square(vec x, vec g) { return REAL(2.0) * x * g; }
INLINE vec d_cube(vec x, vec g) { return REAL(3.0) * x * x * g; }

static void pow_backward(int64_t n, const void *x, double e, const void *g, void *dx) {
    if (e == 2.0) map_backward(n, x, g, dx, d_square);
    else if (e == 3.0) map_backward(n, x, g, dx, d_cube);
    else for (int64_t i = 0; i < n; i++)
        ((real *)dx)[i] = e == 0.0 ? 0 : ((const real *)g)[i] * (real)(e * pow(((const real *)x)[i], e - 1.0));
}

#endif
