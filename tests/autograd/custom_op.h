/* Two contexts for the tests of custom ops: one to compute in, and another whose tensors must be
 * refused. */
#ifndef CUSTOM_OP_H
#define CUSTOM_OP_H

#include "tests/support/suite.h"
#include <cotangent/cotangent.h>
#include <string.h>

static ct_context *context, *other;

/* `debug` is _i of a loop test; 1 means debug mode. */
static inline void open_contexts(int debug) {
    unsetenv("CT_DEBUG");
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = debug});
    other = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
}
static inline void close_contexts(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "left pending: %s", ct_error_message(context));
    ct_context_free(context);
    ct_context_free(other);
}

#endif
