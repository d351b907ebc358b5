/* adamw_step beside plain loops, and train beside a loop that calls the same adamw_step, so
 * that a mistake in the one costs nothing in the other. */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

#include <math.h>
#include <string.h>

static const adamw_opts usual = {
    .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0};

/* ---- the update ---- */

enum { N = 6, MOST = 32 };

/* The mistakes that are often made in AdamW. */
typedef enum {
    NONE,
    NO_BIAS,
    NO_BIAS_OF_M,
    NO_BIAS_OF_V,
    FROM_ZERO,
    EPS_INSIDE,
    COUPLED,
    NO_DECAY,
    DECAY_WITHOUT_LR,
    NO_ROOT,
    VARIANTS
} variant;
static const char *const looks_like[VARIANTS] = {
    [NO_BIAS] = "this is what comes out without bias correction",
    [NO_BIAS_OF_M] = "this is what comes out without the bias correction of m",
    [NO_BIAS_OF_V] = "this is what comes out without the bias correction of v",
    [FROM_ZERO] = "this is what comes out with t one more than it is",
    [EPS_INSIDE] = "this is what comes out with eps inside the root",
    [COUPLED] = "this is Adam with weight decay in the gradient, not AdamW",
    [NO_DECAY] = "this is what comes out without weight decay",
    [DECAY_WITHOUT_LR] = "this is what comes out with a decay that is not times lr",
    [NO_ROOT] = "this is what comes out without the root of v"};

static void update(variant mistake, double *w, const double *g, double *m, double *v, int64_t t,
                   adamw_opts o) {
    if (mistake == FROM_ZERO) t++;
    const double bias1 = mistake == NO_BIAS || mistake == NO_BIAS_OF_M ? 1 : 1 - pow(o.beta1, t),
                 bias2 = mistake == NO_BIAS || mistake == NO_BIAS_OF_V ? 1 : 1 - pow(o.beta2, t);
    for (int i = 0; i < N; i++) {
        const double grad = g[i] + (mistake == COUPLED ? o.weight_decay * w[i] : 0);
        if (mistake == DECAY_WITHOUT_LR) w[i] *= 1 - o.weight_decay;
        else if (mistake != COUPLED && mistake != NO_DECAY) w[i] *= 1 - o.lr * o.weight_decay;
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * grad;
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * grad * grad;
        const double second = v[i] / bias2;
        w[i] -= o.lr * m[i] / bias1 /
                (mistake == EPS_INSIDE ? sqrt(second + o.eps)
                                       : (mistake == NO_ROOT ? second : sqrt(second)) + o.eps);
    }
}

/* Starts at w; g holds `steps` gradients. */
typedef struct {
    double w[N], g[MOST][N];
    int steps;
    adamw_opts opts;
} updates;

static ct_tensor *simulated(ct_context *context, const updates *c, variant mistake) {
    double w[N], m[N] = {0}, v[N] = {0};
    memcpy(w, c->w, sizeof w);
    for (int t = 1; t <= c->steps; t++) update(mistake, w, c->g[t - 1], m, v, t, c->opts);
    return course_f64(context, CT_SHAPE(N), w);
}

static ct_tensor *yours(ct_context *context, const updates *c) {
    double w[N], m[N] = {0}, v[N] = {0};
    memcpy(w, c->w, sizeof w);
    for (int t = 1; t <= c->steps; t++) adamw_step(N, w, c->g[t - 1], m, v, t, c->opts);
    bool moved = false;
    for (int i = 0; i < N; i++) moved = moved || m[i] != 0 || v[i] != 0 || w[i] != c->w[i];
    if (!moved) course_fail("adamw_step leaves w, m and v as they were: is it not written yet?");
    return course_f64(context, CT_SHAPE(N), w);
}

static void compare(ct_context *context, const char *what, const updates *c) {
    ct_tensor *got = yours(context, c), *expected = simulated(context, c, NONE);
    course_hint("%s", "");
    for (int mistake = NO_BIAS; mistake < VARIANTS; mistake++)
        if (course_same(got, simulated(context, c, mistake), 1e-12) &&
            !course_same(got, expected, 1e-12)) {
            course_hint("%s", looks_like[mistake]);
            break;
        }
    course_value(what, got, expected, 1e-12);
    course_hint("%s", "");
}

static updates random_updates(ct_context *context, int steps, adamw_opts opts) {
    updates c = {.steps = steps, .opts = opts};
    if (!ct_to_f64(course_randn(context, CT_SHAPE(N)), c.w, N) ||
        !ct_to_f64(course_randn(context, CT_SHAPE(MOST, N)), &c.g[0][0], MOST * N))
        course_fail("%s", ct_error_message(context));
    return c;
}

/* The example of README.md. */
static void by_hand(ct_context *context) {
    const adamw_opts opts = {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .eps = 1, .weight_decay = 0.5};
    double w = 2, m = 0, v = 0;
    const double g[] = {3, -1};
    adamw_step(1, &w, &g[0], &m, &v, 1, opts);
    if (w == 2 && m == 0 && v == 0)
        course_fail("adamw_step leaves w, m and v as they were: is it not written yet?");
    course_value("w, m and v after the first update",
                 course_f64(context, CT_SHAPE(3), (double[]){w, m, v}),
                 course_f64(context, CT_SHAPE(3), (double[]){1.825, 1.5, 2.25}), 1e-14);
    adamw_step(1, &w, &g[1], &m, &v, 2, opts);
    course_value(
        "w, m and v after the second update", course_f64(context, CT_SHAPE(3), (double[]){w, m, v}),
        course_f64(context, CT_SHAPE(3),
                   (double[]){1.73375 - 0.1 / 3 / (sqrt(1.9375 / 0.4375) + 1), 0.25, 1.9375}),
        1e-14);
}

static void first_step(ct_context *context) {
    updates c = random_updates(context, 1, usual);
    compare(context, "w after one update with lr 0.1 and the usual numbers", &c);
    for (int i = 0; i < N; i++) c.g[0][i] *= 1e-4;
    compare(context, "w after one update with gradients 10,000 times smaller", &c);
}

static void bias_correction(ct_context *context) {
    updates c = random_updates(context, 3, usual);
    compare(context, "w after three updates", &c);
    c = random_updates(context, 20, usual);
    c.opts.beta1 = 0.5, c.opts.beta2 = 0.9;
    compare(context, "w after twenty updates with beta1 0.5 and beta2 0.9", &c);
}

static void epsilon(ct_context *context) {
    updates c = random_updates(context, 4, usual);
    c.opts.eps = 0.3;
    compare(context, "w after four updates with eps 0.3", &c);
    memset(c.g, 0, sizeof c.g);
    c.g[0][0] = 1, c.opts.eps = 1e-8;
    compare(context, "w after four updates, all gradients 0 but one", &c);
}

static void decay(ct_context *context) {
    updates c = random_updates(context, 3, usual);
    c.opts.weight_decay = 0.2;
    compare(context, "w after three updates with weight_decay 0.2", &c);
    memset(c.g, 0, sizeof c.g);
    c.g[0][0] = 1;
    compare(context, "w after three updates with weight_decay 0.2 and gradients of 0", &c);
}

static void many_steps(ct_context *context) {
    for (int i = 0; i < 4; i++) {
        updates c = random_updates(context, MOST, usual);
        c.opts = (adamw_opts){.lr = i == 1 ? 1e-3 : 0.03,
                              .beta1 = i == 2 ? 0.8 : 0.9,
                              .beta2 = i == 3 ? 0.99 : 0.999,
                              .eps = 1e-6,
                              .weight_decay = 0.1 * i};
        compare(context, "w after 32 updates", &c);
    }
}

/* ---- the loop ---- */

/* Two half moons of points in the plane, and a network of one hidden layer that parts them. */
enum { POINTS = 32, HIDDEN = 16, PARAMS = 4 };
typedef struct {
    ct_context *context;
    double x[POINTS][2];
    int target[POINTS];
    ct_tensor *param[PARAMS + 1]; /* the last takes part late, or never */
    int calls, late, fails; /* calls so far; the calls at which the last joins, the loss fails */
} moons;

static moons new_moons(ct_context *context) {
    moons p = {.context = context, .late = -1, .fails = -1};
    for (int i = 0; i < POINTS; i++) {
        const int upper = i % 2;
        const double angle = 3.14159265 * (i / 2) / (POINTS / 2 - 1);
        p.x[i][0] = upper ? cos(angle) : 1 - cos(angle);
        p.x[i][1] = upper ? sin(angle) : 0.5 - sin(angle);
        p.target[i] = upper;
    }
    ct_seed(context, 5); /* the same network each time */
    p.param[0] = ref_scale(course_randn(context, CT_SHAPE(HIDDEN, 2)), 0.7);
    p.param[1] = ct_zeros(context, CT_F64, CT_SHAPE(HIDDEN));
    /* a third class, which no point has: then this parameter is larger than the first */
    p.param[2] = ref_scale(course_randn(context, CT_SHAPE(3, HIDDEN)), 0.25);
    p.param[3] = ct_zeros(context, CT_F64, CT_SHAPE(3));
    p.param[4] = ct_full(context, CT_F64, CT_SHAPE(1, 2), 0.5);
    for (int i = 0; i <= PARAMS; i++) ct_set_requires_grad(p.param[i], true);
    return p;
}

/* The mean cross-entropy of the points. param[i] are weight, bias, weight, bias and, or NULL, the
 * factors of x. */
static double moons_value(const moons *p, double *const *param) {
    double loss = 0;
    for (int i = 0; i < POINTS; i++) {
        double logit[3], sum = 0;
        memcpy(logit, param[3], sizeof logit);
        for (int j = 0; j < HIDDEN; j++) {
            double z = param[1][j];
            for (int c = 0; c < 2; c++)
                z += param[0][2 * j + c] * p->x[i][c] * (param[4] ? param[4][c] : 1);
            for (int c = 0; c < 3; c++) logit[c] += param[2][c * HIDDEN + j] * tanh(z);
        }
        for (int c = 0; c < 3; c++) sum += exp(logit[c] - logit[p->target[i]]);
        loss += log(sum) / POINTS;
    }
    return loss;
}

/* The loss as an op of the parameters, of which backward takes differences. */
typedef struct {
    const moons *p;
} moons_attrs;
static void params_of(const ct_call *call, double *param[PARAMS + 1]) {
    for (int i = 0; i <= PARAMS; i++) param[i] = i < call->n ? ct_data_f64(call->in[i]) : NULL;
}
static ct_tensor *moons_forward(ct_call *call) {
    double *param[PARAMS + 1];
    params_of(call, param);
    return ct_full(call->context, CT_F64, CT_SCALAR,
                   moons_value(((const moons_attrs *)call->attrs)->p, param));
}
static bool moons_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    static const double h = 1e-3, weight[] = {8, -8, -1, 1}, step[] = {1, -1, 2, -2};
    double *param[PARAMS + 1], moved[3 * HIDDEN];
    params_of(call, param);
    for (int i = 0; i < call->n; i++) {
        double *const at = param[i];
        const int64_t n = ct_numel(call->in[i]);
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        if (!grad[i]) return false;
        memcpy(moved, at, (size_t)n * sizeof *moved), param[i] = moved;
        for (int64_t j = 0; j < n; j++, moved[j - 1] = at[j - 1])
            for (int k = 0; k < 4; k++) {
                moved[j] = at[j] + step[k] * h;
                ct_data_f64(grad[i])[j] +=
                    ct_item(cotangents[0]) * weight[k] / (12 * h) *
                    moons_value(((const moons_attrs *)call->attrs)->p, param);
            }
        param[i] = at;
    }
    return true;
}
static const ct_op moons_op = {.name = "moons",
                               .attrs_size = sizeof(moons_attrs),
                               .forward = moons_forward,
                               .backward = moons_backward};

static ct_tensor *moons_loss(void *arg) {
    moons *p = arg;
    const int call = p->calls++;
    if (call == p->fails) return ct_fail(p->context, CT_ERR_ARGUMENT, "loss: no more data");
    return ct_apply(&moons_op, p->param, p->late >= 0 && call >= p->late ? PARAMS + 1 : PARAMS,
                    &(moons_attrs){p});
}

/* Does the work of train. With `stale` the gradients are never zeroed; with `together` all
 * parameters have one count of updates. */
static void train_as_it_should(moons *p, int n, int steps, adamw_opts opts, double *losses,
                               bool stale, bool together) {
    static double m[PARAMS + 1][3 * HIDDEN], v[PARAMS + 1][3 * HIDDEN];
    int64_t t[PARAMS + 1] = {0};
    memset(m, 0, sizeof m), memset(v, 0, sizeof v);
    for (int step = 0; step < steps; step++) {
        ct_scope scope = ct_scope_open(p->context);
        ct_tensor *loss = moons_loss(p);
        for (int i = 0; i < n && !stale; i++) ct_zero_grad(p->param[i]);
        ct_backward(loss);
        losses[step] = ct_item(loss);
        for (int i = 0; i < n; i++)
            if (ct_grad(p->param[i]))
                t[i]++, adamw_step(ct_numel(p->param[i]), ct_data_f64(p->param[i]),
                                   ct_data_f64(ct_grad(p->param[i])), m[i], v[i],
                                   together ? step + 1 : t[i], opts);
        ct_scope_close(scope);
    }
}

static void run(moons *p, int n, int steps, adamw_opts opts, double *losses) {
    memset(losses, 0xff, (size_t)steps * sizeof *losses); /* as new memory: course_value knows it */
    if (!train(p->context, p->param, n, moons_loss, p, steps, opts, losses))
        course_fail("%s", ct_error(p->context) ? ct_error_message(p->context)
                                               : "train returns false, without an error");
    /* a loop that learns nothing may be due to the update */
    double w = 1, g = 1, m = 0, v = 0;
    adamw_step(1, &w, &g, &m, &v, 1, opts);
    if (w == 1 && m == 0)
        course_fail("adamw_step leaves w and m as they were: is it not written yet?");
    if (p->calls != steps)
        course_fail("the loss was computed %d times in %d steps", p->calls, steps);
}

static void compare_loops(ct_context *context, const char *what, int n, int late, bool grads_left) {
    enum { STEPS = 8 };
    double got[STEPS], expected[STEPS], other[STEPS];
    const adamw_opts opts = {
        .lr = 0.05, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};
    moons p = new_moons(context), q = new_moons(context), r = new_moons(context);
    p.late = q.late = r.late = late;
    if (grads_left) {
        ct_backward(moons_loss(&p)), ct_backward(moons_loss(&r));
        p.calls = r.calls = 0;
    }
    run(&p, n, STEPS, opts, got);
    train_as_it_should(&q, n, STEPS, opts, expected, false, false);
    ct_tensor *losses = course_f64(context, CT_SHAPE(STEPS), got),
              *right = course_f64(context, CT_SHAPE(STEPS), expected);
    train_as_it_should(&r, n, STEPS, opts, other, late < 0, late >= 0);
    if (course_same(losses, course_f64(context, CT_SHAPE(STEPS), other), 1e-10))
        course_hint("%s", late < 0
                              ? "these are the losses of a loop that never zeroes gradients"
                              : "these are the losses of a loop with one t for all parameters: "
                                "t counts a parameter's own updates");
    if (fabs(got[0] - expected[1]) < 1e-10)
        course_hint("losses[0] is the loss after the first update, and must be the one before");
    course_value(what, losses, right, 1e-10);
    course_hint("%s", "");
    for (int i = 0; i < n; i++)
        course_value("a parameter after these steps", ref_copy(p.param[i]), ref_copy(q.param[i]),
                     1e-9);
}

static void loop(ct_context *context) {
    compare_loops(context, "the losses of eight steps", PARAMS, -1, false);
    compare_loops(context,
                  "the losses of eight steps where gradients were left by a backward before",
                  PARAMS, -1, true);
}

static void unused(ct_context *context) {
    compare_loops(context, "the losses of eight steps with a parameter that is never used",
                  PARAMS + 1, -1, false);
    compare_loops(context,
                  "the losses of eight steps with a parameter that is used from the fourth on",
                  PARAMS + 1, 3, false);
    moons p = new_moons(context);
    p.fails = 2;
    double losses[8];
    const bool done = train(context, p.param, PARAMS, moons_loss, &p, 8, usual, losses);
    if (done) course_fail("where the third loss fails, train must return false");
    if (p.calls != 3)
        course_fail("where the third loss fails, train must end: the loss was computed %d times",
                    p.calls);
    course_refused("where the third loss fails", context, NULL, CT_ERR_ARGUMENT,
                   "loss: no more data");
}

static void memory(ct_context *context) {
    enum { SHORT = 10, LONG = 200 };
    static double losses[LONG];
    moons p = new_moons(context);
    run(&p, PARAMS, SHORT, usual, losses);
    const remote_memory_stats before = remote_memory(false);
    p.calls = 0;
    run(&p, PARAMS, LONG, usual, losses);
    /* handles of the gradients may be left */
    const remote_memory_stats after = remote_memory(false);
    if (after.peak > before.peak + 20000)
        course_fail("%d steps took %.0f kB more than %d: what a step makes must end with it", LONG,
                    (double)(after.peak - before.peak) / 1e3, SHORT);
    if (after.live > before.live + 20000)
        course_fail("%.0f kB are left after %d steps", (double)(after.live - before.live) / 1e3,
                    LONG);
}

static void reaches(ct_context *context) {
    enum { STEPS = 150 };
    double losses[STEPS];
    moons p = new_moons(context);
    run(&p, PARAMS, STEPS,
        (adamw_opts){.lr = 0.05, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
        losses);
    for (int i = 0; i < STEPS; i++) losses[i] = isnan(losses[i]) ? fabs(losses[i]) : losses[i];
    printf("the loss at steps 0, 50, 100, 149: %.4f %.4f %.4f %.4f\n", losses[0], losses[50],
           losses[100], losses[149]);
    if (!(losses[STEPS - 1] < 0.01))
        course_fail("the two moons are not parted: the loss is %.4f at the last of %d steps, and "
                    "must be below 0.01",
                    losses[STEPS - 1], STEPS);
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand}, {"first_step", 1, first_step}, {"bias_correction", 1, bias_correction},
    {"epsilon", 1, epsilon}, {"decay", 1, decay},           {"many_steps", 1, many_steps},
    {"loop", 1, loop},       {"unused", 1, unused},         {"memory", 1, memory},
    {"reaches", 1, reaches},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
