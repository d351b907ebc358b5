/* A context for each test, and what is asked of its error in a line. */
#ifndef ONE_CONTEXT_H
#define ONE_CONTEXT_H

#include <cotangent/cotangent.h>
#include <string.h>

#include "suite.h"

static ct_context *context;

static inline void setup(void) {
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
}
static inline void teardown(void) { ct_context_free(context); }

static inline void no_error(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

/* The error that is pending names these words; it is cleared. */
static inline void expect(ct_status status, const char *word1, const char *word2) {
    const char *message = ct_error_message(context);
    ck_assert_msg(ct_error(context) == status, "status %d: %s", (int)ct_error(context), message);
    ck_assert_msg(strstr(message, word1) && strstr(message, word2),
                  "\"%s\" names not both %s and %s", message, word1, word2);
    ct_error_clear(context);
}

#endif
