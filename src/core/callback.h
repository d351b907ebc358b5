/* Callbacks: functions of the program that the library calls during a call of its own, such as an
 * op's forward or on_error. A callback must return. If a C++ exception or longjmp leaves it, the
 * library's frames on the C stack are gone, but the program must not crash: the next call of the
 * library in this context finds the callback and records an error.
 *
 *                    begin                     the function returns
 *     no record --------------> running -------------------------------> no record
 *                                  |                                         ^
 *                                  `--- left; the next call finds it: error -'
 *
 * Invariants:
 *
 * 1. While a callback runs, no cti_frame of its context lies on the C stack. The frames of the
 *    calls that are running are moved into the callback's record, and back when the callback has
 *    returned. So handles, scopes and frames stay consistent even if the stack is lost.
 * 2. context->callback is the list of the records of the callbacks that are running, the innermost
 *    first, and context->callbacks is its length.
 * 3. A record has the state of the context with which calls inside the callback begin. After the
 *    callback of a record was left, the frames of the calls that ran it are closed, their changes
 *    of the program's tensors are undone (cti_undo), and the state of the record around it is set
 *    again.
 * 4. A callback runs a gap of some KB further down the stack than the call that runs it:
 *
 *        program | call of the library | gap | callback | calls inside the callback
 *                                      ^ record->stack
 *
 *    Calls inside the callback begin below record->stack. A call that begins above it proves that
 *    the callback was left.
 *
 * After a callback was left, the next call of the program begins above record->stack, unless the
 * program has gone further down than the gap; then a later call finds the callback. A call from
 * another thread proves nothing. Neither does a call from a stack that the program has made itself,
 * such as the stack of a coroutine, or a callback that was run on such a stack: these stacks lie
 * below or above each other at random.
 *
 * The check adds nothing to the path of an op, because cti_ready reads the status and the number of
 * running callbacks as one number. */
#ifndef CTI_CORE_CALLBACK_H
#define CTI_CORE_CALLBACK_H

#include "context.h"

/* Calls call(arg), which calls the callback. `what` is the callback's kind ("forward") and `name`
 * the name of its op, for messages. If memory is short it records CT_ERR_MEMORY and returns false,
 * and call is not called. */
bool cti_callback_run(ct_context *context, const char *what, const char *name, void (*call)(void *),
                      void *arg);

/* Memory for a callback that must run even if memory is short. */
enum { CTI_RESERVED_FRAMES = 4 };
typedef struct {
    cti_callback record;
    cti_moved_frame moved[CTI_RESERVED_FRAMES];
} cti_callback_reserve;

/* Does the work of cti_callback_run in reserved memory. If more frames would have to move than it
 * has room for, the callback runs without a record and is not found if it is left. */
void cti_callback_run_in(cti_callback_reserve *reserve, ct_context *context, const char *what,
                         const char *name, void (*call)(void *), void *arg);
/* Does the same for on_error, in memory that the context has reserved. If more than
 * CTI_REPORT_FRAMES frames would have to move, it calls on_error without a record. */
void cti_callback_report(ct_context *context, void (*call)(void *), void *arg);

/* The present address of a frame that a running call has opened on the C stack: the address in a
 * record to which it was moved, or its own. */
cti_frame *cti_callback_frame(const ct_context *context, cti_frame *frame);

#endif
