/* Included by every suite: cheap assertions, a time limit, and the end of main. */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Check writes the location of each assertion that holds to a file. For assertions on each element
 * of a tensor this takes longer than the test itself, so it is done only when the line changes. */
static inline bool new_line(int line) {
    static int last;
    return line != last && (last = line);
}
#define HELD() (new_line(__LINE__) ? mark_point() : (void)0)
#undef ck_assert
#undef ck_assert_msg
#define ck_assert(expr)          ((expr) ? HELD() : ck_abort_msg("%s", "Assertion '" #expr "' failed"))
#define ck_assert_msg(expr, ...) ((expr) ? HELD() : ck_abort_msg(__VA_ARGS__))

/* The limit ends a test that hangs, and is long enough for a test that a sanitizer slows down.
 * Check reads it when a test case is created. */
__attribute__((constructor)) static void limit_time(void) {
    setenv("CK_DEFAULT_TIMEOUT", "400", 0);
}

/* Whether each test is a process of its own, which may end by a signal or an exit. */
static inline bool tests_fork(void) {
    const char *fork = getenv("CK_FORK");
    return !fork || strcmp(fork, "no") != 0;
}

/* Runs a suite; returns the exit code of main. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A test, and how often it runs: with _i from 0 to n - 1, or once. */
typedef struct {
    const TTest *test;
    int n; /* -1: once */
} suite_test;
#define TEST(name)    {name, -1}
#define LOOP(name, n) {name, n}
#define TESTS(...)                                                                                 \
    (const suite_test[]) {                                                                         \
        __VA_ARGS__, { NULL, 0 }                                                                   \
    }

/* A part of a suite: each test runs between `before` and `after`, if these are not NULL. Systems
 * and sanitizers leave out parts by their tags. */
typedef struct {
    const char *name, *tags;
    double timeout; /* seconds; 0: the usual limit */
    SFun before, after;
    const suite_test *tests;
} suite_case;
#define CASES(...)                                                                                 \
    (const suite_case[]) {                                                                         \
        __VA_ARGS__, { .name = NULL }                                                              \
    }

static inline TCase *case_new(const suite_case *c) {
    TCase *made = tcase_create(c->name);
    if (c->tags) tcase_set_tags(made, c->tags);
    if (c->timeout > 0) tcase_set_timeout(made, c->timeout);
    if (c->before || c->after) tcase_add_checked_fixture(made, c->before, c->after);
    for (const suite_test *t = c->tests; t->test; t++)
        if (t->n < 0) tcase_add_test(made, t->test);
        else tcase_add_loop_test(made, t->test, 0, t->n);
    return made;
}

/* The main of a suite of several parts, and of a suite that is one list of tests. */
static inline int run_cases(const char *name, const suite_case *cases) {
    Suite *suite = suite_create(name);
    for (const suite_case *c = cases; c->name; c++) suite_add_tcase(suite, case_new(c));
    return run_suite(suite);
}
static inline int run_tests(const char *name, SFun before, SFun after, const suite_test *tests) {
    return run_cases(name, CASES({.name = name, .before = before, .after = after, .tests = tests}));
}

#endif
