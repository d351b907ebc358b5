/* lora, lora_init and lora_merge beside the formulas of README.md in scalar loops. */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

#include <math.h>
#include <string.h>

enum { X, WEIGHT, BIAS, A, B, INPUTS };
static const char *const names[INPUTS] = {"x", "weight", "bias", "a", "b"};

/* ---- the right values, and typical wrong ones ---- */

typedef struct {
    int64_t n, in, out, rank;
    double scale;
    const double *v[INPUTS]; /* v[BIAS]: NULL if there is none */
    const double *g;         /* the cotangent */
} layer;

typedef enum {
    RIGHT,
    NO_SCALE,
    SCALE_TWICE,
    SCALE_BY_RANK,
    ALL_SCALED,
    NO_BIAS,
    BIAS_SCALED,
    NO_BASE,
    NO_ADAPTER,
    A_OF_MEMORY,
    B_OF_MEMORY,
    LAST_RANK_LOST,
    FIRST_RANK_ALONE,
    FORWARDS
} mistake;
static const char *const looks_like[FORWARDS] = {
    [NO_SCALE] = "this is what comes out without the scale",
    [SCALE_TWICE] = "this is what comes out if the scale is there twice",
    [SCALE_BY_RANK] =
        "this is what comes out if the scale is divided by R: it is alpha / R already",
    [ALL_SCALED] = "this is what comes out if the scale is a factor of all: only of the adapter",
    [NO_BIAS] = "this is what comes out without the bias",
    [BIAS_SCALED] = "this is what comes out if the scale is a factor of the bias, too",
    [NO_BASE] = "this is what comes out without x weight^T",
    [NO_ADAPTER] = "this is what comes out without the adapter",
    [A_OF_MEMORY] = "this is what comes out if a is read as (I, R): it is (R, I)",
    [B_OF_MEMORY] = "this is what comes out if b is read as (R, O): it is (O, R)",
    [LAST_RANK_LOST] = "this is what comes out without the last row of a: the sum over R ends too "
                       "early",
    [FIRST_RANK_ALONE] = "this is what comes out with the first row of a alone",
};

/* Element (o, i) of b a, as a mistake has it. */
static double delta(const layer *l, mistake how, int64_t o, int64_t i) {
    double sum = 0;
    if (how == NO_ADAPTER) return 0;
    const int64_t ranks = how == LAST_RANK_LOST     ? l->rank - 1
                          : how == FIRST_RANK_ALONE ? 1
                                                    : l->rank;
    for (int64_t r = 0; r < ranks; r++)
        sum += l->v[B][how == B_OF_MEMORY ? r * l->out + o : o * l->rank + r] *
               l->v[A][how == A_OF_MEMORY ? i * l->rank + r : r * l->in + i];
    const double scale = how == NO_SCALE || how == ALL_SCALED ? 1
                         : how == SCALE_TWICE                 ? l->scale * l->scale
                         : how == SCALE_BY_RANK               ? l->scale / (double)l->rank
                                                              : l->scale;
    return scale * sum;
}

static void compute_forward(const layer *l, mistake how, double *y) {
    for (int64_t o = 0; o < l->out; o++)
        for (int64_t t = 0; t < l->n; t++) {
            double sum = l->v[BIAS] && how != NO_BIAS
                             ? l->v[BIAS][o] * (how == BIAS_SCALED ? l->scale : 1)
                             : 0;
            for (int64_t i = 0; i < l->in; i++)
                sum += l->v[X][t * l->in + i] *
                       ((how == NO_BASE ? 0 : l->v[WEIGHT][o * l->in + i]) + delta(l, how, o, i));
            y[t * l->out + o] = sum * (how == ALL_SCALED ? l->scale : 1);
        }
}

/* What a gradient may be by a mistake. */
typedef enum {
    G_RIGHT,
    G_NO_SCALE,
    G_SCALE_TWICE,
    G_SCALE_BY_RANK,
    G_BASE_ALONE,
    G_ADAPTER_ALONE,
    G_FIRST_ROW,
    G_MEAN,
    G_ZERO,
    GRADIENTS
} gradient_mistake;
static const char *const gradient_like[GRADIENTS] = {
    [G_NO_SCALE] = "without the scale",
    [G_SCALE_TWICE] = "with the scale twice",
    [G_SCALE_BY_RANK] = "with a scale that is divided by R",
    [G_BASE_ALONE] = "through weight alone: x goes through the adapter, too",
    [G_ADAPTER_ALONE] = "through the adapter alone: x goes through weight, too",
    [G_FIRST_ROW] = "of the first row of x alone: it is the sum over all",
    [G_MEAN] = "that is the mean over rows: it is the sum",
    [G_ZERO] = "that is 0 everywhere",
};

/* The gradient of input `which`: sums over rows t, outputs o and ranks r. */
static void compute_gradient(const layer *l, int which, gradient_mistake how, double *to) {
    const int64_t rows = how == G_FIRST_ROW ? 1 : l->n;
    const double scale = how == G_NO_SCALE        ? 1
                         : how == G_SCALE_TWICE   ? l->scale * l->scale
                         : how == G_SCALE_BY_RANK ? l->scale / (double)l->rank
                                                  : l->scale,
                 factor = how == G_ZERO   ? 0
                          : how == G_MEAN ? 1 / (double)l->n
                                          : 1;
    const int64_t sizes[INPUTS] = {l->n * l->in, l->out * l->in, l->out, l->rank * l->in,
                                   l->out * l->rank};
    memset(to, 0, (size_t)sizes[which] * sizeof *to);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t o = 0; o < l->out; o++) {
            const double g = factor * l->g[t * l->out + o];
            if (which == BIAS) to[o] += g;
            for (int64_t i = 0; i < l->in; i++) {
                const double x = l->v[X][t * l->in + i];
                if (which == WEIGHT) to[o * l->in + i] += g * x;
                if (which == X && how != G_ADAPTER_ALONE)
                    to[t * l->in + i] += g * l->v[WEIGHT][o * l->in + i];
                for (int64_t r = 0; r < l->rank; r++) {
                    const double a = l->v[A][r * l->in + i], b = l->v[B][o * l->rank + r];
                    if (which == A) to[r * l->in + i] += scale * g * b * x;
                    if (which == B) to[o * l->rank + r] += scale * g * a * x;
                    if (which == X && how != G_BASE_ALONE) to[t * l->in + i] += scale * g * b * a;
                }
            }
        }
}

/* ---- comparing ---- */

typedef struct {
    layer l;
    ct_tensor *in[INPUTS], *cotangent;
} problem;

static ct_shape shape_of(const layer *l, int i) {
    const ct_shape shapes[INPUTS] = {CT_SHAPE(l->n, l->in), CT_SHAPE(l->out, l->in),
                                     CT_SHAPE(l->out), CT_SHAPE(l->rank, l->in),
                                     CT_SHAPE(l->out, l->rank)};
    return shapes[i];
}

/* A layer of these sizes with numbers of the seed. */
static problem random_problem(ct_context *context, layer sizes, bool bias) {
    problem p = {.l = sizes};
    for (int i = 0; i < INPUTS; i++) {
        if (i == BIAS && !bias) continue;
        p.in[i] = course_randn(context, shape_of(&sizes, i));
        p.l.v[i] = ct_data_f64(p.in[i]);
    }
    p.cotangent = course_randn(context, CT_SHAPE(sizes.n, sizes.out));
    p.l.g = ct_data_f64(p.cotangent);
    return p;
}

static ct_tensor *yours(const problem *p, ct_tensor *const *in) {
    return ct_apply(&lora, in, INPUTS, &(lora_attrs){p->l.scale});
}

static void check_error(ct_context *context) {
    if (ct_error(context)) course_fail("%s", ct_error_message(context));
}

static double *room_for(int64_t n) {
    double *x = calloc((size_t)n + 1, sizeof *x);
    if (!x) course_fail("the test has no memory");
    return x;
}

static void compare_forward(ct_context *context, const char *what, const problem *p) {
    const int64_t n = p->l.n * p->l.out;
    const ct_shape shape = CT_SHAPE(p->l.n, p->l.out);
    double *y = room_for(n);
    ct_tensor *copy[INPUTS];
    for (int i = 0; i < INPUTS; i++) copy[i] = p->in[i] ? ct_scale(p->in[i], 1) : NULL;
    remote_allow_changes(true);
    ct_tensor *got = yours(p, copy);
    remote_allow_changes(false);
    check_error(context);
    for (int i = 0; i < INPUTS; i++)
        if (copy[i] && !course_same(copy[i], p->in[i], 0))
            course_fail("forward changes %s: only lora_merge may", names[i]);
    compute_forward(&p->l, RIGHT, y);
    ct_tensor *right = course_f64(context, shape, y);
    for (mistake how = RIGHT + 1; how < FORWARDS && !course_same(got, right, 1e-11); how++) {
        compute_forward(&p->l, how, y);
        if (!course_same(got, course_f64(context, shape, y), 1e-11)) continue;
        course_hint("%s", looks_like[how]);
        break;
    }
    course_value(what, got, right, 1e-11);
    free(y);
}

static void compare_gradient(ct_context *context, const problem *p, int which, ct_tensor *got,
                             const char *wanted) {
    const ct_shape shape = shape_of(&p->l, which);
    double *to = room_for(shape.dim[0] * (shape.ndim == 2 ? shape.dim[1] : 1));
    char what[160];
    snprintf(what, sizeof what, "the gradient of %s, where those of %s are wanted", names[which],
             wanted);
    compute_gradient(&p->l, which, G_RIGHT, to);
    ct_tensor *right = course_f64(context, shape, to);
    for (gradient_mistake how = G_RIGHT + 1; how < GRADIENTS && !course_same(got, right, 1e-11);
         how++) {
        compute_gradient(&p->l, which, how, to);
        if (!course_same(got, course_f64(context, shape, to), 1e-11)) continue;
        course_hint("%s has a gradient %s", names[which], gradient_like[how]);
        break;
    }
    course_value(what, got, right, 1e-11);
    free(to);
}

/* Compares the gradients of the inputs whose bits are set, when only those are wanted. */
static void compare_subset(ct_context *context, const problem *p, unsigned subset) {
    ct_tensor *in[INPUTS];
    char wanted[64] = "";
    ct_scope scope = ct_scope_open(context);
    for (int i = 0; i < INPUTS; i++) {
        in[i] = p->in[i];
        if (!(subset >> i & 1)) continue;
        in[i] = ct_set_requires_grad(ct_scale(p->in[i], 1), true);
        if (*wanted) strcat(wanted, ", ");
        strcat(wanted, names[i]);
    }
    ct_tensor *out = yours(p, in), *cotangent = p->cotangent;
    check_error(context);
    if (ct_ndim(out) != 2 || ct_dim(out, 0) != p->l.n || ct_dim(out, 1) != p->l.out)
        course_fail("the result must be (N, O)");
    ct_backward_with(&out, &cotangent, 1, (ct_backward_opts){false});
    check_error(context);
    for (int i = 0; i < INPUTS; i++)
        if (subset >> i & 1) compare_gradient(context, p, i, ct_grad(in[i]), wanted);
    ct_scope_close(scope);
}

/* ---- the tests ---- */

/* The example of README.md. */
static void by_hand(ct_context *context) {
    problem p = {.l = {.n = 1, .in = 2, .out = 2, .rank = 1, .scale = 2}};
    const double values[INPUTS][4] = {{1, 2}, {1, 0, 0, 1}, {10, 20}, {3, 1}, {1, -1}};
    for (int i = 0; i < INPUTS; i++) {
        p.in[i] = course_f64(context, shape_of(&p.l, i), values[i]);
        p.l.v[i] = ct_data_f64(p.in[i]);
    }
    p.cotangent = course_f64(context, CT_SHAPE(1, 2), (double[]){1, 0});
    p.l.g = ct_data_f64(p.cotangent);
    compare_forward(context, "the example", &p);
    course_value("the example", yours(&p, p.in),
                 course_f64(context, CT_SHAPE(1, 2), (double[]){21, 12}), 1e-14);
}

static void shapes(ct_context *context) {
    const layer sizes[] = {{3, 4, 5, 2, 0.7, {NULL}, NULL}, {1, 1, 1, 1, -1.5, {NULL}, NULL},
                           {4, 3, 3, 3, 2, {NULL}, NULL},   {2, 7, 1, 4, 0.25, {NULL}, NULL},
                           {5, 2, 6, 1, 3, {NULL}, NULL},   {0, 3, 2, 2, 1.5, {NULL}, NULL}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int bias = 1; bias >= 0; bias--) {
            char what[96];
            problem p = random_problem(context, sizes[i], bias);
            snprintf(what, sizeof what, "y of x (%lld, %lld), O %lld, R %lld%s",
                     (long long)sizes[i].n, (long long)sizes[i].in, (long long)sizes[i].out,
                     (long long)sizes[i].rank, bias ? "" : ", no bias");
            compare_forward(context, what, &p);
        }
}

enum { ALL = (1 << INPUTS) - 1, WITHOUT_BIAS = ALL - (1 << BIAS) };

static void gradient(ct_context *context) {
    const layer sizes[] = {{3, 4, 5, 2, 0.7, {NULL}, NULL}, {4, 3, 3, 3, 2, {NULL}, NULL}};
    for (int i = 0; i < 2; i++) {
        problem p = random_problem(context, sizes[i], true),
                q = random_problem(context, sizes[i], 0);
        compare_subset(context, &p, ALL), compare_subset(context, &q, WITHOUT_BIAS);
    }
}

static void subsets(ct_context *context) {
    const layer sizes = {3, 4, 5, 2, 1.7, {NULL}, NULL};
    problem p = random_problem(context, sizes, true), q = random_problem(context, sizes, false);
    unsigned set = 0;
    for (unsigned subset = 1; subset <= ALL; subset++) {
        compare_subset(context, &p, subset);
        if (!(subset >> BIAS & 1)) compare_subset(context, &q, subset);
        set |= remote_set_unwanted();
    }
    for (int i = 0; i < INPUTS; i++)
        if (set >> i & 1)
            course_partial(1,
                           "a gradient that nobody wants: grad[%d], of %s, is set where "
                           "call->wants[%d] is false, and must stay as it is",
                           i, names[i], i);
}

/* The work of a forward, and of a backward to a and b alone. */
static void frozen(ct_context *context) {
    enum { ROUNDS = 3, PART = 8 };
    const layer sizes = {128, 768, 768, 1, 2, {NULL}, NULL};
    problem p = random_problem(context, sizes, true);
    double forward = INFINITY, backward = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *in[INPUTS], *cotangent = p.cotangent;
        for (int i = 0; i < INPUTS; i++)
            in[i] = i == A || i == B ? ct_set_requires_grad(ct_scale(p.in[i], 1), true) : p.in[i];
        const double start = remote_work();
        ct_tensor *out = yours(&p, in);
        check_error(context);
        const double middle = remote_work();
        ct_backward_with(&out, &cotangent, 1, (ct_backward_opts){false});
        check_error(context);
        forward = fmin(forward, middle - start), backward = fmin(backward, remote_work() - middle);
        if (round == 0) compare_gradient(context, &p, B, ct_grad(in[B]), "a, b");
        ct_scope_close(scope);
    }
    printf("forward %.1f ms, backward to a and b %.1f ms of work\n", 1e3 * forward, 1e3 * backward);
    if (backward > forward / PART)
        course_fail("backward works for gradients that nobody wants: where weight and x are frozen "
                    "it takes %.0f%% of forward's time, and may take %.0f%%",
                    100 * backward / forward, 100.0 / PART);
}

static void init(ct_context *context) {
    const int64_t in = 40, out = 30, rank = 8;
    const double bound = 1 / sqrt((double)in);
    ct_tensor *a = NULL, *b = NULL;
    double mean = 0, square = 0, largest = 0;
    lora_init(context, out, in, rank, &a, &b);
    check_error(context);
    if (ct_ndim(a) != 2 || ct_dim(a, 0) != rank || ct_dim(a, 1) != in || ct_ndim(b) != 2 ||
        ct_dim(b, 0) != out || ct_dim(b, 1) != rank || ct_dtype_of(a) != CT_F64 ||
        ct_dtype_of(b) != CT_F64)
        course_fail("a must be (R, I) and b (O, R), both f64");
    const double *x = ct_data_f64(a);
    for (int64_t i = 0; i < ct_numel(b); i++)
        if (ct_data_f64(b)[i] != 0)
            course_fail("b must be 0: a new adapter changes nothing, so training begins where the "
                        "frozen layer is");
    for (int64_t i = 0; i < rank * in; i++) {
        mean += x[i] / (double)(rank * in), square += x[i] * x[i] / (double)(rank * in);
        largest = fmax(largest, fabs(x[i]));
    }
    if (!(largest > 0))
        course_fail("a is 0, and so is b: then both gradients are 0 for ever, as each is a product "
                    "with the other");
    if (largest > bound || largest < 0.9 * bound || fabs(mean) > 0.2 * bound ||
        fabs(square / (bound * bound) - 1.0 / 3) > 0.1)
        course_fail("a must be uniform between -1 / sqrt I and 1 / sqrt I: I is %lld, the largest "
                    "|a| is %.4g, the mean %.4g",
                    (long long)in, largest, mean);
}

/* The words for a merged weight, if a mistake makes it. */
static void name_merged(const layer *l, const double *merged) {
    static const struct {
        mistake how;
        double sign;
        bool replaced;
        const char *what;
    } ways[] = {
        {NO_SCALE, 1, false, "this is what comes out without the scale"},
        {RIGHT, -1, false, "this is what comes out if scale b a is subtracted"},
        {RIGHT, 1, true, "weight is replaced: scale b a must be added to it"},
        {A_OF_MEMORY, 1, false, "this is what comes out if a is read as (I, R): it is (R, I)"},
        {B_OF_MEMORY, 1, false, "this is what comes out if b is read as (R, O): it is (O, R)"},
        {LAST_RANK_LOST, 1, false, "this is what comes out without the last row of a"},
    };
    for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++) {
        bool same = true;
        for (int64_t o = 0; o < l->out && same; o++)
            for (int64_t i = 0; i < l->in && same; i++) {
                const double base = ways[w].replaced ? 0 : l->v[WEIGHT][o * l->in + i];
                same = fabs(merged[o * l->in + i] - base -
                            ways[w].sign * delta(l, ways[w].how, o, i)) < 1e-10;
            }
        if (!same) continue;
        course_hint("%s", ways[w].what);
        return;
    }
}

static void merge(ct_context *context) {
    const layer sizes[] = {{1, 5, 3, 2, 0.6, {NULL}, NULL},
                           {1, 4, 4, 3, -2, {NULL}, NULL},
                           {1, 1, 6, 1, 1.5, {NULL}, NULL},
                           {1, 3, 2, 5, 0.1, {NULL}, NULL}};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const layer l = random_problem(context, sizes[s], false).l;
        const int64_t n = l.out * l.in;
        double *merged = room_for(n), *right = room_for(n);
        memcpy(merged, l.v[WEIGHT], (size_t)n * sizeof *merged);
        for (int64_t o = 0; o < l.out; o++)
            for (int64_t i = 0; i < l.in; i++)
                right[o * l.in + i] = l.v[WEIGHT][o * l.in + i] + delta(&l, RIGHT, o, i);
        lora_merge(l.out, l.in, l.rank, merged, l.v[A], l.v[B], l.scale);
        ct_tensor *expected = course_f64(context, CT_SHAPE(l.out, l.in), right);
        if (memcmp(merged, l.v[WEIGHT], (size_t)n * sizeof *merged) == 0)
            course_fail("lora_merge leaves weight as it was: is it not written yet?");
        if (!course_same(course_f64(context, CT_SHAPE(l.out, l.in), merged), expected, 1e-12))
            name_merged(&l, merged);
        course_value("weight + scale b a", course_f64(context, CT_SHAPE(l.out, l.in), merged),
                     expected, 1e-12);
        lora_merge(l.out, l.in, l.rank, merged, l.v[A], l.v[B], -l.scale);
        course_value("weight after merging and, with -scale, taking out",
                     course_f64(context, CT_SHAPE(l.out, l.in), merged),
                     course_f64(context, CT_SHAPE(l.out, l.in), l.v[WEIGHT]), 1e-12);
        free(merged), free(right);
    }
}

/* Adapters learn what a second, hidden weight adds; the frozen weight is the judge's. */
static void learns(ct_context *context) {
    enum { N = 32, IN = 6, OUT = 5, RANK = 2, STEPS = 400 };
    const layer sizes = {N, IN, OUT, RANK, 0.5, {NULL}, NULL};
    const double lr = 0.02;
    problem hidden = random_problem(context, sizes, true);
    ct_tensor *a = NULL, *b = NULL;
    double target[N * OUT], first = 0, last = 0;
    compute_forward(&hidden.l, RIGHT, target);
    lora_init(context, OUT, IN, RANK, &a, &b);
    check_error(context);
    if (ct_numel(a) != RANK * IN || ct_numel(b) != OUT * RANK) course_fail("a and b are misshapen");
    a = ct_set_requires_grad(a, true), b = ct_set_requires_grad(b, true);
    for (int step = 0; step < STEPS; step++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *in[] = {hidden.in[X], hidden.in[WEIGHT], hidden.in[BIAS], a, b};
        ct_zero_grad(a), ct_zero_grad(b);
        ct_tensor *out = yours(&hidden, in);
        check_error(context);
        if (ct_numel(out) != N * OUT) course_fail("the result must be (N, O)");
        double cotangent[N * OUT], loss = 0;
        for (int i = 0; i < N * OUT; i++) {
            const double off = ct_data_f64(out)[i] - target[i];
            loss += off * off / (N * OUT), cotangent[i] = 2 * off / N;
        }
        ct_tensor *g = course_f64(context, CT_SHAPE(N, OUT), cotangent);
        ct_backward_with(&out, &g, 1, (ct_backward_opts){false});
        check_error(context);
        for (int64_t i = 0; i < ct_numel(a); i++)
            ct_data_f64(a)[i] -= lr * ct_data_f64(ct_grad(a))[i];
        for (int64_t i = 0; i < ct_numel(b); i++)
            ct_data_f64(b)[i] -= lr * ct_data_f64(ct_grad(b))[i];
        ct_wrote(a), ct_wrote(b);
        if (step == 0) first = loss;
        last = isnan(loss) ? fabs(loss) : loss;
        ct_scope_close(scope);
    }
    printf("the mean squared error: %.4g at first, %.4g after %d steps\n", first, last, STEPS);
    if (!(last < 0.05 * first))
        course_fail(
            "the adapters do not learn: the error is %.4g at first, and %.4g after %d steps", first,
            last, STEPS);
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand}, {"shapes", 1, shapes}, {"init", 1, init},   {"gradient", 2, gradient},
    {"subsets", 2, subsets}, {"frozen", 1, frozen}, {"merge", 1, merge}, {"learns", 1, learns},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
