/* Tests for the states of a context in which some functions must not be called: a backward is
 * running, or the context is lent to a function of the program.
 *
 * A context is lent to a function of the program that the library calls while an object is at work,
 * such as the function that sends a message. The function must return, and it must not free an
 * object that the library is using:
 *
 *     cti_lend --> the function runs, and a call that would free is refused --> cti_lend_end
 *
 * Invariants:
 *
 * 1. While the context is lent, ct_context_free is refused, and so is each function that would free
 *    an object and calls cti_is_lent first.
 * 2. Loans may nest. A function that is refused in an inner loan counts as refused in the outer
 *    loans too. */
#ifndef CTI_CORE_BUSY_H
#define CTI_CORE_BUSY_H

#include <cotangent/types.h>

/* Lends the context to a function of `owner`, a text for messages such as "a comm's engine". */
void cti_lend(ct_context *context, const char *owner);

/* Ends the loan. Returns the name of the last function that was refused in it, or NULL. */
const char *cti_lend_end(ct_context *context);

/* Returns whether the context is lent. If so, `function` is refused: an error is recorded under its
 * name, and it must do nothing. */
bool cti_is_lent(ct_context *context, const char *function);

/* Returns whether a backward is running. */
bool cti_in_backward(const ct_context *context);

#endif
