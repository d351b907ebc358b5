/* Where the time goes: by op, by module, and as a trace to look at.
 *
 *     ct_profile_start(context);
 *     for (int64_t step = 0; step < 10; step++) train(step);
 *     ct_profile_stop(context);
 *     ct_profile_print(context, stdout);
 *     ct_profile_trace(context, "trace.json");
 *
 * A profile times each forward and each backward of an op (ops of the program included), each
 * update in place (an optimiser's step, the norm of clipping, fills, copies), and each forward of a
 * module. A time is wall time of the calling thread, without the timed calls inside: if an op calls
 * other ops, their time counts only for them. So the times of all ops and of the line "outside ops"
 * add up to the wall time between start and stop. "Outside ops" is the time of the program itself,
 * of making tensors, and of files.
 *
 * A module has the name that it has in error messages, such as "layers.2.linear1", or the name of
 * its kind if it has none. A backward counts for the module in which its forward ran during this
 * profile, and an op that a backward calls counts for the module of that backward. An op outside
 * all modules is listed under "-". The second run of ct_recompute counts as backward. A value that
 * its first run saves counts as kept only if it is still saved after this run.
 *
 * If no profile runs, each product and each module costs one comparison, and an op costs nothing:
 * it has one test for a profile and debug mode together. Results have the same bits with and
 * without a profile.
 *
 * Only the first ct_profile_start takes memory: some 8 MB, which count as in use and are kept until
 * the context is freed. The tables have rows for the first CT_PROFILE_OPS ops and
 * CT_PROFILE_MODULES modules, and one row, "others", for all later ones. The trace has the first
 * CT_PROFILE_EVENTS events; the tables count all. */
#ifndef CT_PROFILE_H
#define CT_PROFILE_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_PROFILE_OPS = 256, CT_PROFILE_MODULES = 1024, CT_PROFILE_EVENTS = 65536 };

/* Starts a profile, with all counts at zero. A profile that runs or has run is dropped. A call
 * inside the forward or backward of an op or a module is CT_ERR_ARGUMENT. */
CT_API bool ct_profile_start(ct_context *context);
/* Stops the profile. Calls that have not returned yet are counted up to now. This works while an
 * error is pending. A call while no profile runs is CT_ERR_ARGUMENT. */
CT_API bool ct_profile_stop(ct_context *context);

/* Both functions below may be called after the stop or while the profile runs, and while an error
 * is pending. They leave out calls that have not returned yet. */

/* Prints two tables. The table of ops has the longest time first. Its columns are
 *
 * - calls and milliseconds of forward (and of updates), then of backward;
 * - the share of the wall time;
 * - GFLOP/s, counted from the sizes, for products and attention;
 * - GB/s for other ops, counted from the bytes of all inputs and outputs;
 * - MB of the outputs that were made (views make none);
 * - MB that were saved for backward, without parameters.
 *
 * The table of modules is a tree. A row has the time of the module with all modules inside it, then
 * its own time without them. The own times of all rows add up to the time of all ops and
 * modules. */
CT_API void ct_profile_print(ct_context *context, FILE *file);

/* Writes the events as Chrome's trace-event JSON, which https://ui.perfetto.dev and
 * chrome://tracing open. It shows ops inside modules with their shapes, forward and backward as
 * categories, and the memory in use. The file is replaced only when everything has been written; if
 * a write fails, the old file stays. The number of events that did not fit is in the file, under
 * otherData; ct_profile_print prints it too. A call before any ct_profile_start is
 * CT_ERR_ARGUMENT. */
CT_API bool ct_profile_trace(ct_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
