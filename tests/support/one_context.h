/* A context for each test, and checks of its error and memory. */
#ifndef ONE_CONTEXT_H
#define ONE_CONTEXT_H

#include "refused.h"

static ct_context *context;

/* A suite that wants debug mode defines ONE_CONTEXT_DEBUG as true before it includes this
 * header. */
#ifndef ONE_CONTEXT_DEBUG
#define ONE_CONTEXT_DEBUG false
#endif

static inline void setup(void) {
    context =
        ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = ONE_CONTEXT_DEBUG});
}
static inline void teardown(void) { ct_context_free(context); }

static inline void no_error(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

static inline int64_t live(void) { return ct_memory(context).live; }

/* Checks that the pending error has this status and that its message contains both words, and
 * clears it. */
static inline void expect_in(ct_context *c, ct_status status, const char *word1,
                             const char *word2) {
    refused_in(c, false, "the call before", status, word1, word2);
}
static inline void expect(ct_status status, const char *word1, const char *word2) {
    expect_in(context, status, word1, word2);
}

#endif
