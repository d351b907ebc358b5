/* Right gradients at random points near kinks, jumps and ties, in f32 and f64, of every element and
 * of directions: none may be called wrong. Wrong gradients at the same points must still be called
 * wrong. */
#include "tests/support/suite.h"

#include <cotangent/cotangent.h>

static ct_tensor *like(ct_tensor *x, double value) {
    return ct_full(ct_context_of(x), ct_dtype_of(x), CT_SCALAR, value);
}

static ct_tensor *weights(ct_tensor *x, int64_t rows, int64_t columns) {
    ct_tensor *w = ct_empty(ct_context_of(x), CT_F64, CT_SHAPE(rows, columns));
    for (int64_t i = 0; i < ct_numel(w); i++)
        ct_data_f64(w)[i] = (double)((i * 7919 + 13) % 101) / 40 - 1.25;
    return ct_cast(w, ct_dtype_of(x));
}

/* the last dim */
static int64_t length(ct_tensor *x) { return ct_dim(x, -1); }
static ct_tensor *in_order(ct_tensor *x) { return ct_topk(x, length(x), -1).values; }
static ct_tensor *squares(ct_tensor *x) { return ct_sum(ct_mul(x, x), CT_DIMS(-1), true); }

#define FN(name, result)                                                                           \
    static ct_tensor *name(ct_tensor *x) { return result; }
FN(relu, ct_relu(x))
FN(absolute, ct_abs(x))
FN(largest, ct_max(x, CT_DIMS(-1), false))
FN(spread, ct_sub(ct_max(x, CT_DIMS(-1), true), ct_min(x, CT_DIMS(-1), true)))
FN(clamped, ct_clamp(x, -1e-3, 0.5))
FN(two_largest, ct_topk(x, 2, -1).values)
FN(weighted_order, ct_mul(in_order(x), weights(x, 1, length(x))))
FN(sums_of_order, ct_cumsum(in_order(x), -1))
FN(median, ct_select(in_order(x), -1, length(x) / 2))
FN(by_argsort, ct_gather(ct_mul(x, x), -1, ct_argsort(x, -1, false)))
FN(steps, ct_floor(ct_scale(x, 100)))
FN(saw, ct_sub(x, ct_scale(ct_floor(ct_scale(x, 50)), 0.02)))
FN(jump, ct_where(ct_gt(x, like(x, 0)), ct_add_scalar(x, 1), x))
FN(huber, ct_where(ct_gt(like(x, 0.2), ct_abs(x)), ct_mul(ct_mul(x, x), like(x, 2.5)),
                   ct_add_scalar(ct_abs(x), -0.1)))
FN(masked, ct_softmax(ct_where(ct_gt(x, like(x, 0)), x, like(x, -1e9)), -1))
FN(pairs, ct_maximum(ct_narrow(x, -1, 0, length(x) - 1), ct_narrow(x, -1, 1, length(x) - 1)))
FN(norm, ct_sqrt(squares(x)))
FN(directed, ct_div(x, ct_sqrt(squares(x))))
FN(root, ct_sqrt(ct_abs(x)))
FN(cube_root, ct_mul(ct_sign(x), ct_pow(ct_abs(x), 1. / 3)))
FN(offset_root, ct_pow(ct_add_scalar(ct_abs(x), 0.1), 0.5))
FN(layer, ct_matmul(ct_relu(ct_matmul(x, weights(x, length(x), 16))), weights(x, 16, 3)))
FN(loss, ct_mean(ct_relu(ct_add_scalar(ct_neg(x), 0.3)), CT_ALL, false))
FN(normalized, ct_layer_norm(x, NULL, NULL, 1e-5))
FN(deviation, ct_sqrt(ct_var(x, CT_DIMS(-1), 1, false)))
FN(quick, ct_sin(ct_scale(ct_abs(x), 100)))

static ct_tensor *(*const functions[])(ct_tensor *) = {
    relu,          absolute,    largest,    spread,     clamped,  two_largest, weighted_order,
    sums_of_order, median,      steps,      by_argsort, saw,      jump,        huber,
    masked,        pairs,       norm,       directed,   root,     layer,       loss,
    cube_root,     offset_root, normalized, quick,      deviation};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* x, whose gradient is one and a half times what it must be. */
static ct_tensor *handed_on(ct_call *c) { return ct_clone(c->in[0]); }
static bool handed_on_more(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = ct_scale(g[0], 1.5);
    return grad[0];
}
static const ct_op more = {.name = "more", .forward = handed_on, .backward = handed_on_more};

static ct_tensor *right_of(ct_tensor *const *in, int n, void *arg) {
    return (void)n, functions[*(const int *)arg](in[0]);
}
static ct_tensor *wrong_of(ct_tensor *const *in, int n, void *arg) {
    return (void)n, functions[*(const int *)arg](ct_apply(&more, in, 1, NULL));
}

typedef struct {
    double scale, offset;
} place;
static const place places[] = {{1, 0},    {1e-3, 0}, {1e-3, 50}, {1e-5, 0},
                               {1e-2, 1}, {10, 0},   {0, 0},     {0, 0.5}};
enum { PLACES = sizeof places / sizeof *places };

static ct_gradcheck_result check(ct_fn fn, int which, ct_dtype dtype, place at, bool fast,
                                 uint64_t seed) {
    const ct_shape shapes[] = {CT_SHAPE(3, 6), CT_SHAPE(2, 3, 4), CT_SHAPE(1, 4), CT_SHAPE(5, 7)};
    ct_context *context = ct_context_new((ct_context_opts){.seed = seed, .threads = 1});
    ct_tensor *x = ct_randn(context, dtype, shapes[seed % 4]);
    x = ct_add_scalar(ct_scale(x, at.scale), at.offset);
    const ct_gradcheck_result r =
        ct_gradcheck(fn, &which, &x, 1,
                     (ct_gradcheck_opts){.fast = fast, .gradient_only = seed % 3, .seed = seed});
    ck_assert_msg(r.ran, "%s", ct_error_message(context));
    ct_context_free(context);
    return r;
}

/* A place has four seeds, with which x has each of its shapes; the next place has four others. */
START_TEST(right_near_a_kink) {
    for (int where = 0; where < PLACES; where++)
        for (int mode = 0; mode < 4; mode++)
            for (uint64_t k = 0; k < 4; k++) {
                const uint64_t seed = 1 + k + 4 * (uint64_t)(where % 2);
                const ct_gradcheck_result r =
                    check(right_of, _i, mode % 2 ? CT_F64 : CT_F32, places[where], mode / 2, seed);
                ck_assert_msg(r.verdict != CT_VERDICT_WRONG,
                              "function %d, place %d, %s%s, seed %d: %s: %s", _i, where,
                              mode % 2 ? "f64" : "f32", mode / 2 ? ", fast" : "", (int)seed,
                              ct_mistake_name(r.mistake), r.diagnosis);
            }
}
END_TEST

/* The functions whose gradient is somewhere not 0 and does not only turn at a point. */
START_TEST(wrong_near_a_kink) {
    for (int mode = 0; mode < 4; mode++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            const ct_gradcheck_result r =
                check(wrong_of, _i, mode % 2 ? CT_F64 : CT_F32, places[0], mode / 2, seed);
            if (functions[_i] == steps || (functions[_i] == loss && r.ok)) continue;
            /* along a direction in f32 a kink may be nearer than any step that can be told */
            ck_assert_msg(mode == 2 ? !r.ok : r.verdict == CT_VERDICT_WRONG,
                          "function %d, %s%s, seed %d: %s", _i, mode % 2 ? "f64" : "f32",
                          mode / 2 ? ", fast" : "", (int)seed, r.diagnosis);
        }
}
END_TEST

/* The middle one of seven, whose neighbours are so near that all steps but a few pass both. */
START_TEST(between_two_neighbours) {
    int which = 0;
    while (functions[which] != median) which++;
    for (int ulps = 1; ulps <= 64; ulps++) {
        ct_context *context = ct_context_new((ct_context_opts){.threads = 1});
        const double ulp = 0x1p-18, d = ulps * ulp;
        ct_tensor *x =
            ct_cast(ct_from_f64(context, CT_SHAPE(1, 7),
                                (double[]){50 - 3 * d, 50 + d, 50.001, 50, 50 - d, 49.999, 50.002}),
                    CT_F32);
        for (int fast = 0; fast < 2; fast++) {
            const ct_gradcheck_result r = ct_gradcheck(
                right_of, &which, &x, 1, (ct_gradcheck_opts){.fast = fast, .gradient_only = true});
            ck_assert_msg(r.ran && r.verdict != CT_VERDICT_WRONG, "%d ulps: %s", ulps, r.diagnosis);
        }
        ct_context_free(context);
    }
}
END_TEST

int main(void) {
    return run_tests("gradcheck_kinks", NULL, NULL,
                     TESTS(LOOP(right_near_a_kink, FUNCTIONS), LOOP(wrong_near_a_kink, FUNCTIONS),
                           TEST(between_two_neighbours)));
}
