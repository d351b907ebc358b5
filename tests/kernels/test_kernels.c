/* Elementwise kernels of every table, against long double: bounds in units of the last place; NaN,
 * infinities and denormals; every length around the vector's; in place; nothing written past the
 * end; the same bits wherever an element stands. */
#include "kernels.h"
#include "src/kernels/elementwise.h"
#include "src/kernels/unary.h"

/* ---- functions of one array ---- */

static wide logistic(wide x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static wide cdf(wide x) { return 0.5L * erfcl(-x * sqrtl(0.5L)); }
static wide density(wide x) { return expl(-x * x / 2) * 0.39894228040143267794L; }
static const wide root_2_over_pi = 0.79788456080286535588L;
static wide tanh_u2(wide x) { return 2 * root_2_over_pi * (x + 0.044715L * x * x * x); }
static wide tanh_u2_slope(wide x) { return 2 * root_2_over_pi * (1 + 3 * 0.044715L * x * x); }
static wide gelu_tanh_slope(wide x) {
    const wide s = logistic(tanh_u2(x));
    return s + x * s * logistic(-tanh_u2(x)) * tanh_u2_slope(x);
}
static wide quick_gelu_slope(wide x) {
    return logistic(1.702L * x) * (1 + 1.702L * x * logistic(-1.702L * x));
}
static wide sine(wide x) { return isinf(x) ? NAN : sinl(x); }
static wide cosine(wide x) { return isinf(x) ? NAN : cosl(x); }

/* The error may be ulp[dtype] units of the last place of the result, or of magnitude if this is
 * larger, for results that cancel or underflow on the way. Samples lie between low and high. */
typedef struct {
    double ulp[2], low, high, magnitude;
} bounds;
#define BOUNDS(ulp_f32, ulp_f64, low, high, magnitude) {{ulp_f32, ulp_f64}, low, high, magnitude}

/* Each function of src/kernels/unary.h has a row: its value at x and the bounds of the value, then
 * its slope and the bounds of the slope. A slope is an expression of the kernel's argument, x or y.
 * The value and the slope of a function of a number contain a. A PLAIN row has no slope. */
#define PLAIN(name, value, value_bounds)                                                           \
    static wide value_##name(wide x, wide a) { return (void)a, value; }                            \
    static const bounds bounds_##name = BOUNDS value_bounds;
#define ROW(name, value, value_bounds, slope, slope_bounds)                                        \
    PLAIN(name, value, value_bounds)                                                               \
    static wide slope_##name(wide x, wide a) {                                                     \
        const wide y = x;                                                                          \
        return (void)y, (void)a, slope;                                                            \
    }                                                                                              \
    static const bounds bounds_##name##_backward = BOUNDS slope_bounds;

/* clang-format off */
PLAIN(neg, -x, (0, 0, -9, 9, 0))
PLAIN(sign, (x > 0) - (x < 0), (0, 0, -9, 9, 0))
PLAIN(floor, floorl(x), (0, 0, -9, 9, 0))
PLAIN(scale, a * x, (0.5, 0.5, -9, 9, 0))
PLAIN(add_scalar, a + x, (0.51, 0.51, -9, 9, 0))
ROW(exp, expl(x), (1.06, 1, -110, 95, 0), y, (0.5, 0.5, 0, 9, 0))
ROW(log, logl(x), (1, 1, 0, 9, 0), 1 / x, (0.5, 0.5, -9, 9, 0))
ROW(sqrt, sqrtl(x), (0.5, 0.5, 0, 9, 0), 1 / (2 * y), (1, 1, 0, 9, 0))
ROW(abs, fabsl(x), (0, 0, -9, 9, 0), (x > 0) - (x < 0), (0, 0, -9, 9, 0))
ROW(tanh, tanhl(x), (2, 2, -10, 10, 0), 1 - y * y, (2, 2, -1, 1, 1))
ROW(sigmoid, logistic(x), (2, 2, -95, 20, 0), y * (1 - y), (2, 2, 0, 1, 0))
ROW(relu, x < 0 ? 0 : x, (0, 0, -9, 9, 0), y > 0, (0, 0, -9, 9, 0))
ROW(silu, x * logistic(x), (4, 4, -80, 20, 1e-35),
    logistic(x) * (1 + x * logistic(-x)), (6, 6, -30, 30, 1))
ROW(gelu, x * cdf(x), (4, 3, -12, 8, 0.125),
    fabsl(x) > 50 ? x > 0 : cdf(x) + x * density(x), (4, 4, -12, 8, 1))
/* The rounding of u is multiplied by 2 u: of 40 million points in f64 the worst, -1.377, is 7.11
 * ulp off, 1.4e-5 of them more than 6. */
ROW(gelu_tanh, x * logistic(tanh_u2(x)), (6, 8, -10, 8, 0.1),
    fabsl(x) > 50 ? x > 0 : gelu_tanh_slope(x), (6, 6, -10, 8, 1))
ROW(softplus, x > 20 ? x : log1pl(expl(x)), (2.3, 2.3, -110, 40, 0),
    x > 20 ? 1 : logistic(x), (2, 2, -110, 40, 0))
/* A product with a C library's expm1 of 1 ulp is off by up to 2.5. */
ROW(elu, x < 0 ? a * expm1l(x) : x, (2, 2.5, -30, 9, 0),
    x > 0 ? 1 : a * expl(x), (2, 2, -110, 9, 0))
ROW(leaky_relu, x > 0 ? x : a * x, (0.5, 0.5, -9, 9, 0), x > 0 ? 1 : a, (0.5, 0.5, -9, 9, 0))
ROW(relu_squared, x < 0 ? 0 : x * x, (0.5, 0.5, -9, 9, 0),
    x > 0 ? 2 * x : 0, (0.5, 0.5, -9, 9, 0))
ROW(quick_gelu, x * logistic(1.702L * x), (6, 8, -12, 12, 0.1),
    fabsl(x) > 50 ? x > 0 : quick_gelu_slope(x), (6, 6, -12, 12, 1))
/* These two may be left out (trigonometric). */
ROW(sin, sine(x), (0.51, 1, -1e7, 1e7, 0), cosine(x), (1, 1, -2e6, 2e6, 0))
ROW(cos, cosine(x), (0.51, 1, -100, 100, 0), -sine(x), (1, 1, -100, 100, 0))
/* clang-format on */

typedef struct {
    const char *name;
    size_t field;
    wide (*want)(wide x, wide a);
    const bounds *within;
    bool from_x; /* whether a slope's kernel takes x */
    bool of_number;
    double a; /* the number, if of_number */
} function;
#define FIELD(name) #name, offsetof(cti_unary_kernels, name)

#define VALUE_AT(name, ...) {FIELD(name), value_##name, &bounds_##name, false, __VA_ARGS__},
#define SLOPE_AT(name, ...)                                                                        \
    {FIELD(name##_backward), slope_##name, &bounds_##name##_backward, __VA_ARGS__},
#define NONE(...)
#define VALUE(name, ...)        VALUE_AT(name, false, 0)
#define SLOPE_FROM_X(name, ...) SLOPE_AT(name, true, false, 0)
#define SLOPE_FROM_Y(name, ...) SLOPE_AT(name, false, false, 0)
/* Functions of a number are tested with four numbers that f32 represents exactly: 1, and numbers
 * below, between and above 0 and 1. */
#define VALUES(name, ...)                                                                          \
    VALUE_AT(name, true, 1)                                                                        \
    VALUE_AT(name, true, 0.75) VALUE_AT(name, true, -1.5) VALUE_AT(name, true, 1.25)
#define SLOPES(name, ...)                                                                          \
    SLOPE_AT(name, true, true, 1)                                                                  \
    SLOPE_AT(name, true, true, 0.75)                                                               \
    SLOPE_AT(name, true, true, -1.5) SLOPE_AT(name, true, true, 1.25)
/* pow has a test of its own (powers). */
static const function maps[] = {CTI_SCALAR_KERNELS(VALUES, VALUES, NONE)
                                    CTI_UNARY_KERNELS(VALUE, VALUE, VALUE, VALUE)};
static const function derivatives[] = {CTI_SCALAR_KERNELS(NONE, SLOPES, NONE) CTI_UNARY_KERNELS(
    NONE, SLOPE_FROM_X, SLOPE_FROM_Y, SLOPE_FROM_Y)};

/* The number of functions at the ends of these tables that cannot be compared: sin and cos if sinl
 * is not exact. MinGW's is the processor's instruction, whose pi has 66 bits. */
static int trigonometric(void) {
    const volatile wide large = 1e22L;
    const int without = fabsl(sinl(large) + 0.8522008497671888017727L) < 1e-18L ? 0 : 2;
    if (without) printf("sin and cos are left out: the C library's sinl is not exact\n");
    return without;
}

static void run_value(table t, const function *f, int64_t n, const void *x, void *y) {
    const char *kernel = (const char *)t.k->unary + f->field;
    if (f->of_number) (*(cti_unary_scalar *const *)kernel)(n, x, f->a, y);
    else (*(cti_unary *const *)kernel)(n, x, y);
}

static void run_slope(table t, const function *f, int64_t n, const void *x, const void *g,
                      void *dx) {
    const char *kernel = (const char *)t.k->unary + f->field;
    if (f->of_number) (*(cti_unary_scalar_backward *const *)kernel)(n, x, f->a, g, dx);
    else (*(cti_unary_backward *const *)kernel)(n, x, g, dx);
}

static wide wanted(table t, const function *f, const void *x, int64_t i) {
    return f->want((wide)get(t, x, i), (wide)f->a);
}

static const double specials[] = {/* some become 0 or infinity in f32 */
                                  NAN,      INFINITY, -INFINITY, 0.0,        -0.0,       1.0,
                                  -1.0,     1e-40,    -1e-40,    1e-45,      1e-310,     -1e-310,
                                  5e-324,   FLT_MIN,  -FLT_MIN,  FLT_MAX,    DBL_MAX,    88.7,
                                  88.8,     -87.3,    -88.0,     -103.5,     -104.5,     709.7,
                                  709.8,    -745.0,   -746.0,    0.625,      0.62499,    1e-8,
                                  -1e-8,    20.0,     -20.0,     1e10,       -1e10,      3e38,
                                  -3e38,    1e300,    -1e300,    0.70710678, 1.41421356, 0.99999994,
                                  1.0000001};

/* Specials, then the range, then any bits. */
static double sample(table t, const function *f, int i) {
    if (i < COUNT(specials)) return specials[i];
    if (i % 4) return noise(f->within->low, f->within->high);
    const uint64_t bits = noise_bits();
    float single;
    double twice;
    memcpy(&single, &bits, sizeof single);
    memcpy(&twice, &bits, sizeof twice);
    return t.dtype ? twice : (double)single;
}

static void check(table t, const function *f, double x, double got, wide want) {
    const double error = error_in_ulp(t, got, want, f->within->magnitude);
    EXPECT(error <= f->within->ulp[t.dtype],
           "%s %s f%d: of %.9g (a = %g) got %.9g, want %.9Lg: %.3g ulp", t.isa, f->name,
           8 * (int)t.size, x, f->a, got, want, error);
}

START_TEST(map_accuracy) {
    enum { N = 20000 };
    const function *f = &maps[_i];
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array x = array_of_bytes(t.size, N, false), y = output(t, N);
        for (int j = 0; j < N; j++) put(t, x.p, j, sample(t, f, j));
        run_value(t, f, N, x.p, y.p);
        for (int j = 0; j < N; j++)
            check(t, f, get(t, x.p, j), get(t, y.p, j), wanted(t, f, x.p, j));
        release(x, f->name), release(y, f->name);
    }
}
END_TEST

/* f32 of every sign, size and direction: one in 65537 of all there are. make bench ROW=vmath tries
 * them all. */
START_TEST(map_of_all_floats) {
    enum { N = 65536 };
    const function *f = &maps[_i];
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        if (t.dtype) continue;
        array x = array_of_bytes(t.size, N, false), y = output(t, N);
        for (uint32_t j = 0; j < N; j++) memcpy((char *)x.p + 4 * j, &(uint32_t){65537 * j}, 4);
        run_value(t, f, N, x.p, y.p);
        for (int j = 0; j < N; j++)
            check(t, f, get(t, x.p, j), get(t, y.p, j), wanted(t, f, x.p, j));
        release(x, f->name), release(y, f->name);
    }
}
END_TEST

START_TEST(derivative_accuracy) {
    enum { N = 20000 };
    const function *f = &derivatives[_i];
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array x = filled(t, N, f->within->low, f->within->high), g = filled(t, N, 1, 1),
              dx = output(t, N);
        put(t, x.p, 0, NAN), put(t, x.p, 1, 0);
        run_slope(t, f, N, x.p, g.p, dx.p);
        for (int j = 1; j < N; j++)
            check(t, f, get(t, x.p, j), get(t, dx.p, j), wanted(t, f, x.p, j));
        const double at_nan = get(t, dx.p, 0);
        const double constant = f->want == slope_relu         ? 1
                                : f->want == slope_leaky_relu ? f->a
                                                              : NAN;
        EXPECT(isnan(constant) ? isnan(at_nan) : at_nan == constant, "%s of NaN", f->name);
        for (int j = 1; j < N; j++) put(t, g.p, j, -2); /* and it is a multiple of g */
        array twice = output(t, N);
        run_slope(t, f, N, x.p, g.p, twice.p);
        for (int j = 1; j < N; j++)
            EXPECT(get(t, twice.p, j) == -2 * get(t, dx.p, j), "%s %s is not linear in g", t.isa,
                   f->name);
        release(x, f->name), release(g, f->name), release(dx, f->name), release(twice, f->name);
    }
}
END_TEST

/* An activation with its backward: the same bits as one by one, of every length, over either
 * input. */
START_TEST(both_at_once) {
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        const struct {
            cti_unary *map;
            cti_unary_backward *backward;
            cti_unary_both *both;
#define ACTIVATION(name) {t.k->unary->name, t.k->unary->name##_backward, t.k->unary->name##_both},
        } activations[] = {CTI_BOTH_KERNELS(ACTIVATION)};
        for (int a = 0; a < COUNT(activations); a++)
            for (int64_t n = 0; n <= 70; n++) {
                array x = filled(t, n, -9, 9), g = filled(t, n, -1, 1), y = output(t, n),
                      dx = output(t, n), u = output(t, n), v = output(t, n);
                activations[a].map(n, x.p, y.p);
                activations[a].backward(n, x.p, g.p, dx.p);
                activations[a].both(n, x.p, g.p, u.p, v.p);
                EXPECT(memcmp(y.p, u.p, y.bytes) == 0 && memcmp(dx.p, v.p, dx.bytes) == 0,
                       "%s %d: n = %d", t.isa, a, (int)n);
                activations[a].both(n, x.p, g.p, x.p, g.p);
                EXPECT(memcmp(y.p, x.p, y.bytes) == 0 && memcmp(dx.p, g.p, dx.bytes) == 0,
                       "%s %d in place: n = %d", t.isa, a, (int)n);
                release(x, "x"), release(g, "g"), release(y, "y"), release(dx, "dx"),
                    release(u, "both's y"), release(v, "both's dx");
            }
    }
}
END_TEST

START_TEST(both_of_a_number_at_once) {
    static const double numbers[] = {1, 0.01, -1.5};
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        const struct {
            cti_unary_scalar *map;
            cti_unary_scalar_backward *backward;
            cti_unary_scalar_both *both;
        } activations[] = {CTI_SCALAR_BOTH_KERNELS(ACTIVATION)};
        for (int f = 0; f < COUNT(activations); f++)
            for (int64_t n = 0; n <= 70; n++) {
                const double a = numbers[n % COUNT(numbers)];
                array x = filled(t, n, -9, 9), g = filled(t, n, -1, 1), y = output(t, n),
                      dx = output(t, n), u = output(t, n), v = output(t, n);
                activations[f].map(n, x.p, a, y.p);
                activations[f].backward(n, x.p, a, g.p, dx.p);
                activations[f].both(n, x.p, a, g.p, u.p, v.p);
                EXPECT(memcmp(y.p, u.p, y.bytes) == 0 && memcmp(dx.p, v.p, dx.bytes) == 0,
                       "%s %d: n = %d", t.isa, f, (int)n);
                activations[f].both(n, x.p, a, g.p, x.p, g.p);
                EXPECT(memcmp(y.p, x.p, y.bytes) == 0 && memcmp(dx.p, g.p, dx.bytes) == 0,
                       "%s %d in place: n = %d", t.isa, f, (int)n);
                release(x, "x"), release(g, "g"), release(y, "y"), release(dx, "dx"),
                    release(u, "both's y"), release(v, "both's dx");
            }
    }
}
END_TEST

/* Slopes from x at large arguments, at which factors overflow on the way. The error is in units of
 * the last place of the slope, or below 1e-30. */
START_TEST(derivatives_far_out) {
    const double far[] = {-INFINITY, -3e38, -1e30, -1e10, -200, 200, 1e10, 1e30, 3e38, INFINITY};
    const function *f = &derivatives[_i];
    table t;
    for (int i = 0; f->from_x && table_at(i, &t); i++) {
        array x = filled(t, COUNT(far), 0, 0), g = filled(t, COUNT(far), 1, 1),
              dx = output(t, COUNT(far));
        for (int j = 0; j < COUNT(far); j++) put(t, x.p, j, far[j]);
        run_slope(t, f, COUNT(far), x.p, g.p, dx.p);
        for (int j = 0; j < COUNT(far); j++) {
            const double got = get(t, dx.p, j);
            const wide want = wanted(t, f, x.p, j);
            EXPECT(fabsl((wide)got - want) < 1e-30L ||
                       error_in_ulp(t, got, want, 0) <= f->within->ulp[t.dtype],
                   "%s %s at %g is %g, not %Lg", t.isa, f->name, far[j], got, want);
        }
        release(x, "x"), release(g, "g"), release(dx, "dx");
    }
}
END_TEST

/* Every length around the vector's: the same bits in place, apart, and within others. */
START_TEST(map_lengths) {
    enum { LONGEST = 70 };
    const function *f = &maps[_i];
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        for (int64_t n = 0; n <= LONGEST; n++) {
            array x = filled(t, n, f->within->low, f->within->high), y = output(t, n),
                  z = output(t, n);
            run_value(t, f, n, x.p, y.p);
            for (int64_t j = 0; j < n; j++) run_value(t, f, 1, at(t, x.p, j), at(t, z.p, j));
            EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s %s: bits depend on the place, n = %d", t.isa,
                   f->name, (int)n);
            memcpy(z.p, x.p, z.bytes);
            run_value(t, f, n, z.p, z.p);
            EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s %s: in place differs, n = %d", t.isa,
                   f->name, (int)n);
            release(x, f->name), release(y, f->name), release(z, f->name);
        }
    }
}
END_TEST

START_TEST(derivative_lengths) {
    enum { LONGEST = 70 };
    const function *f = &derivatives[_i];
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        for (int64_t n = 0; n <= LONGEST; n++) {
            array x = filled(t, n, f->within->low, f->within->high), g = filled(t, n, -1, 1),
                  y = output(t, n), z = output(t, n);
            run_slope(t, f, n, x.p, g.p, y.p);
            for (int64_t j = 0; j < n; j++)
                run_slope(t, f, 1, at(t, x.p, j), at(t, g.p, j), at(t, z.p, j));
            EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s %s: bits depend on the place, n = %d", t.isa,
                   f->name, (int)n);
            memcpy(z.p, x.p, z.bytes);
            run_slope(t, f, n, z.p, g.p, z.p);
            EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s %s: over x differs, n = %d", t.isa, f->name,
                   (int)n);
            memcpy(z.p, g.p, z.bytes);
            run_slope(t, f, n, x.p, z.p, z.p);
            EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s %s: over g differs, n = %d", t.isa, f->name,
                   (int)n);
            release(x, f->name), release(g, f->name), release(y, f->name), release(z, f->name);
        }
    }
}
END_TEST

/* ---- functions of two arrays ---- */

static double z_add(double a, double b) { return a + b; }
static double z_sub(double a, double b) { return a - b; }
static double z_mul(double a, double b) { return a * b; }
static double z_div(double a, double b) { return a / b; }
static double z_maximum(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double z_minimum(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }
static double z_eq(double a, double b) { return a == b; }
static double z_ne(double a, double b) { return a != b; }
static double z_lt(double a, double b) { return a < b; }
static double z_le(double a, double b) { return a <= b; }
static double z_gt(double a, double b) { return a > b; }
static double z_ge(double a, double b) { return a >= b; }
#define ZIP(name) #name, offsetof(cti_elementwise_kernels, name)
static const struct {
    const char *name;
    size_t field;
    double (*want)(double, double);
    bool compares;
} zips[] = {{ZIP(add), z_add, 0}, {ZIP(sub), z_sub, 0},         {ZIP(mul), z_mul, 0},
            {ZIP(div), z_div, 0}, {ZIP(maximum), z_maximum, 0}, {ZIP(minimum), z_minimum, 0},
            {ZIP(eq), z_eq, 1},   {ZIP(ne), z_ne, 1},           {ZIP(lt), z_lt, 1},
            {ZIP(le), z_le, 1},   {ZIP(gt), z_gt, 1},           {ZIP(ge), z_ge, 1}};

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Small whole numbers, so that ties are common, and now and then NaN or an infinity. */
static double whole(void) {
    const uint64_t k = noise_bits() % 16;
    return k == 0 ? NAN : k == 1 ? INFINITY : k == 2 ? -INFINITY : (double)(int)k - 8;
}

START_TEST(zip_all) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= 70; n++)
            for (int strides = 0; strides < 4; strides++) {
                const int64_t sa = strides & 1, sb = strides >> 1, na = sa || !n ? n : 1,
                              nb = sb || !n ? n : 1;
                array a = filled(t, na, 0, 0), b = filled(t, nb, 0, 0), y = output(t, n),
                      truth = array_of_bytes(1, n, true);
                for (int64_t j = 0; j < na; j++) put(t, a.p, j, whole());
                for (int64_t j = 0; j < nb; j++) put(t, b.p, j, whole());
                cti_binary *run;
                memcpy(&run, (const char *)t.k->elementwise + zips[_i].field, sizeof run);
                run(n, a.p, sa, b.p, sb, zips[_i].compares ? truth.p : y.p);
                for (int64_t j = 0; j < n; j++) {
                    const double u = get(t, a.p, j * sa), v = get(t, b.p, j * sb);
                    const double want =
                        t.dtype ? zips[_i].want(u, v) : (double)(float)zips[_i].want(u, v);
                    const double got =
                        zips[_i].compares ? (double)((bool *)truth.p)[j] : get(t, y.p, j);
                    EXPECT(same(got, want), "%s %s(%g, %g) = %g", t.isa, zips[_i].name, u, v, got);
                }
                if (sa && !zips[_i].compares) {
                    run(n, a.p, sa, b.p, sb, a.p);
                    for (int64_t j = 0; j < n; j++)
                        EXPECT(same(get(t, a.p, j), get(t, y.p, j)), "%s %s in place", t.isa,
                               zips[_i].name);
                }
                release(a, zips[_i].name), release(b, zips[_i].name), release(y, zips[_i].name),
                    release(truth, zips[_i].name);
            }
}
END_TEST

START_TEST(picked_backward) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= 40; n++)
            for (int strides = 0; strides < 8; strides++) {
                const int64_t sa = strides & 1, sb = strides >> 1 & 1, na = sa || !n ? n : 1,
                              nb = sb || !n ? n : 1;
                const bool least = strides >> 2;
                array a = filled(t, na, 0, 0), b = filled(t, nb, 0, 0), g = filled(t, n, -1, 1),
                      da = output(t, n);
                for (int64_t j = 0; j < na; j++) put(t, a.p, j, whole());
                for (int64_t j = 0; j < nb; j++) put(t, b.p, j, whole());
                (least ? t.k->elementwise->minimum_backward
                       : t.k->elementwise->maximum_backward)(n, a.p, sa, b.p, sb, g.p, da.p);
                for (int64_t j = 0; j < n; j++) {
                    const double u = get(t, a.p, j * sa), v = get(t, b.p, j * sb);
                    const double share = u == v                                            ? 0.5
                                         : isnan(u) || isnan(v) || (least ? u < v : u > v) ? 1
                                                                                           : 0;
                    EXPECT(get(t, da.p, j) == share * get(t, g.p, j), "%s: (%g, %g)", t.isa, u, v);
                }
                release(a, "a"), release(b, "b"), release(g, "g"), release(da, "extremum backward");
            }
}
END_TEST

START_TEST(powers) {
    const double exponents[] = {2, 3, 0, 1, -1, 0.5, -2, 2.5, 1.0 / 3};
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= 40; n++) {
            array x = filled(t, n, 0.1, 4), g = filled(t, n, -1, 1), y = output(t, n);
            for (int e = 0; e < COUNT(exponents); e++) {
                t.k->unary->pow(n, x.p, exponents[e], y.p);
                for (int64_t j = 0; j < n; j++) {
                    const wide want = powl((wide)get(t, x.p, j), (wide)exponents[e]);
                    EXPECT(error_in_ulp(t, get(t, y.p, j), want, 0) <= 2, "%s pow %g", t.isa,
                           exponents[e]);
                }
                t.k->unary->pow_backward(n, x.p, exponents[e], g.p, y.p);
                for (int64_t j = 0; j < n; j++) {
                    const wide slope =
                        (wide)exponents[e] * powl((wide)get(t, x.p, j), (wide)exponents[e] - 1);
                    EXPECT(error_in_ulp(t, get(t, y.p, j), slope * (wide)get(t, g.p, j), 0) <= 3,
                           "%s pow' %g", t.isa, exponents[e]);
                }
            }
            if (n) { /* 0 ^ 0 = 1, and its slope is 0 */
                put(t, x.p, 0, 0);
                t.k->unary->pow(1, x.p, 0, y.p);
                EXPECT(get(t, y.p, 0) == 1, "%s", t.isa);
                t.k->unary->pow_backward(1, x.p, 0, g.p, y.p);
                EXPECT(get(t, y.p, 0) == 0, "%s", t.isa);
            }
            release(x, "x"), release(g, "g"), release(y, "pow");
        }
}
END_TEST

/* In long double, but with the weight and the choice of the formula in the table's dtype. */
static wide of_lerp(table t, wide a, wide b, double w) {
    const wide weight = t.dtype ? (wide)w : (wide)(float)w;
    return fabsl(weight) < 0.5L ? a + weight * (b - a) : b - (1 - weight) * (b - a);
}

START_TEST(lerps) {
    enum { LONGEST = 70 };
    const double weights[] = {0, 0.1, 0.499999999, 0.5, -0.5, 0.9, 1, -0.2, -2, 3};
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= LONGEST; n++)
            for (int se = 0; se < 2; se++)
                for (int k = 0; k < COUNT(weights); k++) {
                    const double w = weights[k];
                    array x = filled(t, n, -2, 2), end = filled(t, se || !n ? n : 1, -2, 2),
                          y = output(t, n), z = output(t, n);
                    for (int64_t j = 0; j < n; j += 1 + j % 7) { /* NaN and infinities, too */
                        put(t, x.p, j, whole());
                        if (se) put(t, end.p, n - 1 - j, whole());
                    }
                    t.k->elementwise->lerp(n, x.p, end.p, se, w, y.p);
                    for (int64_t j = 0; j < n; j++) {
                        const wide a = (wide)get(t, x.p, j), b = (wide)get(t, end.p, se ? j : 0);
                        const double error = error_in_ulp(t, get(t, y.p, j), of_lerp(t, a, b, w),
                                                          20 * (1 + fabs(w)));
                        EXPECT(error <= 2, "%s lerp(%Lg, %Lg, %g) = %g: %g ulp", t.isa, a, b, w,
                               get(t, y.p, j), error);
                        t.k->elementwise->lerp(1, at(t, x.p, j), at(t, end.p, se ? j : 0), se, w,
                                               at(t, z.p, j));
                    }
                    EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s lerp: bits depend on the place",
                           t.isa);
                    t.k->elementwise->lerp(n, x.p, end.p, se, w, x.p);
                    EXPECT(memcmp(y.p, x.p, y.bytes) == 0, "%s lerp: in place differs", t.isa);
                    release(x, "x"), release(end, "end"), release(y, "lerp"), release(z, "lerp");
                }
}
END_TEST

int main(void) {
    const int without = trigonometric();
    return run_tests(
        "kernels", noise_begin, NULL,
        TESTS(LOOP(map_accuracy, COUNT(maps) - without),
              LOOP(map_of_all_floats, COUNT(maps) - without),
              LOOP(derivative_accuracy, COUNT(derivatives) - without), TEST(both_at_once),
              TEST(both_of_a_number_at_once), LOOP(derivatives_far_out, COUNT(derivatives)),
              LOOP(map_lengths, COUNT(maps)), LOOP(derivative_lengths, COUNT(derivatives)),
              LOOP(zip_all, COUNT(zips)), TEST(picked_backward), TEST(powers), TEST(lerps)));
}
