/* Mutations of right backwards: the checker must find each, and must name the mistake of most. A
 * third of them, chosen by a hash of their names, was held back while the hypotheses were written.
 * How many of these are named tells how the checker does on mistakes that nobody had in mind.
 * MUTANTS=1 prints every diagnosis except those of the held third, MUTANTS=held prints all. */
#include "tests/support/suite.h"
#include <stdio.h>
#include <stdlib.h>

#include <cotangent/cotangent.h>

#include "mutants_more.h"

typedef void work(numbers *s);
typedef struct {
    const char *name;
    work *forward, *backward;
    ct_shape out, in[3];
    int inputs;
} mutant_op;

static ct_context *context;

static ct_tensor *forward(ct_call *c) {
    const mutant_op *op = *(const mutant_op *const *)c->attrs;
    ct_tensor *y = ct_zeros(c->context, CT_F64, op->out);
    numbers s = {.n = ct_numel(c->in[0]), .m = ct_numel(y), .y = ct_data_f64(y)};
    for (int i = 0; i < c->n; i++) s.x[i] = ct_data_f64(c->in[i]);
    op->forward(&s);
    return y;
}

static bool backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    const mutant_op *op = *(const mutant_op *const *)c->attrs;
    numbers s = {.n = ct_numel(c->in[0]),
                 .m = ct_numel(c->out),
                 .y = ct_data_f64(c->out),
                 .g = ct_data_f64(cotangents[0])};
    for (int i = 0; i < c->n; i++) {
        s.x[i] = ct_data_f64(c->in[i]);
        grad[i] = ct_zeros(c->context, CT_F64, ct_shape_of(c->in[i]));
        s.dx[i] = ct_data_f64(grad[i]);
    }
    op->backward(&s);
    return true;
}

static const ct_op user_op = {
    .name = "user", .attrs_size = sizeof(mutant_op *), .forward = forward, .backward = backward};

static ct_tensor *apply(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(&user_op, in, n, &arg);
}

#define S0 {.ndim = 0}
#define S1(a)                                                                                      \
    {                                                                                              \
        .ndim = 1, .dim = { a }                                                                    \
    }
#define S2(a, b)                                                                                   \
    {                                                                                              \
        .ndim = 2, .dim = { a, b }                                                                 \
    }
#define S3(a, b, c)                                                                                \
    {                                                                                              \
        .ndim = 3, .dim = { a, b, c }                                                              \
    }
#define UNARY_OP(name) {#name, name, name##_back, S2(3, 5), {S2(3, 5)}, 1}

static const mutant_op ops[] = {
    UNARY_OP(sigmoid),
    UNARY_OP(tangent),
    UNARY_OP(silu),
    UNARY_OP(gelu),
    UNARY_OP(elu),
    UNARY_OP(cubed),
    UNARY_OP(arctan),
    UNARY_OP(softplus),
    UNARY_OP(wave),
    UNARY_OP(rooted),
    UNARY_OP(huber),
    UNARY_OP(exponential),
    {"times", times, times_back, S2(3, 4), {S2(3, 4), S2(3, 4)}, 2},
    {"ratio", ratio, ratio_back, S2(3, 4), {S2(3, 4), S2(3, 4)}, 2},
    {"distance", distance, distance_back, S2(3, 4), {S2(3, 4), S2(3, 4)}, 2},
    {"affine", affine, affine_back, S2(4, 5), {S2(4, 5), S1(5), S2(4, 1)}, 3},
    {"variance", variance, variance_back, S1(4), {S2(4, 5)}, 1},
    {"norm", norm, norm_back, S0, {S2(4, 5)}, 1},
    {"log_sum", log_sum, log_sum_back, S1(4), {S2(4, 5)}, 1},
    {"all_mean", all_mean, all_mean_back, S0, {S2(4, 5)}, 1},
    {"product_of_row", product_of_row, product_of_row_back, S1(4), {S2(4, 5)}, 1},
    {"peak", peak, peak_back, S1(4), {S2(4, 5)}, 1},
    {"softmax", softmax, softmax_back, S2(4, 5), {S2(4, 5)}, 1},
    {"log_softmax", log_softmax, log_softmax_back, S2(4, 5), {S2(4, 5)}, 1},
    {"layer_norm", layer_norm, layer_norm_back, S2(4, 5), {S2(4, 5), S1(5), S1(5)}, 3},
    {"rms_norm", rms_norm, rms_norm_back, S2(4, 5), {S2(4, 5)}, 1},
    {"cross_entropy", cross_entropy, cross_entropy_back, S0, {S2(4, 5)}, 1},
    {"product", product, product_back, S2(3, 4), {S2(3, 4), S2(4, 4)}, 2},
    {"batched", batched, batched_back, S3(3, 2, 2), {S3(3, 2, 3), S2(3, 2)}, 2},
    {"outer", outer, outer_back, S2(5, 5), {S1(5), S1(5)}, 2},
    {"gram", gram, gram_back, S2(3, 3), {S2(3, 4)}, 1},
    {"convolve", convolve, convolve_back, S1(7), {S1(9), S1(3)}, 2},
    {"strided", strided, strided_back, S1(4), {S1(9), S1(3)}, 2},
    {"running_sum", running_sum, running_sum_back, S2(3, 6), {S2(3, 6)}, 1},
    {"rows_of", rows_of, rows_of_back, S2(6, 3), {S2(4, 3)}, 1},
    {"rotary", rotary, rotary_back, S2(3, 4), {S2(3, 4)}, 1},
    {"attention", attention, attention_back, S2(3, 2), {S2(3, 2), S2(3, 2), S2(3, 2)}, 3},
    {"group_norm", group_norm, group_norm_back, S3(2, 4, 3), {S3(2, 4, 3)}, 1},
    {"cosine", cosine, cosine_back, S1(3), {S2(3, 4), S2(3, 4)}, 2},
    {"focal", focal, focal_back, S0, {S2(3, 4)}, 1},
    {"smoothed", smoothed, smoothed_back, S0, {S2(4, 5)}, 1},
    {"gru", gru, gru_back, S2(3, 4), {S2(3, 4), S2(3, 4), S2(3, 4)}, 3},
    {"inverse2", inverse2, inverse2_back, S2(2, 2), {S2(2, 2)}, 1},
    {"pooled", pooled, pooled_back, S2(2, 4), {S2(2, 9)}, 1},
    {"plane", plane, plane_back, S2(5, 5), {S2(5, 5), S2(3, 3)}, 2},
    {"logits", logits, logits_back, S1(3), {S2(3, 4), S2(3, 4)}, 2},
    {"distances", distances, distances_back, S2(3, 4), {S2(3, 2), S2(4, 2)}, 2},
    {"running_product", running_product, running_product_back, S2(3, 5), {S2(3, 5)}, 1},
    {"swiglu", swiglu, swiglu_back, S2(3, 4), {S2(3, 4), S2(3, 4)}, 2},
    {"divergence", divergence, divergence_back, S0, {S2(4, 3), S2(4, 3)}, 2},
    {"layer", layer, layer_back, S2(3, 3), {S2(3, 4), S2(4, 3)}, 2},
    {"scattered_mean", scattered_mean, scattered_mean_back, S2(3, 2), {S2(6, 2)}, 1},
};
enum { OPS = sizeof ops / sizeof *ops };

/* ---- which diagnosis fits which kind of mutation ---- */

#define IS(mistake) (1ull << CT_MISTAKE_##mistake)
/* A mistake of the formula, in any way that the numbers show it. */
#define FORMULAS                                                                                   \
    (IS(FORMULA) | IS(TERM) | IS(CHAIN) | IS(ROWS) | IS(FACTOR) | IS(PRODUCT_RULE) |               \
     IS(FORWARD_VALUE) | IS(RESIDUAL) | IS(SIGN) | IS(OPERAND) | IS(SCALE))
static const struct {
    const char *kind;
    uint64_t fits;
} kinds[] = {
    {"sign", FORMULAS | IS(TRANSPOSED) | IS(THRESHOLD)},
    {"factor", FORMULAS},
    {"constant", FORMULAS | IS(THRESHOLD)},
    {"formula", FORMULAS},
    {"term", FORMULAS | IS(SUM) | IS(ZERO) | IS(THRESHOLD)},
    {"chain", FORMULAS},
    {"product", FORMULAS},
    {"value", FORMULAS | IS(EXCHANGED)},
    {"operand", FORMULAS | IS(EXCHANGED)},
    {"residual", IS(RESIDUAL) | IS(TERM)},
    {"cotangent", IS(COTANGENT) | IS(UNIFORM) | IS(CHAIN) | IS(SUM)},
    {"rounding", IS(ROUNDING)},
    {"threshold", IS(THRESHOLD) | IS(CHAIN) | IS(FORMULA) | IS(ZERO) | IS(MASK)},
    {"rows", IS(ROWS) | IS(CHAIN)},
    {"zero", IS(ZERO)},
    {"index", IS(PERMUTED) | IS(TRANSPOSED) | IS(SUM) | IS(OPERAND) | IS(EDGES) | IS(TERM) |
                  IS(MASK) | IS(REVERSED) | IS(ASSIGNED) | IS(ROWS)},
    {"bounds", IS(EDGES) | IS(SUM) | IS(RESIDUAL) | IS(ASSIGNED) | IS(MASK)},
    {"sum", IS(SUM) | IS(ASSIGNED) | IS(TERM) | IS(EDGES)},
    {"exchanged", IS(EXCHANGED) | IS(CHAIN) | IS(OPERAND) | IS(SIGN)},
    {"transposed", IS(TRANSPOSED) | IS(PERMUTED) | IS(OPERAND) | IS(REVERSED)},
    {"reversed", IS(REVERSED) | IS(PERMUTED)},
    {"mask", IS(MASK) | IS(SUM) | IS(FORMULA) | IS(EDGES)},
};

static bool fits(const char *mutation, ct_mistake mistake) {
    const size_t length = strcspn(mutation, ":");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strlen(kinds[k].kind) == length && !strncmp(kinds[k].kind, mutation, length))
            return kinds[k].fits >> mistake & 1;
    ck_abort_msg("no such kind: %s", mutation);
    return false;
}

static bool is_held_out(const char *op, const char *mutation) {
    uint64_t hash = 1469598103934665603u;
    for (const char *c = op; *c; c++) hash = (hash ^ (uint64_t)*c) * 1099511628211u;
    for (const char *c = mutation; *c; c++) hash = (hash ^ (uint64_t)*c) * 1099511628211u;
    return (hash >> 32) % 3 == 0;
}

/* A derivative that is a function of the output only is the same for every x. */
static bool is_equivalent(const char *op, const char *mutation) {
    return !strcmp(mutation, "value: y for x") &&
           (!strcmp(op, "tangent") || !strcmp(op, "sigmoid") || !strcmp(op, "exponential"));
}

/* ---- the test ---- */

typedef struct {
    int all, caught, named, fit;
} tally;

static ct_gradcheck_result check(const mutant_op *op, int mutation) {
    ct_tensor *in[3];
    ct_seed(context, 7);
    for (int i = 0; i < op->inputs; i++) in[i] = ct_randn(context, CT_F64, op->in[i]);
    chosen = mutation;
    ct_gradcheck_result r = ct_gradcheck(apply, (void *)op, in, op->inputs, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ran, "%s: %s", op->name, ct_error_message(context));
    return r;
}

static void count(tally *t, const mutant_op *op, const char *mutation, const ct_gradcheck_result *r,
                  bool held) {
    const char *show = getenv("MUTANTS");
    const bool caught = r->verdict == CT_VERDICT_WRONG,
               named = caught && r->mistake != CT_MISTAKE_UNKNOWN,
               fit = named && fits(mutation, r->mistake);
    t->all++, t->caught += caught, t->named += named, t->fit += fit;
    if (show && (!held || !strcmp(show, "held")))
        printf("%s %s | %s | %s: %s\n",
               fit      ? "     "
               : named  ? "UNFIT"
               : caught ? "UNNAM"
                        : "LOST ",
               op->name, mutation, ct_mistake_name(r->mistake), r->diagnosis);
}

START_TEST(mutations_are_caught_and_named) {
    tally total[2] = {{0}};
    for (int o = 0; o < OPS; o++) {
        met_count = 0;
        const ct_gradcheck_result right = check(&ops[o], -1);
        ck_assert_msg(right.verdict == CT_VERDICT_OK, "%s: %s", ops[o].name, right.diagnosis);
        for (int q = 0; q < met_count; q++) {
            if (is_equivalent(ops[o].name, met[q])) continue;
            const bool held = is_held_out(ops[o].name, met[q]);
            const ct_gradcheck_result r = check(&ops[o], q);
            count(&total[held], &ops[o], met[q], &r, held);
        }
    }
    for (int held = 0; held < 2; held++) {
        const tally *t = &total[held];
        printf("%s: %d mutations, %d caught, %d named (%.1f %%), %d by a family that fits "
               "(%.1f %%)\n",
               held ? "held out" : "seen", t->all, t->caught, t->named, 100. * t->named / t->all,
               t->fit, 100. * t->fit / t->all);
    }
    fflush(stdout);
    const int all = total[0].all + total[1].all;
    ck_assert_int_gt(all, 250);
    ck_assert_int_eq(total[0].caught + total[1].caught, all);
    ck_assert_int_ge(10 * (total[0].fit + total[1].fit), 9 * all);
}
END_TEST

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 7, .threads = 2}); }
static void teardown(void) { ct_context_free(context); }

int main(void) {
    return run_tests("gradcheck_mutants", setup, teardown,
                     TESTS(TEST(mutations_are_caught_and_named)));
}
