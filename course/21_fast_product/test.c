/* product beside three plain loops: the numbers, at sizes that fit no block, and the processor
 * time.
 */
#include "../course.h"
#include "../remote.h"
#include "timed.h"

#include <math.h>
#include <string.h>

/* ---- the grader's own product ---- */

/* What yours must be faster than, too: README.md shows it. */
static void plain_product(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                          double *c) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            c[i * n + j] = sum;
        }
}

typedef struct {
    int64_t m, n, k;
} size;

typedef struct {
    size s;
    double *a, *b, *before, *right, *got; /* c before the product, and as it must be and is */
} problem;

static double *draw(ct_context *context, int64_t n) {
    double *x = calloc((size_t)n + 1, sizeof *x);
    if (!x) course_fail("the test has no memory");
    if (n && !ct_to_f64(course_randn(context, CT_SHAPE(n)), x, n))
        course_fail("%s", ct_error_message(context));
    return x;
}

static problem new_problem(ct_context *context, size s) {
    problem p = {.s = s, .a = draw(context, s.m * s.k), .b = draw(context, s.k * s.n)};
    p.before = draw(context, s.m * s.n), p.right = draw(context, s.m * s.n);
    p.got = draw(context, s.m * s.n);
    memcpy(p.got, p.before, (size_t)(s.m * s.n) * sizeof *p.got);
    plain_product(s.m, s.n, s.k, p.a, p.b, p.right);
    return p;
}
static void end_problem(problem *p) {
    free(p->a), free(p->b), free(p->before), free(p->right), free(p->got);
}

/* ---- the numbers ---- */

/* Whether an element is the right one but for the order of its sum. */
static bool is_right(const problem *p, double got, int64_t i, int64_t j) {
    const double right = p->right[i * p->s.n + j];
    double sizes = 0;
    if (isnan(right) || isinf(right)) return isnan(right) ? isnan(got) : got == right;
    for (int64_t q = 0; q < p->s.k; q++) sizes += fabs(p->a[i * p->s.k + q] * p->b[q * p->s.n + j]);
    return fabs(got - right) <= 1e-15 * (double)(p->s.k + 4) * sizes;
}

/* Element (i, j) by a mistake: the sum ends at `end`; a or b is read as its transpose is stored. */
typedef struct {
    int64_t end;
    bool a_turned, b_turned;
    double earlier; /* a factor of what c held before */
} mistake;

static double element_by(const problem *p, const mistake *how, int64_t i, int64_t j) {
    const size s = p->s;
    double sum = how->earlier * p->before[i * s.n + j];
    for (int64_t q = 0; q < how->end; q++)
        sum += p->a[how->a_turned ? q * s.m + i : i * s.k + q] *
               p->b[how->b_turned ? j * s.k + q : q * s.n + j];
    return sum;
}

static bool fits(const problem *p, const mistake *how) {
    for (int64_t i = 0; i < p->s.m; i++)
        for (int64_t j = 0; j < p->s.n; j++)
            if (!(fabs(p->got[i * p->s.n + j] - element_by(p, how, i, j)) < 1e-9)) return false;
    return true;
}

/* Words for wrong elements, if a mistake makes all of them. */
static void name_mistake(const problem *p) {
    const size s = p->s;
    const mistake added = {s.k, false, false, 1}, a_turned = {s.k, true, false, 0},
                  b_turned = {s.k, false, true, 0};
    if (fits(p, &added)) course_hint("the product is added to what c held: it must replace it");
    else if (fits(p, &a_turned)) course_hint("this is what comes out if a is read as a^T");
    else if (fits(p, &b_turned)) course_hint("this is what comes out if b is read as b^T");
    for (int64_t block = 2; block <= 64; block *= 2) {
        const mistake early = {s.k - s.k % block, false, false, 0};
        if (s.k % block == 0 || !fits(p, &early)) continue;
        course_hint("the sums end after the last whole block of %lld: the last k %% %lld products "
                    "are missing",
                    (long long)block, (long long)block);
        return;
    }
}

/* The first row and column from which on everything that is wrong lies. */
static void name_edge(const problem *p) {
    int64_t row = p->s.m, column = p->s.n, unwritten = 0, wrong = 0;
    bool rows_alone = true, columns_alone = true;
    for (int64_t i = 0; i < p->s.m; i++)
        for (int64_t j = 0; j < p->s.n; j++) {
            if (is_right(p, p->got[i * p->s.n + j], i, j)) continue;
            row = i < row ? i : row, column = j < column ? j : column, wrong++;
            unwritten += p->got[i * p->s.n + j] == p->before[i * p->s.n + j];
        }
    for (int64_t i = 0; i < p->s.m; i++)
        for (int64_t j = 0; j < p->s.n; j++)
            if (is_right(p, p->got[i * p->s.n + j], i, j))
                rows_alone = rows_alone && i < row, columns_alone = columns_alone && j < column;
    const char *how = unwritten == wrong ? "not written" : "wrong";
    if (row > 0 && rows_alone)
        course_hint("rows from %lld on are %s: those that fill no block?", (long long)row, how);
    else if (column > 0 && columns_alone)
        course_hint("columns from %lld on are %s: those that fill no block?", (long long)column,
                    how);
}

static double number(double x) { return isnan(x) ? fabs(x) : x; } /* printf knows a -nan */

static bool is_untouched(const problem *p) {
    const int64_t n = p->s.m * p->s.n;
    return n > 0 && memcmp(p->got, p->before, (size_t)n * sizeof *p->got) == 0;
}

static void compare(const problem *p) {
    const size s = p->s;
    if (is_untouched(p)) {
        if (s.k == 0) course_fail("for k = 0 c is as it was before: all of it must be 0");
        course_fail("c is as it was before: product is not written yet, or not for such sizes (m "
                    "%lld, n %lld, k %lld)",
                    (long long)s.m, (long long)s.n, (long long)s.k);
    }
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            const double got = p->got[i * s.n + j], right = p->right[i * s.n + j];
            if (is_right(p, got, i, j)) continue;
            name_edge(p), name_mistake(p);
            if ((double)(float)got == got && fabs(got - right) < 1e-3 * fabs(right))
                course_hint("the numbers are rounded to float");
            course_fail("m %lld, n %lld, k %lld: c(%lld, %lld) is %.17g, and must be %.17g",
                        (long long)s.m, (long long)s.n, (long long)s.k, (long long)i, (long long)j,
                        number(got), number(right));
        }
}

static void try(ct_context *context, size s) {
    problem p = new_problem(context, s);
    product(s.m, s.n, s.k, p.a, p.b, p.got);
    compare(&p);
    /* the same with other numbers around the arrays: what is read there must not count */
    double *again = draw(context, s.m * s.n);
    remote_guards(1);
    product(s.m, s.n, s.k, p.a, p.b, again);
    remote_guards(0);
    if (memcmp(again, p.got, (size_t)(s.m * s.n) * sizeof *again) != 0)
        course_fail("reads beyond an array: c is another one if other numbers lie behind a, b or c "
                    "(m %lld, n %lld, k %lld)",
                    (long long)s.m, (long long)s.n, (long long)s.k);
    free(again), end_problem(&p);
}

/* The example of README.md. */
static void by_hand(ct_context *context) {
    const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, -1}, right[] = {-2, -2};
    problem p = new_problem(context, (size){2, 1, 3});
    memcpy(p.a, a, sizeof a), memcpy(p.b, b, sizeof b), memcpy(p.right, right, sizeof right);
    product(2, 1, 3, p.a, p.b, p.got);
    compare(&p);
    end_problem(&p);
}

/* A number from 1 to `most`. */
static int64_t drawn_size(ct_context *context, int64_t most) {
    double x;
    ct_to_f64(ct_rand(context, CT_F64, CT_SHAPE(1)), &x, 1);
    return 1 + (int64_t)(x * (double)most);
}

static void shapes(ct_context *context) {
    const size some[] = {{4, 4, 4}, {8, 8, 8},   {16, 16, 16}, {5, 4, 4},  {4, 5, 4},
                         {4, 4, 5}, {1, 1, 1},   {1, 9, 1},    {9, 1, 1},  {1, 1, 9},
                         {3, 2, 7}, {17, 33, 9}, {64, 1, 3},   {1, 64, 65}};
    for (unsigned i = 0; i < sizeof some / sizeof *some; i++) try(context, some[i]);
    for (int64_t m = 1; m <= 9; m++)
        for (int64_t n = 1; n <= 9; n++) try(context, (size){m, n, drawn_size(context, 12)});
    for (int i = 0; i < 12; i++)
        try(context,
            (size){drawn_size(context, 90), drawn_size(context, 90), drawn_size(context, 90)});
}

static void empty(ct_context *context) {
    const size some[] = {{3, 4, 0}, {1, 1, 0}, {0, 4, 3}, {3, 0, 4}, {0, 0, 0}, {33, 17, 0}};
    by_hand(context);
    for (unsigned i = 0; i < sizeof some / sizeof *some; i++) try(context, some[i]);
}

/* NaN and infinities go where the three loops bring them: 0 times infinity is NaN. */
static void special(ct_context *context) {
    const double odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e300, 1e-300};
    enum { ODD = sizeof odd / sizeof *odd };
    for (int round = 0; round < 20; round++) {
        const size s = {drawn_size(context, 12), drawn_size(context, 12), drawn_size(context, 12)};
        problem p = new_problem(context, s);
        for (int i = 0; i < 3; i++)
            p.a[drawn_size(context, s.m * s.k) - 1] = odd[drawn_size(context, ODD) - 1],
                                                 p.b[drawn_size(context, s.k * s.n) - 1] =
                                                     odd[drawn_size(context, ODD) - 1];
        p.a[0] = 0, p.b[0] = INFINITY; /* c(0, 0) has 0 times infinity */
        plain_product(s.m, s.n, s.k, p.a, p.b, p.right);
        product(s.m, s.n, s.k, p.a, p.b, p.got);
        if (is_untouched(&p)) compare(&p);
        if (isnan(p.right[0]) && !isnan(p.got[0]))
            course_hint(
                "0 times infinity is NaN: no product may be left out because a number is 0");
        else course_hint("NaN and infinities are not where they must be");
        for (int64_t i = 0; i < s.m; i++)
            for (int64_t j = 0; j < s.n; j++)
                if (!is_right(&p, p.got[i * s.n + j], i, j))
                    course_fail("m %lld, n %lld, k %lld: c(%lld, %lld) is %g, and must be %g",
                                (long long)s.m, (long long)s.n, (long long)s.k, (long long)i,
                                (long long)j, number(p.got[i * s.n + j]),
                                number(p.right[i * s.n + j]));
        course_hint("%s", "");
        end_problem(&p);
    }
}

/* ---- the time ---- */

/* How many times as fast as the grader's the submission's product is: both in turns, so that both
 * meet the same machine, and of each the best of ROUNDS. Each turn has other numbers. */
static double measure(ct_context *context, size s) {
    enum { ROUNDS = 5 };
    double plain = INFINITY, yours = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        problem p = new_problem(context, s);
        product_load(s.m, s.n, s.k, p.a, p.b, p.before);
        const double start = judge_work();
        plain_product(s.m, s.n, s.k, p.a, p.b, p.right);
        plain = fmin(plain, judge_work() - start);
        yours = fmin(yours, product_run());
        product_fetch(s.m, s.n, p.got);
        for (int64_t i = 0; i < s.m * s.n; i++)
            if (!(fabs(p.got[i] - p.right[i]) <= 1e-11 * (double)s.k)) compare(&p);
        end_problem(&p);
    }
    printf("m %lld, n %lld, k %lld: %.2f ms; the grader's %.2f ms; %.2f times as fast\n",
           (long long)s.m, (long long)s.n, (long long)s.k, 1e3 * yours, 1e3 * plain, plain / yours);
    return plain / yours;
}

/* A table of speeds and points, the fastest first. The largest of up to ATTEMPTS measurements
 * counts: it is measured again before a point is lost. */
typedef struct {
    double times;
    int points;
} level;

static void judge_speed(ct_context *context, const size *sizes, int n, const level *levels,
                        int count) {
    enum { ATTEMPTS = 4 };
    double slowest = INFINITY;
    size where = sizes[0];
    for (int i = 0; i < n; i++) {
        double best = 0;
        for (int attempt = 0; attempt < ATTEMPTS && best < levels[0].times; attempt++)
            best = fmax(best, measure(context, sizes[i]));
        if (best < slowest) slowest = best, where = sizes[i];
    }
    if (slowest >= levels[0].times) return;
    int points = 0;
    for (int i = count - 1; i > 0; i--)
        if (slowest >= levels[i].times) points = levels[i].points;
    course_hint("too slow");
    course_partial(points,
                   "%.2f times as fast as the grader's three loops, and must be %.1f times (m "
                   "%lld, n %lld, k %lld; %d points from %.1f times on)",
                   slowest, levels[0].times, (long long)where.m, (long long)where.n,
                   (long long)where.k, levels[count - 1].points, levels[count - 1].times);
}

static void fast(ct_context *context) {
    const size square = {384, 384, 384};
    const level levels[] = {{3, 3}, {2.5, 2}, {1.5, 1}};
    judge_speed(context, &square, 1, levels, 3);
}

static void fast_shapes(ct_context *context) {
    const size sizes[] = {{16, 512, 512}, {512, 64, 512}, {512, 512, 64}};
    const level levels[] = {{2.5, 2}, {1.3, 1}};
    judge_speed(context, sizes, 3, levels, 2);
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand}, {"shapes", 2, shapes}, {"empty", 1, empty},
    {"special", 1, special}, {"fast", 3, fast},     {"fast_shapes", 2, fast_shapes},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
