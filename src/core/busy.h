/* What a context is in the middle of, for functions that must not be called meanwhile.
 *
 * A context is lent to a function of the program that the library calls while an object is at work,
 * such as the function that sends a message. The function must return, and it must not free what
 * the library works with:
 *
 *     cti_lend --> the function runs, and a call that would free is refused --> cti_lend_end
 *
 * Invariants:
 *
 * 1. While the context is lent, ct_context_free is refused, and so is the end of each object whose
 *    owner asks cti_is_lent.
 * 2. Loans may nest. A function that was refused in an inner loan was refused in the outer one,
 * too.
 * 3. A function that is left by longjmp or an exception runs for ever: its loan does not end. But
 * if a callback around the loan was left, the loan has ended (callback.h). */
#ifndef CTI_CORE_BUSY_H
#define CTI_CORE_BUSY_H

#include <cotangent/types.h>

/* Lends the context to a function of `owner`, in words for messages: "a comm's engine". */
void cti_lend(ct_context *context, const char *owner);

/* Ends the loan. Returns the name of the last function that was refused in it, or NULL. */
const char *cti_lend_end(ct_context *context);

/* Whether the context is lent. Then `function` is refused: it must not be called, and the error is
 * recorded under its name. */
bool cti_is_lent(ct_context *context, const char *function);

#endif
