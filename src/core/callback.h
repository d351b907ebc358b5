/* Callbacks: functions of the program that the library calls while it is inside a call, such as an
 * op's forward or on_error. Each must return. One that is left by a C++ exception or by longjmp
 * takes the library's part of the C stack with it, and must still be no crash: the next call of the
 * library in the context finds it and records an error.
 *
 * 1. While a callback runs no frame of its context lies on the C stack. Those of the calls that are
 *    running are moved into the callback's record, and back when the callback has returned. So
 *    handles, scopes and frames stay consistent whatever happens to the stack.
 * 2. The record has the state of the context with which calls inside the callback begin. To leave
 *    such calls means to close their frames and to set that state again.
 * 3. A callback runs a gap of some KB further down the stack than the call that runs it:
 *
 *        program | call of the library | gap | callback | calls inside it
 *                                      ^ record->stack
 *
 *    Calls inside the callback are below the mark. A call that begins above it proves that the
 *    callback was left. After a callback was left, the program's next call is above the mark unless
 *    the program has gone further down than the gap; then a later call finds it. A call from
 *    another thread proves nothing, and neither does one from or into a stack that the program has
 *    made itself, as coroutines have them: such stacks lie below and above each other at random.
 *
 * The check costs the path of an op nothing, as cti_ready reads status and the number of callbacks
 * that are running as one number. */
#ifndef CTI_CORE_CALLBACK_H
#define CTI_CORE_CALLBACK_H

#include "context.h"

/* Calls call(arg), which calls the callback `what` ("forward") of `name`, the op or the like. False
 * with CT_ERR_MEMORY recorded: it was not called. */
bool cti_callback_run(ct_context *context, const char *what, const char *name, void (*call)(void *),
                      void *arg);

/* The same for on_error, in memory that the context has reserved. */
void cti_callback_report(ct_context *context, void (*call)(void *), void *arg);

/* The place of a frame that a running call has opened on the C stack: where it was moved to, or the
 * frame itself. */
cti_frame *cti_callback_frame(const ct_context *context, cti_frame *frame);

#endif
