/* check_gradient is given functions with right and with wrong backwards. Each test has both, so a
 * checker that always says the same passes none. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static const char *const verdicts[] = {"NO_VERDICT", "GRADIENT_RIGHT", "GRADIENT_WRONG",
                                       "NOT_DETERMINISTIC"};

static check judge(const char *what, function f, const double *x, verdict expected) {
    check c = check_gradient(&f, x);
    if (c.verdict == NO_VERDICT)
        course_fail("check_gradient returns NO_VERDICT, as the stub does: is it not written yet?");
    if (c.verdict == expected) return c;
    if ((unsigned)c.verdict > NOT_DETERMINISTIC)
        course_fail("no verdict: %s: %d", what, (int)c.verdict);
    if (c.verdict == GRADIENT_WRONG)
        course_fail("wrong verdict: %s: the verdict is GRADIENT_WRONG (d y[%d] / d x[%d] is %.10g "
                    "by backward and "
                    "%.10g by differences) and must be %s",
                    what, c.output, c.input, c.analytic, c.numeric, verdicts[expected]);
    course_fail("wrong verdict: %s: the verdict is %s and must be %s", what, verdicts[c.verdict],
                verdicts[expected]);
}
static void right(const char *what, function f, const double *x) {
    judge(what, f, x, GRADIENT_RIGHT);
}
static check wrong(const char *what, function f, const double *x) {
    return judge(what, f, x, GRADIENT_WRONG);
}

/* ---- one number ---- */

static void square(const double *x, double *y) { y[0] = x[0] * x[0]; }
static void square_right(const double *x, const double *g, double *dx) { dx[0] = 2 * x[0] * g[0]; }
static void square_sign(const double *x, const double *g, double *dx) { dx[0] = -2 * x[0] * g[0]; }
static void square_half(const double *x, const double *g, double *dx) { dx[0] = x[0] * g[0]; }
static void square_zero(const double *x, const double *g, double *dx) {
    (void)x, (void)g;
    dx[0] = 0;
}

static void one_number(ct_context *context) {
    (void)context;
    const double x[] = {1.5};
    right("y = x^2 with dx = 2 x g, at 1.5", (function){1, 1, square, square_right}, x);
    wrong("y = x^2 with dx = -2 x g", (function){1, 1, square, square_sign}, x);
    wrong("y = x^2 with dx = x g", (function){1, 1, square, square_half}, x);
    wrong("y = x^2 with dx = 0", (function){1, 1, square, square_zero}, x);
}

/* ---- several numbers ---- */

/* y[0] = x[0] x[1], y[1] = sin x[1] + 3 x[2], y[2] = x[0]: not symmetric */
static void several(const double *x, double *y) {
    y[0] = x[0] * x[1], y[1] = sin(x[1]) + 3 * x[2], y[2] = x[0];
}
static void several_right(const double *x, const double *g, double *dx) {
    dx[0] = x[1] * g[0] + g[2], dx[1] = x[0] * g[0] + cos(x[1]) * g[1], dx[2] = 3 * g[1];
}
/* the matrix times g, not its transpose */
static void several_transposed(const double *x, const double *g, double *dx) {
    dx[0] = x[1] * g[0] + x[0] * g[1], dx[1] = cos(x[1]) * g[1] + 3 * g[2], dx[2] = g[0];
}
static void several_one_use(const double *x, const double *g, double *dx) {
    several_right(x, g, dx), dx[0] = g[2];
}
/* d y[1] / d x[1] is off by 0.001, d y[0] / d x[1] by 0.5, d y[1] / d x[2] by 0.01 */
static void several_three(const double *x, const double *g, double *dx) {
    several_right(x, g, dx), dx[1] += 0.001 * g[1] + 0.5 * g[0], dx[2] += 0.01 * g[1];
}

static const double place[] = {0.7, -1.2, 0.4};

static void several_numbers(ct_context *context) {
    (void)context;
    right("three numbers to three, right", (function){3, 3, several, several_right}, place);
    wrong("the same with the Jacobian not transposed",
          (function){3, 3, several, several_transposed}, place);
    wrong("the same with one use of x[0] forgotten", (function){3, 3, several, several_one_use},
          place);
}

static void expect_worst(const char *what, check c, int output, int input, double analytic,
                         double numeric) {
    if (c.output != output || c.input != input)
        course_fail("wrong report: %s: the worst entry is said to be d y[%d] / d x[%d], and is d "
                    "y[%d] / d x[%d]",
                    what, c.output, c.input, output, input);
    if (!(fabs(c.analytic - analytic) < 1e-12))
        course_fail("wrong report: %s: analytic is %.10g and must be %.10g", what, c.analytic,
                    analytic);
    if (!(fabs(c.numeric - numeric) < 1e-6))
        course_fail("wrong report: %s: numeric is %.10g and must be near %.10g", what, c.numeric,
                    numeric);
}

static void worst(ct_context *context) {
    (void)context;
    right("three numbers to three, right", (function){3, 3, several, several_right}, place);
    const char *what = "three entries off by 0.001, 0.5 and 0.01";
    expect_worst(what, wrong(what, (function){3, 3, several, several_three}, place), 0, 1,
                 place[0] + 0.5, place[0]);
    what = "one use of x[0] forgotten";
    expect_worst(what, wrong(what, (function){3, 3, several, several_one_use}, place), 0, 0, 0,
                 place[1]);
}

/* ---- what a plain sum hides ---- */

enum { ROW = 4 };
static void softmax(const double *x, double *y) {
    double sum = 0;
    for (int i = 0; i < ROW; i++) sum += exp(x[i]);
    for (int i = 0; i < ROW; i++) y[i] = exp(x[i]) / sum;
}
/* dx = y (factor g - shift sum of g y) */
static void softmax_with(const double *x, const double *g, double *dx, double factor,
                         double shift) {
    double y[ROW], dot = 0;
    softmax(x, y);
    for (int i = 0; i < ROW; i++) dot += g[i] * y[i];
    for (int i = 0; i < ROW; i++) dx[i] = y[i] * (factor * g[i] - shift * dot);
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
/* y[i] = x[i]^2 with a wrong backward: it uses the mean of the cotangent, not its element i */
static void squares(const double *x, double *y) {
    for (int i = 0; i < ROW; i++) y[i] = x[i] * x[i];
}
static void squares_right(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] = 2 * x[i] * g[i];
}
static void squares_mean(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] = 2 * x[i] * (g[0] + g[1] + g[2] + g[3]) / ROW;
}

static const double row[ROW] = {0.3, -0.8, 1.1, 0.2};

static void hidden_by_a_sum(ct_context *context) {
    (void)context;
    right("softmax, right", (function){ROW, ROW, softmax, softmax_right}, row);
    wrong("softmax with the sign flipped", (function){ROW, ROW, softmax, softmax_sign}, row);
    wrong("softmax with dx = 0", (function){ROW, ROW, softmax, softmax_nothing}, row);
    wrong("softmax with dx = y g", (function){ROW, ROW, softmax, softmax_alone}, row);
    right("y = x^2 for each, right", (function){ROW, ROW, squares, squares_right}, row);
    wrong("y = x^2 for each, with the mean of g in place of g",
          (function){ROW, ROW, squares, squares_mean}, row);
}

/* ---- what a cotangent of one hides ---- */

static void square_ignores(const double *x, const double *g, double *dx) {
    (void)g;
    dx[0] = 2 * x[0];
}
static void square_of_square(const double *x, const double *g, double *dx) {
    dx[0] = 2 * x[0] * g[0] * g[0];
}
static void squares_absolute(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] = 2 * x[i] * fabs(g[i]);
}

static void cotangent(ct_context *context) {
    (void)context;
    const double x[] = {1.5};
    right("y = x^2 with dx = 2 x g", (function){1, 1, square, square_right}, x);
    wrong("y = x^2 with dx = 2 x, where g is ignored", (function){1, 1, square, square_ignores}, x);
    wrong("y = x^2 with dx = 2 x g^2", (function){1, 1, square, square_of_square}, x);
    right("y = x^2 for each, right", (function){ROW, ROW, squares, squares_right}, row);
    wrong("y = x^2 for each with dx = 2 x |g|", (function){ROW, ROW, squares, squares_absolute},
          row);
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
    dx[0] = 2 * x[0] * g[0], dx[1] = 2 * x[1] * g[1], dx[3] = 2 * x[3] * g[3];
}
/* writes where g is not 0, and leaves what was there elsewhere */
static void squares_where(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++)
        if (g[i] != 0) dx[i] = 2 * x[i] * g[i];
}
/* adds, as if dx had been zeroed */
static void squares_adds(const double *x, const double *g, double *dx) {
    for (int i = 0; i < ROW; i++) dx[i] += 2 * x[i] * g[i];
}

static void not_finite(ct_context *context) {
    (void)context;
    right("y = x^2 for each, right", (function){ROW, ROW, squares, squares_right}, row);
    wrong("dx[2] is NaN", (function){ROW, ROW, squares, squares_nan}, row);
    wrong("dx[1] is infinite", (function){ROW, ROW, squares, squares_infinite}, row);
}

static void unwritten(ct_context *context) {
    (void)context;
    const double zero[ROW] = {0.3, -0.8, 0, 0.2}; /* where d y[2] / d x[2] is 0 */
    right("y = x^2 for each, right", (function){ROW, ROW, squares, squares_right}, zero);
    wrong("dx[2], which must be 0, is never written",
          (function){ROW, ROW, squares, squares_unwritten}, zero);
    wrong("dx is only written where g is not 0", (function){ROW, ROW, squares, squares_where}, row);
    wrong("what is in dx already is added to", (function){ROW, ROW, squares, squares_adds}, row);
}

/* ---- steps and tolerances ---- */

static void steep(const double *x, double *y) { y[0] = exp(10 * x[0]), y[1] = 1e-3 * x[0]; }
static void steep_right(const double *x, const double *g, double *dx) {
    dx[0] = 10 * exp(10 * x[0]) * g[0] + 1e-3 * g[1];
}
static void steep_off(const double *x, const double *g, double *dx) {
    dx[0] = 10.01 * exp(10 * x[0]) * g[0] + 1e-3 * g[1];
}
static void steep_small(const double *x, const double *g, double *dx) {
    dx[0] = 10 * exp(10 * x[0]) * g[0] + 1.01e-3 * g[1];
}

static void curved(ct_context *context) {
    (void)context;
    const double x[] = {1};
    right("y[0] = exp(10 x), y[1] = x / 1000, at x = 1", (function){1, 2, steep, steep_right}, x);
    wrong("the same with d y[0] / d x 1.001 times too large", (function){1, 2, steep, steep_off},
          x);
    wrong("the same with d y[1] / d x 1.01 times too large", (function){1, 2, steep, steep_small},
          x);
}

/* x[0] is about 10^12, x[1] about 1 */
static void far(const double *x, double *y) {
    y[0] = x[0] * x[1] * 1e-12, y[1] = 2 * x[0] - x[1], y[2] = 1e6 + x[1] * x[1];
}
static void far_right(const double *x, const double *g, double *dx) {
    dx[0] = x[1] * 1e-12 * g[0] + 2 * g[1];
    dx[1] = x[0] * 1e-12 * g[0] - g[1] + 2 * x[1] * g[2];
}
static void far_off(const double *x, const double *g, double *dx) {
    far_right(x, g, dx), dx[0] += 0.01 * g[1];
}
static void far_offset(const double *x, const double *g, double *dx) {
    far_right(x, g, dx), dx[1] += 0.01 * g[2];
}

static void large(ct_context *context) {
    (void)context;
    const double x[] = {3e12, 0.6};
    const char *what = "an input of 3e12: a step must move it";
    right(what, (function){2, 3, far, far_right}, x);
    wrong("an input of 3e12, with d y[1] / d x[0] 2.01 for 2", (function){2, 3, far, far_off}, x);
    wrong("an output of a million, with d y[2] / d x[1] 1.21 for 1.2",
          (function){2, 3, far, far_offset}, x);
}

/* ---- not a function ---- */

static int calls;
/* a dropout of four elements that drops another one in each third call: two runs may give the same
 * numbers, three do not */
static void dropout(const double *x, double *y) {
    const int dropped = ++calls % 3 == 0 ? 1 : 0;
    for (int i = 0; i < ROW; i++) y[i] = i == dropped ? 0 : 2 * x[i];
}
static void dropout_back(const double *x, const double *g, double *dx) {
    (void)x;
    for (int i = 0; i < ROW; i++) dx[i] = i == 0 ? 0 : 2 * g[i];
}
/* a running mean that moves a little in each call */
static void running(const double *x, double *y) {
    for (int i = 0; i < ROW; i++) y[i] = x[i] * x[i] + 1e-9 * calls;
    calls++;
}
static void squares_noisy(const double *x, const double *g, double *dx) {
    squares_right(x, g, dx), dx[3] *= 1 + 1e-9 * (calls++ % 2);
}

static void not_deterministic(ct_context *context) {
    (void)context;
    calls = 0;
    right("y = x^2 for each, right", (function){ROW, ROW, squares, squares_right}, row);
    wrong("y = x^2 for each, with the mean of g in place of g",
          (function){ROW, ROW, squares, squares_mean}, row);
    judge("a forward that adds 1e-9 more in each call",
          (function){ROW, ROW, running, squares_right}, row, NOT_DETERMINISTIC);
    calls = 0;
    judge("a backward that differs by 1e-9 in each second call",
          (function){ROW, ROW, squares, squares_noisy}, row, NOT_DETERMINISTIC);
    calls = 0;
    judge("a dropout that draws another mask in each third call",
          (function){ROW, ROW, dropout, dropout_back}, row, NOT_DETERMINISTIC);
}

const course_test course_tests[] = {
    {"one_number", 1, one_number}, {"several_numbers", 1, several_numbers},
    {"worst", 1, worst},           {"hidden_by_a_sum", 1, hidden_by_a_sum},
    {"cotangent", 1, cotangent},   {"not_finite", 1, not_finite},
    {"unwritten", 1, unwritten},   {"curved", 1, curved},
    {"large", 1, large},           {"not_deterministic", 1, not_deterministic},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
