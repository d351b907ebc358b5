/* Debug mode names the op whose backward made the first NaN, also if that backward calls other
 * ops. All lines of ops.def on hostile numbers, and ops of one's own. */
#include "src/autograd/tape.h"

#define ONE_CONTEXT_DEBUG true
#include "tests/support/cases.h"
#include "tests/support/one_context.h"
#include <math.h>

/* ---- all ops ---- */

/* Numbers that a derivative may turn into NaN. In the first three ways they are finite. */
typedef enum { ZEROS, SOME_ZEROS, HUGE_ONES, WAYS } way;
typedef enum { NORMAL, INFINITE, HUGE_COTANGENT, COTANGENTS } cotangent_kind;

static void put(ct_tensor *t, int64_t i, double value) {
    if (ct_dtype_of(t) == CT_F32) ct_data_f32(t)[i] = (float)value;
    else ct_data_f64(t)[i] = value;
}

static void make_hostile(ct_tensor *t, way how, ct_dtype dtype) {
    const double huge = dtype == CT_F32 ? 1e38 : 1e307;
    if (ct_dtype_of(t) != dtype) return;
    for (int64_t i = 0; i < ct_numel(t); i++) {
        if (how == ZEROS || (how == SOME_ZEROS && i % 2)) put(t, i, 0);
        if (how == HUGE_ONES) put(t, i, i % 3 == 1 ? -huge : huge);
    }
}

static bool has_nan(ct_tensor *t) {
    return t && ct_numel(t) && ct_item(ct_any(ct_isnan(ct_detach(t)), CT_ALL, false)) != 0;
}

typedef struct {
    const case_line *line;
    int variant;
    way how;
    cotangent_kind from;
    ct_dtype dtype;
    bool debug, recompute;
} try;

typedef struct {
    bool ran;         /* forward succeeded, from inputs and to a result without a NaN */
    bool nan;         /* a gradient has one */
    ct_status status; /* the error of backward */
    char message[200];
    char names[400]; /* names of the ops on the tape: " mul sum " */
} outcome;

static ct_tensor *run_case(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    for (int i = 0; i < n; i++)
        if (in[i]) return case_run(ct_context_of(in[i]), arg, in);
    return NULL;
}

static void collect_names(const ct_context *c, outcome *o) {
    strcpy(o->names, " ");
    for (const cti_node *node = c->tape_first; node; node = node->next) {
        strncat(o->names, node->call.op->name, 40);
        strcat(o->names, " ");
        ck_assert_uint_lt(strlen(o->names), sizeof o->names - 50);
    }
}

static outcome run_try(const try *t) {
    outcome o = {0};
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = t->debug});
    case_input input[CASE_INPUTS];
    ct_tensor *in[CASE_INPUTS] = {0};
    const int n = case_inputs(t->line, t->variant, 1, input);
    case_build(c, input, n, (case_build_opts){.dtype = t->dtype, .seed = 3}, in);
    for (int i = 0; i < n; i++)
        if (in[i]) make_hostile(in[i], t->how, t->dtype);
    ct_tensor *y =
        t->recompute ? ct_recompute(run_case, (void *)t->line, in, n) : case_run(c, t->line, in);
    ct_tensor *g = y && ct_requires_grad(y) ? case_cotangent(y, 3, false) : NULL;
    o.ran = g && !has_nan(y) && !ct_error(c);
    if (o.ran) {
        collect_names(c, &o);
        for (int64_t i = 0; i < ct_numel(g) && t->from != NORMAL; i += 2)
            put(g, i, t->from == INFINITE ? INFINITY : t->dtype == CT_F32 ? 3e38 : 1e308);
        ct_backward_with(&y, &g, 1, (ct_backward_opts){0});
        o.status = ct_error(c);
        snprintf(o.message, sizeof o.message, "%s", ct_error_message(c));
        for (int i = 0; i < n && !o.status; i++)
            o.nan |= in[i] && ct_requires_grad(in[i]) && has_nan(ct_grad(in[i]));
    }
    ct_context_free(c);
    return o;
}

/* The message begins with an op that is on the tape, whose backward it names. */
static void names_an_op(const try *t, const outcome *o, const char *names) {
    const char *end = strstr(o->message, ": backward made the first NaN");
    char name[50];
    ck_assert_msg(o->status == CT_ERR_GRAD && end, "%s: %s", t->line->call, o->message);
    snprintf(name, sizeof name, " %.*s ", (int)(end - o->message), o->message);
    ck_assert_msg(strstr(names, name), "%s: %s, of%s", t->line->call, o->message, names);
}

START_TEST(each_op) {
    try t = {.line = case_at(_i)};
    for (t.variant = 0; t.variant < case_variants(t.line); t.variant++)
        for (int k = 0; k < WAYS * COTANGENTS * 2; k++) {
            t.how = (way)(k % WAYS), t.from = (cotangent_kind)(k / WAYS % COTANGENTS);
            t.dtype = k / WAYS / COTANGENTS ? CT_F64 : CT_F32;
            t.debug = t.recompute = false;
            const outcome plain = run_try(&t);
            t.debug = true;
            const outcome debug = run_try(&t);
            if (!plain.ran || !debug.ran) continue;
            ck_assert_msg(!plain.nan || debug.status, "%s: a NaN, and no error", t.line->call);
            if (!debug.status) continue;
            names_an_op(&t, &debug, plain.names);
            t.recompute = true;
            const outcome again = run_try(&t);
            ck_assert_str_eq(again.message, debug.message);
        }
}
END_TEST

/* ---- named ones ---- */

static ct_tensor *own_forward(ct_call *c) { return ct_scale(c->in[0], 2); }
static bool own_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *zero = ct_sub(c->in[0], c->in[0]);
    return (grad[0] = ct_mul(g[0], ct_div(zero, zero))) != NULL;
}
static const ct_op own_op = {.name = "own", .forward = own_forward, .backward = own_backward};

/* A NaN on the way that does not reach the result is no error. */
static ct_tensor *careful_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *root = ct_sqrt(x);
    return ct_where(ct_isnan(root), ct_scale(x, 0), root);
}
static bool careful_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *slope = ct_div(g[0], ct_sqrt(c->in[0]));
    return (grad[0] = ct_where(ct_isnan(slope), ct_detach(c->in[0]), slope)) != NULL;
}
static const ct_op careful_op = {
    .name = "careful", .forward = careful_forward, .backward = careful_backward};

static ct_tensor *run_own(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ct_exp(ct_apply(arg, in, 1, NULL));
}

START_TEST(ops_of_ones_own) {
    for (int recompute = 0; recompute < 2; recompute++) {
        ct_tensor *x = ct_set_requires_grad(ct_full(context, CT_F32, CT_SHAPE(2, 3), -1), true);
        ct_tensor *y = recompute ? ct_recompute(run_own, (void *)&own_op, &x, 1)
                                 : run_own(&x, 1, (void *)&own_op);
        ck_refused(ct_backward(ct_sum(y, CT_ALL, false)), CT_ERR_GRAD,
                   "own: backward made the first NaN: element (0, 0)",
                   "gradient of input 0 (2, 3)");
        y = recompute ? ct_recompute(run_own, (void *)&careful_op, &x, 1)
                      : run_own(&x, 1, (void *)&careful_op);
        ck_assert(ct_backward(ct_sum(y, CT_ALL, false)));
        no_error();
    }
}
END_TEST

static ct_tensor *nan_forward(ct_call *c) { return ct_sqrt(ct_neg(ct_exp(c->in[0]))); }
static const ct_op nan_op = {.name = "nan_op", .forward = nan_forward};
static ct_tensor *norm_of(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_sqrt(ct_sum(ct_mul(in[0], in[0]), CT_ALL, false));
}

START_TEST(named_ones) {
    ct_tensor *x = ct_set_requires_grad(ct_zeros(context, CT_F64, CT_SHAPE(3)), true);
    ck_refused(ct_backward(norm_of(&x, 1, NULL)), CT_ERR_GRAD, "mul: backward made the first NaN",
               "input 0 (3)");
    ck_assert(ct_zero_grad(x) && !ct_backward(ct_recompute(norm_of, NULL, &x, 1)));
    expect(CT_ERR_GRAD, "mul: backward made the first NaN", "input 0 (3)");
    ct_zero_grad(x);
    ct_tensor *one = ct_set_requires_grad(ct_ones(context, CT_F64, CT_SHAPE(3)), true),
              *y = ct_div(x, one), *g = ct_full(context, CT_F64, CT_SHAPE(3), (double)INFINITY);
    ck_refused(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), CT_ERR_GRAD,
               "div: backward made the first NaN", "input 1 (3)");
    /* a NaN that was given is known in a second run too */
    ct_tensor *given = ct_full(context, CT_F64, CT_SHAPE(3), (double)NAN);
    ck_assert(ct_backward(
        ct_recompute(norm_of, NULL, (ct_tensor *[]){ct_set_requires_grad(given, true)}, 1)));
    no_error();
    /* forward: the op that the program called, not one that it calls */
    ck_refused(ct_apply(&nan_op, &one, 1, NULL), CT_ERR_ARGUMENT,
               "nan_op: forward made the first NaN", "");
}
END_TEST

/* Infinities and NaN that a mask hides make NaN inside attention, in scores and in the product with
 * the values, but none in its results and gradients. Without the mask, debug mode finds the NaN
 * that the infinities make. */
START_TEST(attention_hides_infinities) {
    const bool infinite = _i / 16 % 2;
    const int64_t t = (int64_t[]){1, 2, 9, 150}[_i % 4], s = t + 3;
    ct_tensor *x[3], *last = ct_eq_scalar(ct_arange(context, CT_I64, 0, (double)s, 1), t + 2.);
    for (int i = 0; i < 3; i++) {
        const int64_t d = i == 2 && _i % 3 == 0 ? 1 : 4; /* a product of one infinity is no NaN */
        x[i] = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(1, 2, i ? s : t, d)), true);
        double *data = ct_data_f64(x[i]);
        for (int64_t h = 1; i && h < 3; h++)
            for (int64_t e = 1; e <= d; e++)
                data[h * s * d - e] = !infinite ? (double)NAN
                                      : e % 2   ? (double)INFINITY
                                                : -(double)INFINITY;
    }
    ct_attention_opts o = {.need_weights = _i / 32, .softcap = _i / 8 % 2 ? 5 : 0};
    if (_i / 4 % 2) o.mask = ct_logical_not(last);
    else
        o.bias = ct_where(last, ct_full(context, CT_F64, CT_SCALAR, -(double)INFINITY),
                          ct_zeros(context, CT_F64, CT_SCALAR));
    ct_attention_out y = ct_attention(x[0], x[1], x[2], o);
    no_error();
    ck_assert(!has_nan(y.out) && !has_nan(y.weights));
    ct_tensor *roots[2] = {y.out, y.weights}, *g[2];
    const int n = y.weights ? 2 : 1;
    for (int i = 0; i < n; i++) g[i] = ct_randn(context, CT_F64, ct_shape_of(roots[i]));
    ck_assert(ct_backward_with(roots, g, n, (ct_backward_opts){0}));
    for (int i = 0; i < 3; i++) ck_assert(!has_nan(ct_grad(x[i])));
    o.mask = o.bias = NULL;
    if (!infinite) return;
    ck_assert(!ct_attention(x[0], x[1], x[2], o).out);
    expect(CT_ERR_ARGUMENT, "attention: forward made the first NaN", "from inputs without one");
}
END_TEST

int main(void) {
    return run_cases("debug, nan",
                     CASES({.name = "ops", .tests = TESTS(LOOP(each_op, case_count()))},
                           {.name = "named",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(ops_of_ones_own), TEST(named_ones),
                                           LOOP(attention_hides_infinities, 64))}));
}
