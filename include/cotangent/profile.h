/* Where the time goes: by op, by module, and as a trace to look at.
 *
 *     ct_profile_start(context);
 *     for (int64_t step = 0; step < 10; step++) train(step);
 *     ct_profile_stop(context);
 *     ct_profile_print(context, stdout);
 *     ct_profile_trace(context, "trace.json");
 *
 * What is timed: each forward and each backward of an op, with the name of the op, a program's own
 * too; each update in place (an optimiser's step, the norm of clipping, fills, copies); each
 * forward of a module. Times are of the caller's thread, from begin to end, without what is timed
 * inside: where an op's forward or backward calls other ops, their time is theirs. So the times add
 * up to the wall time between start and stop, with one line for what is outside of all ops: the
 * program itself, new tensors, files.
 *
 * A module is named as in messages of errors, "layers.2.linear1", or by its kind if it has no name.
 * A backward belongs to the module in which its forward ran while the profile ran, an op that a
 * backward calls to the module of that backward. What ct_recompute runs again counts as backward,
 * and what its first run would save counts as kept only if it stays. An op outside of any module is
 * listed under "-".
 *
 * While no profile runs this costs one comparison where an op checks for debug mode anyway, one for
 * a product and one for a module. Results are the same bits with and without.
 *
 * Memory is taken by the first ct_profile_start alone, some 8 MB that the context counts as in use,
 * and kept until the context ends. The tables have a row for each of the first CT_PROFILE_OPS ops
 * and CT_PROFILE_MODULES modules, and one, "others", for all that come later. The trace has the
 * first CT_PROFILE_EVENTS events; the tables count all. */
#ifndef CT_PROFILE_H
#define CT_PROFILE_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_PROFILE_OPS = 256, CT_PROFILE_MODULES = 1024, CT_PROFILE_EVENTS = 65536 };

/* Starts to record, from zero if a profile runs or has run. Inside the forward or backward of an op
 * or a module it is CT_ERR_ARGUMENT. */
CT_API bool ct_profile_start(ct_context *context);
/* Stops. Works while an error is pending. CT_ERR_ARGUMENT: no profile runs. Calls that have not
 * returned yet count until now. */
CT_API bool ct_profile_stop(ct_context *context);

/* Both may be called after stop or while the profile runs, and while an error is pending; calls
 * that have not returned yet are left out. */

/* Prints two tables. Ops, the longest time first: calls and milliseconds of forward (and updates)
 * and of backward; share of the wall time; for products and attention GFLOP/s, from their sizes,
 * for others GB/s, the bytes of all inputs and outputs; MB of the outputs that were made (views
 * make none), and of what was saved for backward beside parameters. Modules, as a tree: a row has
 * the times of all that is inside, and beside them its own, which add up. */
CT_API void ct_profile_print(ct_context *context, FILE *file);

/* Writes the events as Chrome's trace-event JSON, which https://ui.perfetto.dev and
 * chrome://tracing open: ops inside modules, with shapes, forward and backward as categories, and
 * memory in use. The file is replaced when all is written, or not at all. How many events did not
 * fit is in the file, under otherData, and printed by ct_profile_print. CT_ERR_ARGUMENT: no profile
 * was started. */
CT_API bool ct_profile_trace(ct_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
