/* Right backwards at points where differences are hard: none may be called wrong. At kinks, jumps
 * and where the function is not finite the verdict may be that it cannot be told; where other steps
 * settle it, it must be ok. */
#include "tests/support/suite.h"
#include <math.h>

#include <cotangent/cotangent.h>

static ct_context *context;

/* ---- functions of the library's ops ---- */

#define FN(name, result)                                                                           \
    static ct_tensor *name(ct_tensor *const *in, int n, void *arg) {                               \
        return (void)n, (void)arg, result;                                                         \
    }
static ct_tensor *row_of(ct_tensor *x, double v) {
    return ct_full(context, CT_F64, ct_shape_of(x), v);
}
static ct_tensor *repeats(void) {
    return ct_from_i64(context, CT_SHAPE(6), (int64_t[]){0, 1, 1, 0, 2, 1});
}

FN(relu, ct_relu(in[0]))
FN(root, ct_sqrt(in[0]))
FN(logarithm, ct_log(in[0]))
FN(square, ct_mul(in[0], in[0]))
FN(cube, ct_mul(ct_mul(in[0], in[0]), in[0]))
FN(absolute, ct_abs(in[0]))
FN(sign, ct_sign(in[0]))
FN(whole, ct_floor(in[0]))
FN(clamped, ct_clamp(in[0], -1, 1))
FN(hyperbolic, ct_tanh(in[0]))
FN(logistic, ct_sigmoid(in[0]))
FN(gelu, ct_gelu(in[0]))
FN(exponential, ct_exp(in[0]))
FN(wave, ct_sin(in[0]))
FN(softmax, ct_softmax(in[0], -1))
FN(log_softmax, ct_log_softmax(in[0], -1))
FN(log_sum, ct_logsumexp(in[0], -1))
FN(log_sum_with_offset, ct_logsumexp(ct_add(in[0], row_of(in[0], 1e3)), -1))
FN(largest, ct_max(in[0], CT_DIMS(-1), false))
FN(smallest, ct_min(in[0], CT_DIMS(-1), false))
FN(sorted, ct_topk(in[0], ct_dim(in[0], -1), -1).values)
FN(running, ct_cumsum(in[0], 0))
FN(gathered, ct_gather(in[0], 0, repeats()))
FN(selected, ct_index_select(in[0], 0, repeats()))
FN(dropped, ct_dropout(in[0], 0.4, true))
FN(random_weights, ct_mul(in[0], ct_randn(context, CT_F64, ct_shape_of(in[0]))))
FN(constant, ct_add(ct_scale(in[0], 0), row_of(in[0], 3)))
FN(norm_of, ct_sqrt(ct_sum(ct_mul(in[0], in[0]), CT_ALL, false)))
FN(normalized, ct_layer_norm(in[0], NULL, NULL, 1e-5))
FN(deviation, ct_var(in[0], CT_DIMS(-1), 0, false))
FN(product, ct_mul(in[0], in[1]))
FN(quotient, ct_div(in[0], in[1]))
FN(difference, ct_sub(in[0], in[1]))
FN(matrices, ct_matmul(in[0], in[1]))
FN(directed, ct_div(in[0], ct_abs(in[0])))
FN(offset, ct_add(ct_mul(in[0], in[0]), row_of(in[0], 1e9)))
FN(cancelled, ct_sub(ct_add(in[0], row_of(in[0], 1e8)), row_of(in[0], 1e8)))
FN(itself, in[0])
FN(through_f32, ct_cast(ct_cast(in[0], CT_F32), CT_F64))

/* ---- elementwise functions with a derivative in C ---- */

typedef struct {
    double (*value)(double), (*slope)(double);
} curve;

static ct_tensor *curve_forward(ct_call *c) {
    const curve *f = *(const curve *const *)c->attrs;
    ct_tensor *y = ct_empty(c->context, CT_F64, ct_shape_of(c->in[0]));
    for (int64_t i = 0; i < ct_numel(y); i++)
        ct_data_f64(y)[i] = f->value(ct_data_f64(c->in[0])[i]);
    return y;
}
static bool curve_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const curve *f = *(const curve *const *)c->attrs;
    grad[0] = ct_empty(c->context, CT_F64, ct_shape_of(c->in[0]));
    for (int64_t i = 0; i < ct_numel(grad[0]); i++)
        ct_data_f64(grad[0])[i] = ct_data_f64(g[0])[i] * f->slope(ct_data_f64(c->in[0])[i]);
    return true;
}
static const ct_op curve_op = {.name = "curve",
                               .attrs_size = sizeof(curve *),
                               .forward = curve_forward,
                               .backward = curve_backward};
static ct_tensor *drawn(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(&curve_op, in, n, &arg);
}

#define CURVE(name, y, dy)                                                                         \
    static double name##_value(double x) { return y; }                                             \
    static double name##_slope(double x) { return (void)x, (dy); }                                 \
    static const curve name = {name##_value, name##_slope};
CURVE(power, pow(x, 1.7), 1.7 * pow(x, 0.7))
CURVE(third, cbrt(x), 1 / (3 * pow(cbrt(x), 2)))
CURVE(inverse, 1 / x, -1 / (x * x))
CURVE(entropy, x *log(x), log(x) + 1)
CURVE(bell, exp(-x *x * 1e6), -2e6 * x * exp(-x * x * 1e6))
CURVE(quick, sin(1e4 * x), 1e4 * cos(1e4 * x))
CURVE(leaky, x > 0 ? x : 0.01 * x, x > 0 ? 1 : 0.01)
CURVE(leaky_left, x > 0 ? x : 0.01 * x, x >= 0 ? 1 : 0.01)
CURVE(middle, fabs(x), x > 0 ? 1 : x < 0 ? -1 : 0)
CURVE(shrunk, fabs(x) > 0.5 ? x : 0, fabs(x) > 0.5)
CURVE(stairs, round(2 * x), 0)
CURVE(tiny, 1e-12 * x * x, 2e-12 * x)
CURVE(huge, 1e12 * x * x, 2e12 * x)
CURVE(smooth_root, sqrt(x *x + 1e-12), x / sqrt(x * x + 1e-12))
CURVE(softplus, x > 30 ? x : log1p(exp(x)), 1 / (1 + exp(-x)))
CURVE(late_log, log1p(x), 1 / (1 + x))
CURVE(linear, 0.25 * x, 0.25)
CURVE(stored, (double)(float)x * 0 + 2 * x, 2)

/* ---- the table ---- */

typedef enum { OK, ANY } wanted; /* ANY: ok or cannot tell */
enum { RANDOM = -1 };
typedef struct {
    const char *name;
    ct_fn fn;
    const curve *curve;
    wanted wanted;
    ct_shape shape;
    double x[6];     /* the elements, repeated for a larger shape; NAN first: random */
    double other[6]; /* elements of the second input */
    int inputs;
} point;

#define SIX                                                                                        \
    {                                                                                              \
        .ndim = 1, .dim = { 6 }                                                                    \
    }
#define TWO_ROWS                                                                                   \
    {                                                                                              \
        .ndim = 2, .dim = { 2, 3 }                                                                 \
    }
#define AT(...)                      {__VA_ARGS__}
#define ONE(f, want, shape, at)      {#f " " #at, f, NULL, want, shape, at, {0}, 1}
#define TWO(f, want, shape, at, and) {#f " " #at, f, NULL, want, shape, at, and, 2}
#define DRAWN(f, want, at)           {#f " " #at, drawn, &f, want, SIX, at, {0}, 1}

static const point points[] = {
    ONE(relu, ANY, SIX, AT(0, 1, -1, 0, 2, -3)),
    ONE(relu, OK, SIX, AT(3e-7, 1e-9, -1e-8, -2e-7, 1, 2)),
    ONE(root, OK, SIX, AT(1e-4, 1e-8, 1e-2, 1, 5, 1e6)),
    ONE(root, ANY, SIX, AT(0, 1, 2, 3, 4, 5)),
    ONE(logarithm, OK, SIX, AT(1e-4, 1e-3, 1e-6, 1, 1e6, 3)),
    ONE(square, OK, SIX, AT(1e6, -1e6, 1e-6, 0, 1e3, 1)),
    ONE(cube, OK, SIX, AT(1e4, -1e5, 1e-4, 0, 1e3, 1)),
    ONE(absolute, ANY, SIX, AT(0, 1, -1, 1e-8, -1e-9, 5)),
    ONE(sign, ANY, SIX, AT(0, 1, -1, 2, 0, 5)),
    ONE(whole, ANY, SIX, AT(0, 1, -1, 2.5, 0.5, 5)),
    ONE(clamped, ANY, SIX, AT(-1, 1, 0, 2, -2, 0.5)),
    ONE(hyperbolic, OK, SIX, AT(20, -20, 5, -8, 0, 100)),
    ONE(logistic, OK, SIX, AT(30, -30, 5, -8, 0, 700)),
    ONE(gelu, OK, SIX, AT(30, -30, 5, -8, 0, 1e-5)),
    ONE(exponential, OK, SIX, AT(50, -50, 20, 0, 1, 30)),
    ONE(wave, OK, SIX, AT(1e6, -1e5, 1e3, 0, 1e-6, 30)),
    ONE(softmax, OK, TWO_ROWS, AT(50, 0, -50, 1, 1, 1)),
    ONE(softmax, OK, TWO_ROWS, AT(1e3, 1e3 + 1, 1e3 - 2, -1e3, -1e3, -999)),
    ONE(log_softmax, OK, TWO_ROWS, AT(50, 0, -50, 1, 1, 1)),
    ONE(log_sum, OK, TWO_ROWS, AT(300, 301, 299, -300, -300, -301)),
    ONE(log_sum_with_offset, OK, TWO_ROWS, AT(1, 2, 3, -1, 0, 0.5)),
    ONE(log_sum, ANY, TWO_ROWS, AT(1e8, 1e8, 1e8 + 1, -1e8, -1e8, 0)),
    ONE(largest, ANY, TWO_ROWS, AT(1, 1, 0, 2, 2, 2)),
    ONE(smallest, ANY, TWO_ROWS, AT(1, 1, 3, -2, -2, -2)),
    ONE(sorted, ANY, TWO_ROWS, AT(1, 1, 0, 2, 2, 2)),
    ONE(running, OK, ((ct_shape){.ndim = 1, .dim = {300}}), AT(NAN)),
    ONE(gathered, OK, SIX, AT(1, 2, 3, 4, 5, 6)),
    ONE(selected, OK, ((ct_shape){.ndim = 2, .dim = {3, 2}}), AT(1, 2, 3, 4, 5, 6)),
    ONE(dropped, OK, TWO_ROWS, AT(NAN)),
    ONE(random_weights, OK, TWO_ROWS, AT(NAN)),
    ONE(constant, OK, SIX, AT(1, 2, 3, 4, 5, 6)),
    ONE(norm_of, ANY, SIX, AT(0, 0, 0, 0, 0, 0)),
    ONE(norm_of, OK, SIX, AT(1e-5, 0, 0, 0, 0, 0)),
    ONE(normalized, OK, TWO_ROWS, AT(1, 1, 1.01, 100, 101, 102)),
    ONE(normalized, OK, TWO_ROWS, AT(1, 1, 1, 2, 2, 2)),
    ONE(deviation, OK, TWO_ROWS, AT(1e4, 1e4 + 1, 1e4, 1, 1, 1)),
    TWO(product, OK, SIX, AT(1e8, 1e-8, 1, 1e4, -1e8, 0), AT(1e-8, 1e8, 1, 1e-4, 1e8, 5)),
    TWO(quotient, OK, SIX, AT(1, 1e-8, 1, 1e4, -1, 0), AT(1e-3, 1e-2, 1e6, 1e-4, 2, 5)),
    TWO(difference, OK, SIX, AT(1e6, 1, 2, 3, 4, 5), AT(1e6, 1, 2, 3, 4, 5)),
    TWO(matrices, OK, ((ct_shape){.ndim = 2, .dim = {7, 7}}), AT(NAN), AT(NAN)),
    ONE(directed, OK, SIX, AT(1, -1, 1e-3, -1e-5, 1e5, 2)),
    ONE(directed, ANY, SIX, AT(1, -1, 0, -1e-5, 1e5, 2)),
    ONE(offset, ANY, SIX, AT(1, 2, 3, -1, -2, 0.5)),
    ONE(cancelled, ANY, SIX, AT(1, 2, 3, -1, -2, 0.5)),
    ONE(itself, OK, SIX, AT(1, 2, 3, -1, -2, 0.5)),
    ONE(itself, ANY, SIX, AT(INFINITY, INFINITY, INFINITY, INFINITY, -INFINITY, INFINITY)),
    ONE(through_f32, ANY, SIX, AT(1, 2, 3, -1, -2, 0.5)),
    ONE(square, OK, ((ct_shape){.ndim = 2, .dim = {0, 3}}), AT(0)),
    ONE(square, OK, {.ndim = 0}, AT(3)),
    ONE(relu, ANY, ((ct_shape){.ndim = 2, .dim = {40, 40}}), AT(0, 1, -1, 2, -2, 0)),
    DRAWN(power, OK, AT(1e-3, 1e-5, 0.5, 1e4, 1, 20)),
    DRAWN(third, OK, AT(1e-3, 1e-5, -0.5, 1e4, 1, -20)),
    DRAWN(third, ANY, AT(0, 1e-5, -0.5, 1e4, 1, -20)),
    DRAWN(inverse, OK, AT(1e-3, -1e-4, 0.5, 1e4, 1, 20)),
    DRAWN(entropy, OK, AT(1e-3, 1e-6, 0.5, 1e4, 1, 20)),
    DRAWN(bell, OK, AT(1e-3, -1e-4, 2e-3, 0, 1, 5e-4)),
    DRAWN(quick, OK, AT(1e-3, -0.3, 2e-3, 0, 1, 5)),
    DRAWN(leaky, ANY, AT(0, -1, 1, 2, 0, 1e-7)),
    DRAWN(leaky_left, ANY, AT(0, -1, 1, 2, 0, 1e-7)),
    DRAWN(middle, ANY, AT(0, -1, 1, 2, 0, 1e-7)),
    DRAWN(shrunk, ANY, AT(0.5, -0.5, 1, 0.2, -1, 0)),
    DRAWN(stairs, ANY, AT(0.25, -0.25, 1, 0.2, 0.75, 0)),
    DRAWN(tiny, OK, AT(1, -1, 1e6, 0, 3, 1e-3)),
    DRAWN(huge, ANY, AT(1, -1, 1e3, 0, 3, 1e-3)),
    DRAWN(smooth_root, OK, AT(1e-6, -1e-7, 1e-3, 0, 3, 1e-5)),
    DRAWN(softplus, OK, AT(29, 31, -20, 0, 3, -1e-5)),
    DRAWN(late_log, OK, AT(1e-12, 1e-6, -0.9, 0, 3, -0.9999)),
    DRAWN(linear, OK, AT(0.5, 1, 2, 4, 8, 16)),
    DRAWN(stored, ANY, AT(0.1, 1.3, 2.7, 4.1, 8.3, 16.7)),
};

static ct_tensor *values(const point *p, const double *x) {
    ct_tensor *t =
        isnan(x[0]) ? ct_randn(context, CT_F64, p->shape) : ct_zeros(context, CT_F64, p->shape);
    for (int64_t i = 0; !isnan(x[0]) && i < ct_numel(t); i++) ct_data_f64(t)[i] = x[i % 6];
    return t;
}

START_TEST(right_is_not_called_wrong) {
    const point *p = &points[_i];
    ct_tensor *in[] = {values(p, p->x), values(p, p->other)};
    for (int fast = 0; fast < 2; fast++) {
        const ct_gradcheck_result r =
            ct_gradcheck(p->fn, (void *)p->curve, in, p->inputs, (ct_gradcheck_opts){.fast = fast});
        ck_assert_msg(r.ran, "%s: %s", p->name, ct_error_message(context));
        ck_assert_msg(r.verdict != CT_VERDICT_WRONG, "%s%s is called wrong: %s", p->name,
                      fast ? " (fast)" : "", r.diagnosis);
        ck_assert_msg(fast || p->wanted == ANY || r.ok, "%s: %s", p->name, r.diagnosis);
        ck_assert_int_eq(r.ok, r.verdict == CT_VERDICT_OK);
    }
}
END_TEST

/* ---- cancellation ----
 *
 * Far from 0, or where large terms cancel, f64 has few digits left for the gradient and for the
 * differences. The function is smooth there, so the checker must report a lack of precision,
 * and neither a mistake nor a kink. */

#define MEAN(x) ct_mean((x), CT_DIMS(-1), true)
FN(variance, ct_var(in[0], CT_DIMS(-1), 0, false))
FN(mean_of_squares, ct_sub(MEAN(ct_mul(in[0], in[0])), ct_mul(MEAN(in[0]), MEAN(in[0]))))
FN(centred, ct_mul(ct_sub(in[0], MEAN(in[0])), ct_sub(in[0], MEAN(in[0]))))
FN(less_log_sum, ct_sub(in[0], ct_unsqueeze(ct_logsumexp(in[0], -1), -1)))
FN(expanded, ct_sub(ct_mul(in[0], in[0]), ct_mul(MEAN(in[0]), in[0])))
FN(second_difference, ct_sub(ct_add(ct_narrow(in[0], -1, 0, 4), ct_narrow(in[0], -1, 2, 4)),
                             ct_scale(ct_narrow(in[0], -1, 1, 4), 2)))
FN(absorbed, ct_sub(ct_add(ct_mul(in[0], in[0]), row_of(in[0], 1e8)), row_of(in[0], 1e8)))
CURVE(less_cosine, 1 - cos(x), sin(x))
CURVE(exp_ratio, (exp(x) - 1) / x, (exp(x) * x - (exp(x) - 1)) / (x * x))
CURVE(ratio_at_one, (x * x - 1) / (x - 1), (2 * x * (x - 1) - (x * x - 1)) / ((x - 1) * (x - 1)))
CURVE(large_wave, sin(x) - sin(x + 1e-7), cos(x) - cos(x + 1e-7))

static const struct {
    const char *name;
    ct_fn fn;
    const curve *curve;
    double offset, spread;
} cancellations[] = {
    {"variance", variance, NULL, 1e8, 1},
    {"variance far away", variance, NULL, 1e9, 10},
    {"mean of squares", mean_of_squares, NULL, 1e4, 1},
    {"mean of squares far away", mean_of_squares, NULL, 1e7, 1},
    {"softmax of large numbers", softmax, NULL, 1e7, 1},
    {"log softmax of large numbers", log_softmax, NULL, 1e6, 0.5},
    {"layer norm", normalized, NULL, 1e7, 1},
    {"layer norm of nearly equal numbers", normalized, NULL, 1, 1e-6},
    {"centred", centred, NULL, 1e9, 1},
    {"less its log of a sum", less_log_sum, NULL, 1e7, 1},
    {"log of a sum", log_sum, NULL, 1e9, 3},
    {"expanded", expanded, NULL, 1e6, 1e-2},
    {"second difference", second_difference, NULL, 1e9, 1},
    {"absorbed", absorbed, NULL, 0, 1},
    {"1 - cos x", drawn, &less_cosine, 0, 1e-6},
    {"(e^x - 1) / x", drawn, &exp_ratio, 0, 1e-5},
    {"(x^2 - 1) / (x - 1)", drawn, &ratio_at_one, 1, 1e-4},
    {"sine at 10^8", drawn, &large_wave, 1e8, 1},
};

START_TEST(cancellation_is_no_mistake) {
    enum { TIMES = 12 };
    const int c = _i;
    for (int time = 0; time < TIMES; time++)
        for (int fast = 0; fast < 2; fast++) {
            ct_tensor *x = ct_add_scalar(
                ct_scale(ct_randn(context, CT_F64, CT_SHAPE(6)), cancellations[c].spread),
                cancellations[c].offset);
            const ct_gradcheck_result r =
                ct_gradcheck(cancellations[c].fn, (void *)cancellations[c].curve, &x, 1,
                             (ct_gradcheck_opts){.fast = fast, .seed = (uint64_t)time});
            ck_assert_msg(r.ran && r.verdict != CT_VERDICT_WRONG &&
                              (r.ok || r.mistake == CT_MISTAKE_PRECISION),
                          "%s%s: %s: %s", cancellations[c].name, fast ? " (fast)" : "",
                          ct_mistake_name(r.mistake), r.diagnosis);
        }
}
END_TEST

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 3, .threads = 2}); }
static void teardown(void) { ct_context_free(context); }

int main(void) {
    return run_tests(
        "gradcheck_right", setup, teardown,
        TESTS(LOOP(right_is_not_called_wrong, sizeof points / sizeof *points),
              LOOP(cancellation_is_no_mistake, sizeof cancellations / sizeof *cancellations)));
}
