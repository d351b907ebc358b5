/* What every suite ends with. */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdlib.h>

/* A test that hangs ends, one that a sanitizer slows does not. Check reads this where a case of tests is made. */
__attribute__((constructor)) static void limit_time(void) { setenv("CK_DEFAULT_TIMEOUT", "400", 0); }

/* Runs it; what main returns. */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
