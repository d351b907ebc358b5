/* check_gradient is given functions with right and with wrong backwards. Each test has both, in an
 * order that is drawn, so a checker that always says the same, or counts, passes none. */
#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const verdicts[] = {"NO_VERDICT", "GRADIENT_RIGHT", "GRADIENT_WRONG",
                                       "NOT_DETERMINISTIC"};

/* Of the trials that went wrong, what is said of the first in the order of their table: the order
 * of the calls is drawn. `noticed` is what was seen in the calls of the functions. */
static char failure[1024], noticed[400];
static int failed = 64, tried;

static void wrong_trial(const char *what_was_noticed, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void wrong_trial(const char *what_was_noticed, const char *format, ...) {
    va_list args;
    if (tried >= failed) return;
    failed = tried;
    snprintf(noticed, sizeof noticed, "%s", what_was_noticed);
    va_start(args, format);
    vsnprintf(failure, sizeof failure, format, args);
    va_end(args);
}

/* ---- what a checker calls ---- */

/* The functions of a trial are called through these two, which look at where forward is called, and
 * with which g and dx backward is. */
enum { MOST = 4 };
static struct {
    function f;
    const double *x;               /* the point at which the gradient is checked */
    bool above[MOST], below[MOST]; /* forward was called with only x[i] moved */
    bool several_moved, backward_moved, one_hot, uneven, not_nan;
    int forwards; /* at x */
    double g[MOST];
    int backwards, most_backwards; /* with this g, one after the other */
} seen;

static void forward_seen(const double *x, double *y) {
    int moved = 0, which = 0;
    for (int i = 0; i < seen.f.n; i++)
        if (x[i] != seen.x[i]) moved++, which = i;
    if (moved == 0) seen.forwards++;
    if (moved == 1 && x[which] > seen.x[which]) seen.above[which] = true;
    if (moved == 1 && x[which] < seen.x[which]) seen.below[which] = true;
    if (moved > 1) seen.several_moved = true;
    seen.f.forward(x, y);
}
static void backward_seen(const double *x, const double *g, double *dx) {
    const size_t size = (size_t)seen.f.m * sizeof *g;
    int zeros = 0, ones = 0;
    for (int r = 0; r < seen.f.m; r++) zeros += g[r] == 0, ones += g[r] == 1;
    if (ones == 1 && zeros + 1 == seen.f.m) seen.one_hot = true;
    else seen.uneven = true;
    for (int i = 0; i < seen.f.n; i++) {
        if (!isnan(dx[i])) seen.not_nan = true;
        if (x[i] != seen.x[i]) seen.backward_moved = true;
    }
    if (memcmp(seen.g, g, size) != 0) seen.backwards = 0;
    memcpy(seen.g, g, size);
    if (++seen.backwards > seen.most_backwards) seen.most_backwards = seen.backwards;
    seen.f.backward(x, g, dx);
}

static bool leaves_unwritten; /* the functions of this test write into a part of dx */

/* What the calls show of a wrong verdict, in a few words; nothing if they are as they must be. */
static const char *name_calls(verdict got, verdict expected) {
    bool any = false, above = true, below = true, lost = false;
    for (int i = 0; i < seen.f.n; i++) {
        const bool moved = seen.above[i] || seen.below[i];
        any = any || moved, above = above && seen.above[i], below = below && seen.below[i];
        lost = lost || (!moved && fabs(seen.x[i]) > 1e9);
    }
    if (expected == NOT_DETERMINISTIC)
        return seen.forwards < 8         ? "forward is not called eight times at x"
               : seen.most_backwards < 8 ? "backward is not called eight times with the same g"
                                         : "";
    if (seen.several_moved)
        return "x is not put back after a difference: forward is called where several inputs are "
               "moved, and one alone must be (keep the old x[i], and assign it)";
    if (seen.backward_moved)
        return "x is not put back after a difference: backward is called where an input is still "
               "moved (keep the old x[i], and assign it)";
    if (any && lost) return "the step is lost: x + h is rounded to x, where x is large";
    if (above != below)
        return "the difference is one-sided: forward is called on one side of x, and must be at "
               "x + h and at x - h";
    if (got != GRADIENT_RIGHT || expected != GRADIENT_WRONG) return "";
    if (leaves_unwritten && seen.not_nan)
        return "dx is not full of NaN before each call of backward, so what is left unwritten may "
               "look right";
    if (!seen.one_hot)
        return "backward is never called with a g that is 1 at one output and 0 elsewhere, which "
               "gives a row of the Jacobian";
    if (!seen.uneven)
        return "backward is only called with a g that is 1 at one output and 0 elsewhere, which "
               "does not show whether it is linear in g";
    return "";
}

static check judge(const char *what, function f, const double *x, verdict expected) {
    memset(&seen, 0, sizeof seen);
    seen.f = f, seen.x = x;
    const check got = check_gradient(&(function){f.n, f.m, forward_seen, backward_seen}, x);
    if (got.verdict == NO_VERDICT)
        course_fail("check_gradient returns NO_VERDICT, as the stub does: is it not written yet?");
    if (got.verdict == expected) return got;
    if ((unsigned)got.verdict > NOT_DETERMINISTIC)
        wrong_trial("", "no verdict: %s: %d", what, (int)got.verdict);
    else if (got.verdict == GRADIENT_WRONG && fabs(got.analytic - got.numeric) <= 1e-8)
        wrong_trial(name_calls(got.verdict, expected),
                    "wrong verdict: %s: the verdict is GRADIENT_WRONG and must be %s (no wrong "
                    "entry is named: is it that backward is taken not to be linear in g?)",
                    what, verdicts[expected]);
    else if (got.verdict == GRADIENT_WRONG)
        wrong_trial(name_calls(got.verdict, expected),
                    "wrong verdict: %s: the verdict is GRADIENT_WRONG (d y[%d] / d x[%d] is %.10g "
                    "by backward and %.10g by differences) and must be %s",
                    what, got.output, got.input, isnan(got.analytic) ? (double)NAN : got.analytic,
                    isnan(got.numeric) ? (double)NAN : got.numeric, verdicts[expected]);
    else
        wrong_trial(name_calls(got.verdict, expected),
                    "wrong verdict: %s: the verdict is %s and must be %s", what,
                    verdicts[got.verdict], verdicts[expected]);
    return got;
}

/* ---- trials ---- */

/* Coefficients of the functions below, and points, are drawn anew for each trial. */
static double c[MOST], drawn[MOST];

/* A number between 0.4 and 1.6 of either sign: no derivative is 0, and no difference is lost. */
static double draw(ct_context *context) {
    const double u = ct_item(ct_rand(context, CT_F64, CT_SCALAR));
    return u < 0.5 ? 0.4 + 2.4 * u : 0.8 - 2.4 * u;
}

/* A function and what must be said of it. `point` changes the point that was drawn, if it must be a
 * special one; `then` looks at the rest of the answer. Both may be NULL. */
typedef struct {
    const char *what;
    function f;
    verdict expected;
    void (*point)(double *x);
    void (*then)(const char *what, check answer);
} trial;

static void try(ct_context *context, const trial *t) {
    for (int i = 0; i < MOST; i++) c[i] = draw(context), drawn[i] = draw(context);
    if (t->point) t->point(drawn);
    const check answer = judge(t->what, t->f, drawn, t->expected);
    if (t->then && answer.verdict == t->expected) t->then(t->what, answer);
}

/* Makes each trial whose answer is not GRADIENT_RIGHT twice, and those with GRADIENT_RIGHT as often
 * in all, in an order that is drawn: who guesses, or counts the calls, is wrong at one of them. */
static void try_all(ct_context *context, const trial *trials, int n) {
    const trial *all[64], *rights[8];
    int count = 0, right = 0, wrongs;
    for (int i = 0; i < n; i++)
        if (trials[i].expected == GRADIENT_RIGHT) rights[right++] = &trials[i];
        else all[count++] = &trials[i], all[count++] = &trials[i];
    wrongs = count;
    for (int i = 0; i < wrongs; i++) all[count++] = rights[i % right];
    for (int i = count - 1; i > 0; i--) {
        const int64_t j = ct_random_below(context, i + 1);
        const trial *other = all[i];
        all[i] = all[j], all[j] = other;
    }
    try(context, rights[0]); /* a stub, and a checker that finds all wrong, hear of the simplest */
    for (int i = 0; i < count; i++) tried = (int)(all[i] - trials), try(context, all[i]);
    if (failed >= n) return;
    course_hint("%s", noticed);
    course_fail("%s", failure);
}
#define TRY_ALL(context, trials) try_all(context, trials, sizeof(trials) / sizeof *(trials))

/* ---- one number ---- */

static void square(const double *x, double *y) { y[0] = c[0] * x[0] * x[0]; }
static void square_right(const double *x, const double *g, double *dx) {
    dx[0] = 2 * c[0] * x[0] * g[0];
}
static void square_sign(const double *x, const double *g, double *dx) {
    dx[0] = -2 * c[0] * x[0] * g[0];
}
static void square_half(const double *x, const double *g, double *dx) {
    dx[0] = c[0] * x[0] * g[0];
}
static void square_zero(const double *x, const double *g, double *dx) {
    (void)x, (void)g;
    dx[0] = 0;
}

static void one_number(ct_context *context) {
    static const trial trials[] = {
        {"y = c x^2 with dx = 2 c x g", {1, 1, square, square_right}, GRADIENT_RIGHT, NULL, NULL},
        {"y = c x^2 with dx = -2 c x g", {1, 1, square, square_sign}, GRADIENT_WRONG, NULL, NULL},
        {"y = c x^2 with dx = c x g", {1, 1, square, square_half}, GRADIENT_WRONG, NULL, NULL},
        {"y = c x^2 with dx = 0", {1, 1, square, square_zero}, GRADIENT_WRONG, NULL, NULL}};
    TRY_ALL(context, trials);
}

/* ---- several numbers ---- */

/* y[0] = c[0] x[0] x[1], y[1] = c[1] sin x[1] + 3 x[2], y[2] = c[2] x[0]: not symmetric */
static void several(const double *x, double *y) {
    y[0] = c[0] * x[0] * x[1], y[1] = c[1] * sin(x[1]) + 3 * x[2], y[2] = c[2] * x[0];
}
static void several_right(const double *x, const double *g, double *dx) {
    dx[0] = c[0] * x[1] * g[0] + c[2] * g[2];
    dx[1] = c[0] * x[0] * g[0] + c[1] * cos(x[1]) * g[1], dx[2] = 3 * g[1];
}
/* the matrix times g, not its transpose */
static void several_transposed(const double *x, const double *g, double *dx) {
    dx[0] = c[0] * x[1] * g[0] + c[0] * x[0] * g[1];
    dx[1] = c[1] * cos(x[1]) * g[1] + 3 * g[2], dx[2] = c[2] * g[0];
}
static void several_one_use(const double *x, const double *g, double *dx) {
    several_right(x, g, dx), dx[0] = c[2] * g[2];
}
/* three entries are off: one by 0.5, the others by 0.001 and 0.01; c[3] tells which is the worst */
static int worst_output(void) { return c[3] < 0 ? 0 : 2; }
static int worst_input(void) { return fabs(c[3]) < 1 ? 1 : 2; }
static void several_three(const double *x, const double *g, double *dx) {
    several_right(x, g, dx);
    dx[worst_input()] += 0.5 * g[worst_output()], dx[1] += 0.001 * g[1], dx[2] += 0.01 * g[1];
}

static void several_numbers(ct_context *context) {
    static const trial trials[] = {{"three numbers to three, right",
                                    {3, 3, several, several_right},
                                    GRADIENT_RIGHT,
                                    NULL,
                                    NULL},
                                   {"the same with the Jacobian not transposed",
                                    {3, 3, several, several_transposed},
                                    GRADIENT_WRONG,
                                    NULL,
                                    NULL},
                                   {"the same with one use of x[0] forgotten",
                                    {3, 3, several, several_one_use},
                                    GRADIENT_WRONG,
                                    NULL,
                                    NULL}};
    TRY_ALL(context, trials);
}

/* The numbers of an entry; -NaN is NaN. */
static double plain(double x) { return isnan(x) ? (double)NAN : x; }

static void expect_entry(const char *what, check answer, double analytic, double numeric) {
    const bool right = isfinite(analytic) ? fabs(answer.analytic - analytic) < 1e-12
                                          : plain(answer.analytic) == analytic ||
                                                !isnan(answer.analytic) == !isnan(analytic);
    if (!right)
        wrong_trial("", "wrong report: %s: analytic is %.10g and must be %.10g", what,
                    plain(answer.analytic), plain(analytic));
    if (!(fabs(answer.numeric - numeric) < 1e-5))
        wrong_trial("", "wrong report: %s: numeric is %.10g and must be near %.10g", what,
                    plain(answer.numeric), numeric);
}
static void expect_worst(const char *what, const char *why, check answer, int output, int input,
                         double analytic, double numeric) {
    if (answer.output != output || answer.input != input)
        wrong_trial(why,
                    "wrong report: %s: the worst entry is said to be d y[%d] / d x[%d], and is d "
                    "y[%d] / d x[%d]",
                    what, answer.output, answer.input, output, input);
    expect_entry(what, answer, analytic, numeric);
}
static void then_three(const char *what, check answer) {
    /* d y[0] / d x[1] is c[0] x[0]; x[2] acts on y[1] alone, and x[1] not on y[2] */
    const double right = worst_output() == 0 && worst_input() == 1 ? c[0] * drawn[0] : 0;
    expect_worst(what, "", answer, worst_output(), worst_input(), right + 0.5, right);
}
static void then_one_use(const char *what, check answer) {
    expect_worst(what, "", answer, 0, 0, 0, c[0] * drawn[1]);
}

/* Entries of very different sizes, each off by more than is allowed. Another order of them puts
 * another one first:
 *
 *     entry                     off by    allowed
 *     y[0] / x[0]   1e4 c[0]    100       about 1e-2   the largest error
 *     y[1] / x[0]   0           1e-3      1e-8         the largest error / |numeric|
 *     y[1] / x[1]   c[1]        1         about 1e-6   the largest error / allowed
 */
static void scales(const double *x, double *y) { y[0] = 1e4 * c[0] * x[0], y[1] = c[1] * x[1]; }
static void scales_right(const double *x, const double *g, double *dx) {
    (void)x;
    dx[0] = 1e4 * c[0] * g[0], dx[1] = c[1] * g[1];
}
static void scales_three(const double *x, const double *g, double *dx) {
    scales_right(x, g, dx);
    dx[0] += 100 * g[0] + 1e-3 * g[1], dx[1] += g[1];
}
static void then_scales(const char *what, check answer) {
    expect_worst(what,
                 answer.input == 1    ? ""
                 : answer.output == 0 ? "the entry with the largest |analytic - numeric| is named, "
                                        "and not that with the largest |analytic - numeric| / "
                                        "allowed"
                                      : "the entry with the largest |analytic - numeric| / "
                                        "|numeric| is named, and not that with the largest "
                                        "|analytic - numeric| / allowed",
                 answer, 1, 1, c[1] + 1, c[1]);
}

/* ---- what a plain sum hides ---- */

enum { ROW = 4 };
static void softmax(const double *x, double *y) {
    double sum = 0;
    for (int i = 0; i < ROW; i++) sum += exp(c[0] * x[i]);
    for (int i = 0; i < ROW; i++) y[i] = exp(c[0] * x[i]) / sum;
}
/* the softmax of c x: dx = c y (factor g - shift sum of g y) */
static void softmax_with(const double *x, const double *g, double *dx, double factor,
                         double shift) {
    double y[ROW], dot = 0;
    softmax(x, y);
    for (int i = 0; i < ROW; i++) dot += g[i] * y[i];
    for (int i = 0; i < ROW; i++) dx[i] = c[0] * y[i] * (factor * g[i] - shift * dot);
}
static void softmax_right(const double *x, const double *g, double *dx) {
    softmax_with(x, g, dx, 1, 1);
}
static void softmax_sign(const double *x, const double *g, double *dx) {
    softmax_with(x, g, dx, -1, -1);
}
static void softmax_alone(const double *x, const double *g, double *dx) {
    softmax_with(x, g, dx, 1, 0);
}
static void softmax_nothing(const double *x, const double *g, double *dx) {
    softmax_with(x, g, dx, 0, 0);
}
/* y[i] = c x[i]^2 with a wrong backward: it uses the mean of the cotangent, not its element i */
static void squares(const double *x, double *y) {
    for (int i = 0; i < ROW; i++) y[i] = c[0] * x[i] * x[i];
}
static void squares_right(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] = 2 * c[0] * x[i] * g[i];
}
static void squares_mean(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] = 2 * c[0] * x[i] * (g[0] + g[1] + g[2] + g[3]) / ROW;
}

#define SQUARES_RIGHT                                                                              \
    {"y = c x^2 for each, right", {ROW, ROW, squares, squares_right}, GRADIENT_RIGHT, NULL, NULL}
#define SQUARES_WITH_MEAN                                                                          \
    {"y = c x^2 for each, with the mean of g in place of g",                                       \
     {ROW, ROW, squares, squares_mean},                                                            \
     GRADIENT_WRONG,                                                                               \
     NULL,                                                                                         \
     NULL}

static void hidden_by_a_sum(ct_context *context) {
    static const trial trials[] = {
        {"softmax, right", {ROW, ROW, softmax, softmax_right}, GRADIENT_RIGHT, NULL, NULL},
        {"softmax with the sign flipped",
         {ROW, ROW, softmax, softmax_sign},
         GRADIENT_WRONG,
         NULL,
         NULL},
        {"softmax with dx = 0", {ROW, ROW, softmax, softmax_nothing}, GRADIENT_WRONG, NULL, NULL},
        {"softmax with dx = y g", {ROW, ROW, softmax, softmax_alone}, GRADIENT_WRONG, NULL, NULL},
        SQUARES_RIGHT,
        SQUARES_WITH_MEAN,
    };
    TRY_ALL(context, trials);
}

/* ---- what a cotangent of one hides ---- */

static void square_ignores(const double *x, const double *g, double *dx) {
    (void)g;
    dx[0] = 2 * c[0] * x[0];
}
static void square_of_square(const double *x, const double *g, double *dx) {
    dx[0] = 2 * c[0] * x[0] * g[0] * g[0];
}
static void squares_absolute(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] = 2 * c[0] * x[i] * fabs(g[i]);
}

static void cotangent(ct_context *context) {
    static const trial trials[] = {
        {"y = c x^2 with dx = 2 c x g", {1, 1, square, square_right}, GRADIENT_RIGHT, NULL, NULL},
        {"y = c x^2 with dx = 2 c x, where g is ignored",
         {1, 1, square, square_ignores},
         GRADIENT_WRONG,
         NULL,
         NULL},
        {"y = c x^2 with dx = 2 c x g^2",
         {1, 1, square, square_of_square},
         GRADIENT_WRONG,
         NULL,
         NULL},
        {"y = c x^2 for each, right",
         {ROW, ROW, squares, squares_right},
         GRADIENT_RIGHT,
         NULL,
         NULL},
        {"y = c x^2 for each with dx = 2 c x |g|",
         {ROW, ROW, squares, squares_absolute},
         GRADIENT_WRONG,
         NULL,
         NULL},
    };
    TRY_ALL(context, trials);
}

/* ---- no numbers at all ---- */

static void squares_nan(const double *x, const double *g, double *dx) {
    squares_right(x, g, dx), dx[2] = NAN;
}
static void squares_infinite(const double *x, const double *g, double *dx) {
    squares_right(x, g, dx), dx[1] = INFINITY;
}
/* dx[2] is never written */
static void squares_unwritten(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++)
        if (i != 2) dx[i] = 2 * c[0] * x[i] * g[i];
}
/* writes where g is not 0, and leaves what was there elsewhere */
static void squares_where(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++)
        if (g[i] != 0) dx[i] = 2 * c[0] * x[i] * g[i];
}
/* adds, as if dx had been zeroed */
static void squares_adds(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] += 2 * c[0] * x[i] * g[i];
}

/* each row of the Jacobian is right, and a sum of rows is NaN */
static void squares_nan_sum(const double *x, const double *g, double *dx) {
    squares_right(x, g, dx);
    if (g[0] != 0 && g[1] != 0) dx[2] = NAN;
}

/* entry (1, 1) is NaN; others, before and behind it, are wrong by much, one by infinity */
static void squares_nan_among(const double *x, const double *g, double *dx) {
    squares_right(x, g, dx);
    dx[0] += 1e6 * g[0], dx[3] += 1e6 * g[3];
    if (g[2] != 0) dx[2] = INFINITY;
    if (g[1] != 0) dx[1] = NAN;
}
/* y[1] is infinite on both sides, so the difference is no number */
static void overflows(const double *x, double *y) {
    y[0] = c[0] * x[0], y[1] = exp(1e4 * fabs(x[0]));
}
static void overflows_right(const double *x, const double *g, double *dx) {
    (void)x;
    dx[0] = c[0] * g[0] + (g[1] != 0 ? (double)INFINITY : 0);
}

#define NOT_THE_NAN                                                                                \
    "an entry whose error is not a number is worse than all others, and is not named: no "         \
    "comparison with NaN is true"
static void then_nan(const char *what, check answer) {
    if (answer.input != 2)
        wrong_trial(NOT_THE_NAN,
                    "wrong report: %s: the worst entry is said to be d y[%d] / d x[%d], and the "
                    "entries of x[2] are NaN",
                    what, answer.output, answer.input);
    expect_entry(what, answer, NAN, answer.output == 2 ? 2 * c[0] * drawn[2] : 0);
}
static void then_infinite(const char *what, check answer) {
    if (answer.input != 1)
        wrong_trial("",
                    "wrong report: %s: the worst entry is said to be d y[%d] / d x[%d], and the "
                    "entries of x[1] are infinite",
                    what, answer.output, answer.input);
    expect_entry(what, answer, INFINITY, answer.output == 1 ? 2 * c[0] * drawn[1] : 0);
}
static void then_nan_among(const char *what, check answer) {
    expect_worst(what, NOT_THE_NAN, answer, 1, 1, NAN, 2 * c[0] * drawn[1]);
}
static void then_overflow(const char *what, check answer) {
    if (answer.output == 1 && answer.input == 0) return;
    wrong_trial(NOT_THE_NAN,
                "wrong report: %s: the worst entry is said to be d y[%d] / d x[%d], and is d y[1] "
                "/ d x[0], whose difference is NaN",
                what, answer.output, answer.input);
}

static void not_finite(ct_context *context) {
    static const trial trials[] = {
        {"y = c x^2 for each, right",
         {ROW, ROW, squares, squares_right},
         GRADIENT_RIGHT,
         NULL,
         NULL},
        {"dx[2] is NaN", {ROW, ROW, squares, squares_nan}, GRADIENT_WRONG, NULL, NULL},
        {"dx[1] is infinite", {ROW, ROW, squares, squares_infinite}, GRADIENT_WRONG, NULL, NULL},
        {"y[1] overflows on both sides of x, so that its difference is NaN",
         {1, 2, overflows, overflows_right},
         GRADIENT_WRONG,
         NULL,
         NULL},
        {"dx[2] is NaN where g is not 0 at two outputs, and each row is right",
         {ROW, ROW, squares, squares_nan_sum},
         GRADIENT_WRONG,
         NULL,
         NULL},
    };
    TRY_ALL(context, trials);
}

static void worst(ct_context *context) {
    static const trial trials[] = {
        {"three numbers to three, right",
         {3, 3, several, several_right},
         GRADIENT_RIGHT,
         NULL,
         NULL},
        {"three entries off by 0.001, 0.5 and 0.01",
         {3, 3, several, several_three},
         GRADIENT_WRONG,
         NULL,
         then_three},
        {"one use of x[0] forgotten",
         {3, 3, several, several_one_use},
         GRADIENT_WRONG,
         NULL,
         then_one_use},
        {"entries of very different sizes, right",
         {2, 2, scales, scales_right},
         GRADIENT_RIGHT,
         NULL,
         NULL},
        {"entries of 10^4, 0 and 1, off by 100, 0.001 and 1",
         {2, 2, scales, scales_three},
         GRADIENT_WRONG,
         NULL,
         then_scales},
        {"dx[2] is NaN", {ROW, ROW, squares, squares_nan}, GRADIENT_WRONG, NULL, then_nan},
        {"one entry is NaN, one is infinite, and others are off by 10^6",
         {ROW, ROW, squares, squares_nan_among},
         GRADIENT_WRONG,
         NULL,
         then_nan_among},
        {"dx[1] is infinite",
         {ROW, ROW, squares, squares_infinite},
         GRADIENT_WRONG,
         NULL,
         then_infinite},
        {"y[1] overflows on both sides of x, so that its difference is NaN",
         {1, 2, overflows, overflows_right},
         GRADIENT_WRONG,
         NULL,
         then_overflow}};
    TRY_ALL(context, trials);
}

/* here d y[2] / d x[2] is 0 */
static void with_a_zero(double *x) { x[2] = 0; }

/* y[0] = y[1] = c[0] x[0] + c[1] x[1]. The rows of the Jacobian are equal, and dx[1] is not written
 * for the second: what an earlier call for the first has left there looks right. */
static void twins(const double *x, double *y) { y[0] = y[1] = c[0] * x[0] + c[1] * x[1]; }
static void twins_unwritten(const double *x, const double *g, double *dx) {
    (void)x;
    dx[0] = c[0] * (g[0] + g[1]);
    if (g[0] != 0) dx[1] = c[1] * (g[0] + g[1]);
}

static void unwritten(ct_context *context) {
    static const trial trials[] = {
        {"y = c x^2 for each, right",
         {ROW, ROW, squares, squares_right},
         GRADIENT_RIGHT,
         with_a_zero,
         NULL},
        {"dx[2], which must be 0, is never written",
         {ROW, ROW, squares, squares_unwritten},
         GRADIENT_WRONG,
         with_a_zero,
         NULL},
        {"dx is only written where g is not 0",
         {ROW, ROW, squares, squares_where},
         GRADIENT_WRONG,
         NULL,
         NULL},
        {"two equal outputs, and dx[1] is not written where g[0] is 0",
         {2, 2, twins, twins_unwritten},
         GRADIENT_WRONG,
         NULL,
         NULL},
        {"what is in dx already is added to",
         {ROW, ROW, squares, squares_adds},
         GRADIENT_WRONG,
         NULL,
         NULL},
    };
    leaves_unwritten = true;
    TRY_ALL(context, trials);
}

/* ---- steps and tolerances ---- */

static void steep(const double *x, double *y) { y[0] = exp(10 * x[0]), y[1] = 1e-3 * c[0] * x[0]; }
static void steep_with(const double *x, const double *g, double *dx, double first, double second) {
    dx[0] = first * 10 * exp(10 * x[0]) * g[0] + second * 1e-3 * c[0] * g[1];
}
static void steep_right(const double *x, const double *g, double *dx) {
    steep_with(x, g, dx, 1, 1);
}
static void steep_off(const double *x, const double *g, double *dx) {
    steep_with(x, g, dx, 1.001, 1);
}
static void steep_small(const double *x, const double *g, double *dx) {
    steep_with(x, g, dx, 1, 1.01);
}
static void near_one(double *x) { x[0] = 1 + 0.1 * x[0]; }

static void curved(ct_context *context) {
    static const trial trials[] = {
        {"y[0] = exp(10 x), y[1] = c x / 1000, near x = 1",
         {1, 2, steep, steep_right},
         GRADIENT_RIGHT,
         near_one,
         NULL},
        {"the same with d y[0] / d x 1.001 times too large",
         {1, 2, steep, steep_off},
         GRADIENT_WRONG,
         near_one,
         NULL},
        {"the same with d y[1] / d x 1.01 times too large",
         {1, 2, steep, steep_small},
         GRADIENT_WRONG,
         near_one,
         NULL},
    };
    TRY_ALL(context, trials);
}

/* x[0] is about 10^12, x[1] about 1 */
static void far(const double *x, double *y) {
    y[0] = 1e6 + x[1] * x[1], y[1] = c[0] * x[0] * x[1] * 1e-12, y[2] = 2 * x[0] - x[1];
}
static void far_right(const double *x, const double *g, double *dx) {
    dx[0] = c[0] * x[1] * 1e-12 * g[1] + 2 * g[2];
    dx[1] = 2 * x[1] * g[0] + c[0] * x[0] * 1e-12 * g[1] - g[2];
}
static void far_off(const double *x, const double *g, double *dx) {
    far_right(x, g, dx), dx[0] += 0.01 * g[2];
}
static void far_offset(const double *x, const double *g, double *dx) {
    far_right(x, g, dx), dx[1] += 0.01 * g[0];
}

/* two entries off by 10 and 1, of which the first may be off by 9e-4 as its y is a million */
static void far_two(const double *x, const double *g, double *dx) {
    far_right(x, g, dx), dx[1] += 10 * g[0] + g[1];
}
/* Another order of entries has cost its point in the test of the worst. */
static bool orders_right(void) {
    const check got =
        check_gradient(&(function){2, 2, scales, scales_three}, (double[]){drawn[0], drawn[1]});
    return got.output == 1 && got.input == 1;
}
static void then_far(const char *what, check answer) {
    const double right = c[0] * drawn[0] * 1e-12;
    if (answer.output == 0 && answer.input == 1 && !orders_right()) return;
    expect_worst(what,
                 answer.output == 0 && answer.input == 1
                     ? "the entry is named that would be the worst if nothing were allowed for the "
                       "rounding of y"
                     : "",
                 answer, 1, 1, right + 1, right);
}

static void far_away(double *x) { x[0] = 3e12 * fabs(x[0]), x[1] *= 0.6; }

static void large(ct_context *context) {
    static const trial trials[] = {
        {"an input of about 3e12: a step must move it",
         {2, 3, far, far_right},
         GRADIENT_RIGHT,
         far_away,
         NULL},
        {"an input of about 3e12, with d y[2] / d x[0] 2.01 for 2",
         {2, 3, far, far_off},
         GRADIENT_WRONG,
         far_away,
         NULL},
        {"an output of a million, with d y[0] / d x[1] off by 0.01",
         {2, 3, far, far_offset},
         GRADIENT_WRONG,
         far_away,
         NULL},
        {"an output of a million, with d y[0] / d x[1] off by 10 and d y[1] / d x[1] by 1",
         {2, 3, far, far_two},
         GRADIENT_WRONG,
         far_away,
         then_far},
    };
    TRY_ALL(context, trials);
}

/* ---- not a function ---- */

static int calls;
static void from_the_first_call(double *x) { (void)x, calls = 0; }
/* a dropout of four elements that drops another one in each third call: two runs may give the same
 * numbers, three do not */
static void dropout(const double *x, double *y) {
    const int dropped = ++calls % 3 == 0 ? 1 : 0;
    for (int i = 0; i < ROW; i++) y[i] = i == dropped ? 0 : c[0] * x[i];
}
static void dropout_back(const double *x, const double *g, double *dx) {
    (void)x;
    for (int i = 0; i < ROW; i++) dx[i] = i == 0 ? 0 : c[0] * g[i];
}
/* a running mean that moves a little in each call */
static void running(const double *x, double *y) {
    for (int i = 0; i < ROW; i++) y[i] = c[0] * x[i] * x[i] + 1e-9 * calls;
    calls++;
}
static void squares_noisy(const double *x, const double *g, double *dx) {
    squares_right(x, g, dx), dx[3] *= 1 + 1e-9 * (calls++ % 2);
}

static void not_deterministic(ct_context *context) {
    static const trial trials[] = {
        SQUARES_RIGHT,
        SQUARES_WITH_MEAN,
        {"a forward that adds 1e-9 more in each call",
         {ROW, ROW, running, squares_right},
         NOT_DETERMINISTIC,
         from_the_first_call,
         NULL},
        {"a backward that differs by 1e-9 in each second call",
         {ROW, ROW, squares, squares_noisy},
         NOT_DETERMINISTIC,
         from_the_first_call,
         NULL},
        {"a dropout that draws another mask in each third call",
         {ROW, ROW, dropout, dropout_back},
         NOT_DETERMINISTIC,
         from_the_first_call,
         NULL},
    };
    TRY_ALL(context, trials);
}

const course_test course_tests[] = {
    {"one_number", 1, one_number}, {"several_numbers", 1, several_numbers},
    {"worst", 1, worst},           {"hidden_by_a_sum", 1, hidden_by_a_sum},
    {"cotangent", 1, cotangent},   {"not_finite", 1, not_finite},
    {"unwritten", 1, unwritten},   {"curved", 1, curved},
    {"large", 1, large},           {"not_deterministic", 1, not_deterministic},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
