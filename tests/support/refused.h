/* The check of a call that must be refused: it returns false or NULL, and its error has this status
 * and both words. The check clears the error. */
#ifndef REFUSED_H
#define REFUSED_H

#include <cotangent/cotangent.h>
#include <string.h>

#include "suite.h"

static inline void refused_in(ct_context *c, bool done, const char *call, ct_status status,
                              const char *word1, const char *word2) {
    const char *message = ct_error_message(c);
    ck_assert_msg(!done, "%s: accepted; it should say \"%s\" and \"%s\"", call, word1, word2);
    ck_assert_msg(ct_error(c) == status, "%s: status %d: %s", call, (int)ct_error(c), message);
    ck_assert_msg(strstr(message, word1) && strstr(message, word2),
                  "%s: \"%s\" does not name both \"%s\" and \"%s\"", call, message, word1, word2);
    ct_error_clear(c);
    ck_assert_int_eq(ct_error(c), CT_OK);
}

/* Checks a call in the suite's own context, which must return false or NULL. */
#define ck_refused(call, status, word1, word2)                                                     \
    refused_in(context, call, #call, status, word1, word2)

#endif
