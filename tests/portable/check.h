/* The part of Check that these tests use, in one process, for systems that do not have Check: the
 * same names, the same last lines and the same exit codes. An assertion that fails ends its test by
 * longjmp. Of the environment it reads CK_EXCLUDE_TAGS and CK_RUN_CASE. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void TFun(int i);
typedef void (*SFun)(void);

typedef struct {
    TFun *run;
    const char *name;
} TTest;

typedef struct {
    const TTest *test;
    int begin, end; /* of _i */
} ck_test;

typedef struct {
    const char *name, *tags;
    ck_test *test; /* [n] */
    int n;
    SFun setup, teardown;
} TCase;

typedef struct {
    const char *name;
    TCase *tcase[64];
    int n;
} Suite;

typedef struct {
    Suite *suite;
    int ran, failed;
} SRunner;

static struct {
    jmp_buf leave;
    const char *tcase, *test;
    int i;
} ck_now __attribute__((unused));

enum { CK_ENV };

#define START_TEST(name)                                                                           \
    static void name##_fn(int _i);                                                                 \
    static const TTest name##_ttest = {name##_fn, #name};                                          \
    static const TTest *const name = &name##_ttest;                                                \
    static void name##_fn(int _i __attribute__((unused)))
#define END_TEST

static inline void *ck_keep(void *block) {
    if (block) return block;
    fprintf(stderr, "check: out of memory\n");
    exit(EXIT_FAILURE);
}

static inline TCase *tcase_create(const char *name) {
    TCase *tcase = ck_keep(calloc(1, sizeof *tcase));
    tcase->name = name;
    return tcase;
}

static inline void ck_add(TCase *tcase, ck_test test) {
    tcase->test = ck_keep(realloc(tcase->test, ((size_t)tcase->n + 1) * sizeof test));
    tcase->test[tcase->n++] = test;
}
#define tcase_add_test(tcase, test)                  ck_add(tcase, (ck_test){test, 0, 1})
#define tcase_add_loop_test(tcase, test, begin, end) ck_add(tcase, (ck_test){test, begin, end})

/* A test that ends its process is left out, as it would end the others. */
#define tcase_add_exit_test(tcase, test, code) ((void)(tcase), (void)(test))

static inline void tcase_add_checked_fixture(TCase *tcase, SFun setup, SFun teardown) {
    tcase->setup = setup;
    tcase->teardown = teardown;
}
static inline void tcase_set_tags(TCase *tcase, const char *tags) { tcase->tags = tags; }
static inline void tcase_set_timeout(TCase *tcase, double seconds) { (void)tcase, (void)seconds; }

static inline Suite *suite_create(const char *name) {
    Suite *suite = ck_keep(calloc(1, sizeof *suite));
    suite->name = name;
    return suite;
}

static inline void suite_add_tcase(Suite *suite, TCase *tcase) {
    ck_keep(suite->n < 64 ? suite : NULL);
    suite->tcase[suite->n++] = tcase;
}

static inline SRunner *srunner_create(Suite *suite) {
    SRunner *runner = ck_keep(calloc(1, sizeof *runner));
    runner->suite = suite;
    return runner;
}

/* Whether one of the names is among the tags. */
static inline int ck_tagged(const char *tags, const char *names) {
    char copy[256];
    if (!tags || !names) return 0;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = strtok(copy, " "); name; name = strtok(NULL, " ")) {
        const size_t length = strlen(name);
        for (const char *at = tags; (at = strstr(at, name)); at += length)
            if ((at == tags || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return 1;
    }
    return 0;
}

static inline void ck_run_one(SRunner *runner, const TCase *tcase, const TTest *test, int i) {
    ck_now.tcase = tcase->name;
    ck_now.test = test->name;
    ck_now.i = i;
    runner->ran++;
    if (setjmp(ck_now.leave)) {
        runner->failed++;
        return; /* as in Check without fork, the fixture of a test that has failed does not end */
    }
    if (tcase->setup) tcase->setup();
    test->run(i);
    if (tcase->teardown) tcase->teardown();
}

static inline void srunner_run_all(SRunner *runner, int mode) {
    const Suite *suite = runner->suite;
    const char *without = getenv("CK_EXCLUDE_TAGS"), *only = getenv("CK_RUN_CASE");
    (void)mode;
    setvbuf(stdout, NULL, _IONBF, 0); /* a program that crashes has said which test it was in */
    printf("Running suite(s): %s\n", suite->name);
    for (int c = 0; c < suite->n; c++) {
        const TCase *tcase = suite->tcase[c];
        if (ck_tagged(tcase->tags, without) || (only && strcmp(only, tcase->name))) continue;
        for (int t = 0; t < tcase->n; t++)
            for (int i = tcase->test[t].begin; i < tcase->test[t].end; i++)
                ck_run_one(runner, tcase, tcase->test[t].test, i);
    }
    const int passed = runner->ran - runner->failed;
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
           runner->ran ? (int)(100.0 * passed / runner->ran) : 100, runner->ran, runner->failed);
}

static inline int srunner_ntests_failed(const SRunner *runner) { return runner->failed; }

static inline void srunner_free(SRunner *runner) {
    for (int c = 0; c < runner->suite->n; c++) {
        free(runner->suite->tcase[c]->test);
        free(runner->suite->tcase[c]);
    }
    free(runner->suite);
    free(runner);
}

/* ---- assertions ---- */

__attribute__((noreturn)) static inline void ck_fail_at(const char *file, int line,
                                                        const char *format, ...) {
    va_list args;
    printf("%s:%d:F:%s:%s:%d: ", file, line, ck_now.tcase, ck_now.test, ck_now.i);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    longjmp(ck_now.leave, 1);
}
#define mark_point()             ((void)0)
#define ck_abort_msg(...)        ck_fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define ck_assert_msg(expr, ...) ((expr) ? (void)0 : ck_fail_at(__FILE__, __LINE__, __VA_ARGS__))
#define ck_assert(expr)          ck_assert_msg(expr, "%s", "Assertion '" #expr "' failed")

#define CK_COMPARE(type, show, x, op, y)                                                           \
    do {                                                                                           \
        const type ck_x = (x), ck_y = (y);                                                         \
        if (!(ck_x op ck_y))                                                                       \
            ck_fail_at(__FILE__, __LINE__, "Assertion '%s' failed: " show ", " show,               \
                       #x " " #op " " #y, ck_x, ck_y);                                             \
    } while (0)
#define CK_INT(x, op, y)    CK_COMPARE(long long, "%lld", x, op, y)
#define CK_UINT(x, op, y)   CK_COMPARE(unsigned long long, "%llu", x, op, y)
#define CK_DOUBLE(x, op, y) CK_COMPARE(double, "%.17g", x, op, y)
#define CK_POINTER(x, op, y)                                                                       \
    do {                                                                                           \
        const void *ck_x = (x), *ck_y = (y);                                                       \
        if (!(ck_x op ck_y))                                                                       \
            ck_fail_at(__FILE__, __LINE__, "Assertion '%s' failed: %p, %p", #x " " #op " " #y,     \
                       ck_x, ck_y);                                                                \
    } while (0)
#define CK_TEXT(x, op, y)                                                                          \
    do {                                                                                           \
        const char *ck_x = (x), *ck_y = (y);                                                       \
        if (!ck_x || !ck_y || !(strcmp(ck_x, ck_y) op 0))                                          \
            ck_fail_at(__FILE__, __LINE__, "Assertion '%s' failed: \"%s\", \"%s\"",                \
                       #x " " #op " " #y, ck_x ? ck_x : "(null)", ck_y ? ck_y : "(null)");         \
    } while (0)

#define ck_assert_int_eq(x, y)    CK_INT(x, ==, y)
#define ck_assert_int_ne(x, y)    CK_INT(x, !=, y)
#define ck_assert_int_lt(x, y)    CK_INT(x, <, y)
#define ck_assert_int_le(x, y)    CK_INT(x, <=, y)
#define ck_assert_int_gt(x, y)    CK_INT(x, >, y)
#define ck_assert_int_ge(x, y)    CK_INT(x, >=, y)
#define ck_assert_uint_eq(x, y)   CK_UINT(x, ==, y)
#define ck_assert_uint_ne(x, y)   CK_UINT(x, !=, y)
#define ck_assert_uint_lt(x, y)   CK_UINT(x, <, y)
#define ck_assert_uint_le(x, y)   CK_UINT(x, <=, y)
#define ck_assert_uint_gt(x, y)   CK_UINT(x, >, y)
#define ck_assert_uint_ge(x, y)   CK_UINT(x, >=, y)
#define ck_assert_float_eq(x, y)  CK_DOUBLE((double)(x), ==, (double)(y))
#define ck_assert_double_eq(x, y) CK_DOUBLE(x, ==, y)
#define ck_assert_double_ne(x, y) CK_DOUBLE(x, !=, y)
#define ck_assert_double_lt(x, y) CK_DOUBLE(x, <, y)
#define ck_assert_double_le(x, y) CK_DOUBLE(x, <=, y)
#define ck_assert_double_gt(x, y) CK_DOUBLE(x, >, y)
#define ck_assert_double_ge(x, y) CK_DOUBLE(x, >=, y)
#define ck_assert_double_nan(x)   ck_assert(isnan((double)(x)))
#define ck_assert_double_eq_tol(x, y, t)                                                           \
    do {                                                                                           \
        const double ck_x = (x), ck_y = (y), ck_t = (t);                                           \
        if (!(fabs(ck_x - ck_y) < ck_t))                                                           \
            ck_fail_at(__FILE__, __LINE__, "Assertion '%s' failed: %.17g, %.17g, within %g",       \
                       #x " == " #y, ck_x, ck_y, ck_t);                                            \
    } while (0)
#define ck_assert_ptr_eq(x, y)   CK_POINTER(x, ==, y)
#define ck_assert_ptr_ne(x, y)   CK_POINTER(x, !=, y)
#define ck_assert_ptr_null(x)    CK_POINTER(x, ==, NULL)
#define ck_assert_ptr_nonnull(x) CK_POINTER(x, !=, NULL)
#define ck_assert_str_eq(x, y)   CK_TEXT(x, ==, y)
#define ck_assert_str_ne(x, y)   CK_TEXT(x, !=, y)
#define ck_assert_mem_eq(x, y, size)                                                               \
    ck_assert_msg(memcmp(x, y, size) == 0, "Assertion '%s' failed", #x " == " #y)

#endif
