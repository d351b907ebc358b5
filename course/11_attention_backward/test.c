/* attention_backward, a step at a time. Each step is compared with differences of what that step
 * goes back through, given the student's own results of the steps before it: a mistake costs the
 * points of its own step only. */
#include "../course.h"
#include "beside.h"
#include "exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the steps ---- */

enum {
    DW_OUT,
    DB_OUT,
    DO,
    DO_HEADS,
    DV,
    DP,
    D,
    DS,
    DQ,
    DK,
    DQKV,
    DW_IN,
    DB_IN,
    DX_PATHS,
    DX,
    STEPS
};
static const char *const names[STEPS] = {"dW_out", "db_out", "dO",    "dO_heads", "dv",
                                         "dP",     "D",      "dS",    "dq",       "dk",
                                         "dqkv",   "dW_in",  "db_in", "dx_paths", "dx"};
/* the steps that a step reads, as bits */
#define BIT(step) (1u << (step))
static const unsigned reads[STEPS] = {
    [DO_HEADS] = BIT(DO),    [DV] = BIT(DO_HEADS),
    [DP] = BIT(DO_HEADS),    [D] = BIT(DP),
    [DS] = BIT(DP) | BIT(D), [DQ] = BIT(DS),
    [DK] = BIT(DS),          [DQKV] = BIT(DQ) | BIT(DK) | BIT(DV),
    [DW_IN] = BIT(DQKV),     [DB_IN] = BIT(DQKV),
    [DX_PATHS] = BIT(DQKV),  [DX] = BIT(DX_PATHS),
};

typedef struct {
    ct_context *context;
    const char *what;
    int64_t b, t, e, h;
    ct_tensor *x, *w_in, *b_in, *w_out, *b_out, *q, *k, *v, *P, *O, *dy;
    ct_tensor *right[STEPS]; /* the right result of each step */
    ct_tensor *yours[STEPS];
    char beside[STEPS][160]; /* what it has written out of bounds */
} problem;

static ct_shape shape_of(const problem *p, int step) {
    const int64_t b = p->b, t = p->t, e = p->e, h = p->h, d = e / h;
    switch (step) {
    case DW_OUT: return CT_SHAPE(e, e);
    case DB_OUT: return CT_SHAPE(e);
    case DO:
    case DX: return CT_SHAPE(b, t, e);
    case DP:
    case DS: return CT_SHAPE(b, h, t, t);
    case D: return CT_SHAPE(b, h, t);
    case DQKV: return CT_SHAPE(b, t, 3 * e);
    case DW_IN: return CT_SHAPE(3 * e, e);
    case DB_IN: return CT_SHAPE(3 * e);
    case DX_PATHS: return CT_SHAPE(3, b, t, e);
    default: return CT_SHAPE(b, h, t, d);
    }
}

static double scale_of(const problem *p) { return 1 / sqrt((double)p->e / (double)p->h); }
static ct_tensor *scores(const problem *p, ct_tensor *q, ct_tensor *k) {
    return ref_scale(ref_matmul(q, ct_transpose(k, -1, -2)), scale_of(p));
}
static ct_tensor *part_of(const problem *p, ct_tensor *qkv, int part) {
    return ct_narrow(qkv, -1, part * p->e, p->e);
}

/* The content of an array before a step writes to it: a NaN with a payload of its own, which
 * arithmetic passes on. So a number that was never written, or was computed from one, differs from
 * a NaN that is 0 / 0. */
static uint64_t unwritten(int step) { return 0x7ff8c0de00000000u + (uint64_t)step; }

/* Returns the step that should have written this number, or a number from which it was computed;
 * -1 if no number is missing. */
static int step_of_unwritten(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & ~((uint64_t)1 << 63)) - unwritten(0); /* a sign may have changed */
    return bits < STEPS ? (int)bits : -1;
}

static ct_tensor *unwritten_array(ct_context *context, ct_shape shape, int step) {
    ct_tensor *array = ct_zeros(context, CT_F64, shape);
    const uint64_t bits = unwritten(step);
    for (int64_t i = 0; array && i < ct_numel(array); i++)
        memcpy(ct_data_f64(array) + i, &bits, sizeof bits);
    return array;
}

/* ---- the right results ---- */

/* What a step goes back through: functions of one input, and of constants. Each is linear in that
 * input, so differences of it are exact but for rounding. */
typedef struct {
    const problem *p;
    ct_tensor *constant;
    int part;
} backed;

static ct_tensor *linear_by_weight(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ref_linear(((backed *)arg)->constant, in[0], NULL);
}
static ct_tensor *linear_by_input(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ref_linear(in[0], ((backed *)arg)->constant, NULL);
}
/* a bias, added to each row of a result of this shape */
static ct_tensor *bias_added(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ref_expand(in[0], ct_shape_of(((backed *)arg)->constant));
}
static ct_tensor *combined(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ref_combine_heads(in[0]);
}
static ct_tensor *weighted_values(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ref_matmul(((backed *)arg)->constant, in[0]);
}
static ct_tensor *values_weighted(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ref_matmul(in[0], ((backed *)arg)->constant);
}
static ct_tensor *scores_of_queries(ct_tensor *const *in, int n, void *arg) {
    const backed *f = arg;
    return (void)n, scores(f->p, in[0], f->constant);
}
static ct_tensor *scores_of_keys(ct_tensor *const *in, int n, void *arg) {
    const backed *f = arg;
    return (void)n, scores(f->p, f->constant, in[0]);
}
static ct_tensor *heads_of_part(ct_tensor *const *in, int n, void *arg) {
    const backed *f = arg;
    return (void)n, ref_split_heads(part_of(f->p, in[0], f->part), f->p->h);
}

/* The gradient of f(in, constant) with respect to `in` when it gets `cotangent`. */
static ct_tensor *back(const problem *p, ct_fn f, ct_tensor *in, ct_tensor *constant,
                       ct_tensor *cotangent) {
    return course_derivative(f, &(backed){p, constant, 0}, &in, 1, 0, cotangent, 1);
}

/* The right result of a step, computed from the student's results of the steps before it. */
static ct_tensor *step_given(const problem *p, int step, ct_tensor *const *before) {
    ct_tensor *parts[3];
    switch (step) {
    case DW_OUT: return back(p, linear_by_weight, p->w_out, p->O, p->dy);
    case DB_OUT: return back(p, bias_added, p->b_out, p->dy, p->dy);
    case DO: return back(p, linear_by_input, p->O, p->w_out, p->dy);
    case DO_HEADS: return back(p, combined, p->q, NULL, before[DO]);
    case DV: return back(p, weighted_values, p->v, p->P, before[DO_HEADS]);
    case DP: return back(p, values_weighted, p->P, p->v, before[DO_HEADS]);
    case D: return ref_sum(ref_mul(p->P, before[DP]), CT_DIMS(-1), false);
    case DS: return ref_mul(p->P, ref_sub(before[DP], ct_unsqueeze(before[D], -1)));
    case DQ: return back(p, scores_of_queries, p->q, p->k, before[DS]);
    case DK: return back(p, scores_of_keys, p->k, p->q, before[DS]);
    case DQKV: {
        static const int steps[] = {DQ, DK, DV};
        ct_tensor *qkv = ct_zeros(p->context, CT_F64, CT_SHAPE(p->b, p->t, 3 * p->e)), *sum = qkv;
        for (int i = 0; i < 3; i++) {
            backed f = {p, NULL, i};
            sum =
                ref_add(sum, course_derivative(heads_of_part, &f, &qkv, 1, 0, before[steps[i]], 1));
        }
        return sum;
    }
    case DW_IN: return back(p, linear_by_weight, p->w_in, p->x, before[DQKV]);
    case DB_IN: return back(p, bias_added, p->b_in, before[DQKV], before[DQKV]);
    case DX_PATHS:
        for (int i = 0; i < 3; i++)
            parts[i] = back(p, linear_by_input, p->x, ct_narrow(p->w_in, 0, i * p->e, p->e),
                            part_of(p, before[DQKV], i));
        return ref_stack(parts, 3, 0);
    default: return ref_sum(before[DX_PATHS], CT_DIMS(0), false);
    }
}

/* Multi-head attention whole: in[] are x, w_in, b_in, w_out and b_out. */
typedef struct {
    const problem *p;
    bool causal;
} whole_attention;

static ct_tensor *attention_whole(ct_tensor *const *in, int n, void *arg) {
    const whole_attention *f = arg;
    ct_tensor *qkv = ref_linear(in[0], in[1], in[2]), *part[3];
    (void)n;
    for (int i = 0; i < 3; i++) part[i] = ref_split_heads(part_of(f->p, qkv, i), f->p->h);
    ct_tensor *seen = f->causal ? ref_causal_mask(f->p->context, f->p->t, f->p->t) : NULL;
    ct_tensor *P = ref_masked_softmax(scores(f->p, part[0], part[1]), seen, -1);
    return ref_linear(ref_combine_heads(ref_matmul(P, part[2])), in[3], in[4]);
}

/* ---- problems ---- */

/* Forward; then every step as it must be, and yours. */
static void solve(problem *p, bool causal) {
    ct_tensor *qkv = ref_linear(p->x, p->w_in, p->b_in);
    p->q = ref_split_heads(part_of(p, qkv, 0), p->h);
    p->k = ref_split_heads(part_of(p, qkv, 1), p->h);
    p->v = ref_split_heads(part_of(p, qkv, 2), p->h);
    p->P = ref_masked_softmax(scores(p, p->q, p->k),
                              causal ? ref_causal_mask(p->context, p->t, p->t) : NULL, -1);
    p->O = ref_combine_heads(ref_matmul(p->P, p->v));
    for (int i = 0; i < STEPS; i++) p->right[i] = step_given(p, i, p->right);
    ct_tensor *in[] = {p->x, p->w_in, p->q, p->k, p->v, p->P, p->O, p->w_out, p->dy};
    double *array[9];
    for (int i = 0; i < 9; i++) {
        const int64_t n = ct_numel(in[i]);
        array[i] = malloc((size_t)n * sizeof *array[i]);
        if (!ct_to_f64(in[i], array[i], n)) course_fail("%s", ct_error_message(p->context));
    }
    double *out[STEPS];
    for (int i = 0; i < STEPS; i++) {
        p->yours[i] = unwritten_array(p->context, shape_of(p, i), i);
        out[i] = ct_data_f64(p->yours[i]);
    }
    if (ct_error(p->context))
        course_fail("the test could not make its tensors: %s", ct_error_message(p->context));
    const attention_values values = {.batch = p->b,
                                     .tokens = p->t,
                                     .width = p->e,
                                     .heads = p->h,
                                     .x = array[0],
                                     .w_in = array[1],
                                     .q = array[2],
                                     .k = array[3],
                                     .v = array[4],
                                     .P = array[5],
                                     .O = array[6],
                                     .w_out = array[7],
                                     .dy = array[8]};
    const attention_gradients gradients = {.dW_out = out[DW_OUT],
                                           .db_out = out[DB_OUT],
                                           .dO = out[DO],
                                           .dO_heads = out[DO_HEADS],
                                           .dv = out[DV],
                                           .dP = out[DP],
                                           .D = out[D],
                                           .dS = out[DS],
                                           .dq = out[DQ],
                                           .dk = out[DK],
                                           .dqkv = out[DQKV],
                                           .dW_in = out[DW_IN],
                                           .db_in = out[DB_IN],
                                           .dx_paths = out[DX_PATHS],
                                           .dx = out[DX]};
    attention_backward(&values, &gradients);
    memcpy(p->beside, written_beside, sizeof p->beside);
    for (int i = 0; i < 9; i++) free(array[i]);
}

static problem random_problem(ct_context *context, const char *what, int64_t b, int64_t t,
                              int64_t e, int64_t h, bool causal) {
    problem p = {.context = context, .what = what, .b = b, .t = t, .e = e, .h = h};
    p.x = course_randn(context, CT_SHAPE(b, t, e));
    p.w_in = course_randn(context, CT_SHAPE(3 * e, e));
    p.b_in = course_randn(context, CT_SHAPE(3 * e));
    p.w_out = course_randn(context, CT_SHAPE(e, e));
    p.b_out = course_randn(context, CT_SHAPE(e));
    p.dy = course_randn(context, CT_SHAPE(b, t, e));
    solve(&p, causal);
    return p;
}

/* The example of README.md: B = E = H = 1, T = 2. */
static problem example(ct_context *context) {
    problem p = {
        .context = context, .what = "the statement's example", .b = 1, .t = 2, .e = 1, .h = 1};
    p.x = course_f64(context, CT_SHAPE(1, 2, 1), (double[]){1, 2});
    p.w_in = course_f64(context, CT_SHAPE(3, 1), (double[]){log(3), 1, 4});
    p.b_in = course_f64(context, CT_SHAPE(3), (double[]){0, 0, 0});
    p.w_out = course_f64(context, CT_SHAPE(1, 1), (double[]){2});
    p.b_out = course_f64(context, CT_SHAPE(1), (double[]){0});
    p.dy = course_f64(context, CT_SHAPE(1, 2, 1), (double[]){1, 5});
    solve(&p, false);
    return p;
}

/* ---- what is said ---- */

/* The counts of a step's numbers that were never written, and that are NaN because they were
 * computed from unwritten numbers of other steps; `from` is one of these steps. */
typedef struct {
    int64_t left, derived;
    int from;
} gaps;

static gaps gaps_of(const problem *p, int step) {
    gaps g = {0, 0, -1};
    const double *values = ct_data_f64(p->yours[step]);
    for (int64_t i = 0; i < ct_numel(p->yours[step]); i++) {
        const int of = step_of_unwritten(values[i]);
        if (of == step) g.left++;
        else if (of >= 0) g.derived++, g.from = of;
    }
    return g;
}

/* Whether the step has written any number. */
static bool is_there(const problem *p, int step) {
    return gaps_of(p, step).left < ct_numel(p->yours[step]);
}
static bool has_nan(const problem *p, int step) {
    const double *values = ct_data_f64(p->yours[step]);
    for (int64_t i = 0; i < ct_numel(p->yours[step]); i++)
        if (isnan(values[i])) return true;
    return false;
}
/* Which of the steps that this one reads have a NaN: a bit for each. */
static unsigned nan_before(const problem *p, int step) {
    unsigned found = 0;
    for (int i = 0; i < step; i++)
        if ((reads[step] & BIT(i)) && has_nan(p, i)) found |= BIT(i);
    return found;
}

static bool equal(ct_tensor *a, ct_tensor *b) {
    if (!a || !b || ct_numel(a) != ct_numel(b)) return false;
    const double *x = ct_data_f64(a), *y = ct_data_f64(b);
    for (int64_t i = 0; i < ct_numel(a); i++)
        if (!(fabs(x[i] - y[i]) <= 1e-10 * fmax(1, fabs(y[i])))) return false;
    return true;
}

/* Which earlier steps are wrong, of those whose results this step reads: a bit for each. */
static unsigned wrong_before(const problem *p, int step) {
    unsigned wrong = 0;
    for (int i = 0; i < step; i++)
        if ((reads[step] & BIT(i)) && !equal(p->yours[i], p->right[i])) wrong |= BIT(i);
    return wrong;
}

/* The result that a step must have: the right one, or the right one given the student's earlier
 * results. If one of these has a NaN, only the right one counts. */
static ct_tensor *wanted(const problem *p, int step) {
    if (equal(p->yours[step], p->right[step]) || nan_before(p, step)) return p->right[step];
    return step_given(p, step, p->yours);
}

static const char *list_of(unsigned steps, char text[160]) {
    int at = 0;
    *text = 0;
    for (int i = 0; i < STEPS; i++)
        if (steps & BIT(i))
            at += snprintf(text + at, 160 - (size_t)at, "%s%s", at ? ", " : "", names[i]);
    return text;
}

/* Sets a hint if a step has left numbers unwritten, or has NaN because an earlier step has left
 * numbers unwritten. course_value describes all other mistakes. */
static void hint(const problem *p, int step) {
    const gaps g = gaps_of(p, step);
    char text[160];
    course_hint("%s", "");
    if (g.left)
        course_hint("not written: %lld of the %lld numbers of %s", (long long)g.left,
                    (long long)ct_numel(p->yours[step]), names[step]);
    else if (g.derived)
        course_hint("computed from what was not written: %s is read before it is written, or never "
                    "written, and %s is NaN of it",
                    names[g.from], names[step]);
    else if (has_nan(p, step) && nan_before(p, step))
        course_hint("NaN of a step before: %s reads %s", names[step],
                    list_of(nan_before(p, step), text));
}

static void check_step(const problem *p, int step) {
    char text[160], what[320];
    if (!is_there(p, step))
        course_fail("not written yet: %s holds what it held before", names[step]);
    if (*p->beside[step]) course_fail("writes out of bounds: %s", p->beside[step]);
    ct_tensor *right = wanted(p, step);
    const unsigned before = nan_before(p, step) ? 0 : wrong_before(p, step);
    snprintf(what, sizeof what, "%s of %s%s%s%s", names[step], p->what,
             before ? ", given your own " : "", list_of(before, text),
             before ? " (wrong itself)" : "");
    hint(p, step);
    course_value(what, p->yours[step], right, 1e-10);
}

/* ---- tests ---- */

/* Checks these steps of the example and of random problems. The second problem has T = d, so that a
 * transposed result has the right shape. */
static void check(ct_context *context, unsigned steps) {
    problem problems[] = {
        example(context),
        random_problem(context, "B, T, E, H = 1, 3, 2, 1", 1, 3, 2, 1, false),
        random_problem(context, "B, T, E, H = 1, 3, 6, 2", 1, 3, 6, 2, false),
        random_problem(context, "B, T, E, H = 2, 4, 6, 3", 2, 4, 6, 3, false),
        random_problem(context, "B, T, E, H = 3, 1, 4, 4", 3, 1, 4, 4, false),
        random_problem(context, "B, T, E, H = 2, 5, 4, 2, causal", 2, 5, 4, 2, true)};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int step = 0; step < STEPS; step++)
            if (steps & BIT(step)) check_step(&problems[i], step);
}

static void out_projection(ct_context *context) {
    check(context, BIT(DW_OUT) | BIT(DB_OUT) | BIT(DO));
}
static void heads_back(ct_context *context) { check(context, BIT(DO_HEADS)); }
static void value_gradient(ct_context *context) { check(context, BIT(DV)); }
static void weights(ct_context *context) { check(context, BIT(DP)); }
static void softmax(ct_context *context) { check(context, BIT(D) | BIT(DS)); }
static void queries_keys(ct_context *context) { check(context, BIT(DQ) | BIT(DK)); }
static void packed(ct_context *context) { check(context, BIT(DQKV)); }
static void in_projection(ct_context *context) { check(context, BIT(DW_IN) | BIT(DB_IN)); }
static void three_paths(ct_context *context) { check(context, BIT(DX_PATHS) | BIT(DX)); }

/* Checks all steps at once against the right results. The message names the first wrong step, the
 * steps that are right given your earlier results, and the steps that are NaN only because earlier
 * steps are not written. */
static void check_all(const problem *p) {
    unsigned right = 0, wrong = 0, follow = 0, missing = 0, derived = 0;
    for (int i = 0; i < STEPS; i++) {
        if (*p->beside[i]) course_fail("writes out of bounds: %s", p->beside[i]);
        if (!is_there(p, i)) missing |= BIT(i);
        else if (equal(p->yours[i], p->right[i])) right |= BIT(i);
        else if (has_nan(p, i) && (nan_before(p, i) || gaps_of(p, i).derived)) derived |= BIT(i);
        else if (equal(p->yours[i], wanted(p, i))) follow |= BIT(i);
        else wrong |= BIT(i);
    }
    char text[4][160];
    if (missing)
        course_fail("not written yet: %s%s%s", list_of(missing, text[0]),
                    derived ? ". NaN because of that: " : "", list_of(derived, text[1]));
    if (wrong | follow | derived) {
        int first = 0;
        while (!((wrong | follow | derived) & BIT(first))) first++;
        hint(p, first);
        course_fail("the first wrong step is %s. Right: %s. Wrong: %s. Right given your own wrong "
                    "values before it: %s%s%s. Here %s",
                    names[first], right ? list_of(right, text[0]) : "none",
                    wrong ? list_of(wrong, text[1]) : "none",
                    follow ? list_of(follow, text[2]) : "none",
                    derived ? ". NaN because of them: " : "", list_of(derived, text[3]), p->what);
    }
}

/* Also against differences of the whole forward, which know nothing of the steps above. */
static void check_whole(ct_context *context, problem p, bool causal) {
    check_all(&p);
    (void)context;
    static const int steps[] = {DX, DW_IN, DB_IN, DW_OUT, DB_OUT};
    ct_tensor *in[] = {p.x, p.w_in, p.b_in, p.w_out, p.b_out};
    whole_attention f = {&p, causal};
    for (int i = 0; i < 5; i++) {
        char what[128];
        snprintf(what, sizeof what, "%s of %s, beside differences of the whole", names[steps[i]],
                 p.what);
        course_value(what, p.yours[steps[i]],
                     course_derivative(attention_whole, &f, in, 5, i, p.dy, 1e-4), 1e-9);
    }
}

static void whole(ct_context *context) {
    check_whole(context, random_problem(context, "B, T, E, H = 2, 5, 12, 3", 2, 5, 12, 3, false),
                false);
    check_whole(context,
                random_problem(context, "B, T, E, H = 2, 7, 8, 2, causal", 2, 7, 8, 2, true), true);
    /* the numbers that README.md prints */
    problem p = example(context);
    check_all(&p);
    const double ln3 = log(3);
    const struct {
        int step;
        double values[6];
    } printed[] = {
        {DW_OUT, {45}},
        {DB_OUT, {6}},
        {DO, {2, 10}},
        {DO_HEADS, {2, 10}},
        {DV, {1.5, 10.5}},
        {DP, {8, 16, 40, 80}},
        {D, {14, 76}},
        {DS, {-1.5, 1.5, -3.6, 3.6}},
        {DQ, {1.5, 3.6}},
        {DK, {-8.7 * ln3, 8.7 * ln3}},
        {DQKV, {1.5, -8.7 * ln3, 1.5, 3.6, 8.7 * ln3, 10.5}},
        {DW_IN, {8.7, 8.7 * ln3, 22.5}},
        {DB_IN, {5.1, 0, 12}},
        {DX_PATHS, {1.5 * ln3, 3.6 * ln3, -8.7 * ln3, 8.7 * ln3, 6, 42}},
        {DX, {6 - 7.2 * ln3, 42 + 12.3 * ln3}},
    };
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++)
        course_value(names[printed[i].step], p.yours[printed[i].step],
                     course_f64(context, shape_of(&p, printed[i].step), printed[i].values), 1e-12);
}

const course_test course_tests[] = {
    {"out_projection", 1, out_projection},
    {"heads_back", 1, heads_back},
    {"values", 1, value_gradient},
    {"weights", 1, weights},
    {"softmax", 1, softmax},
    {"queries_keys", 1, queries_keys},
    {"packed", 1, packed},
    {"in_projection", 1, in_projection},
    {"three_paths", 1, three_paths},
    {"whole", 1, whole},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
