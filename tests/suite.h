/* What every suite ends with. */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

/* Check writes into a file where each assertion held. Over each element of a tensor this takes
 * longer than the test: once for those that hold one after the other in one line. */
static inline bool new_line(int line) {
    static int last;
    return line != last && (last = line);
}
#define HELD() (new_line(__LINE__) ? mark_point() : (void)0)
#undef ck_assert
#undef ck_assert_msg
#define ck_assert(expr)          ((expr) ? HELD() : ck_abort_msg("%s", "Assertion '" #expr "' failed"))
#define ck_assert_msg(expr, ...) ((expr) ? HELD() : ck_abort_msg(__VA_ARGS__))

/* A test that hangs ends, one that a sanitizer slows does not. Check reads this where a case of
 * tests is made. */
__attribute__((constructor)) static void limit_time(void) {
    setenv("CK_DEFAULT_TIMEOUT", "400", 0);
}

/* Runs it; what main returns. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
