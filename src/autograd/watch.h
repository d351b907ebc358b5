/* The watcher of a context's leaves (ct_watch). During a backward it calls the program's functions
 * when a leaf has its whole gradient.
 *
 *              cti_watch_begin           cti_watch_end
 *     IDLE -----------------------> EARLY -----------> IDLE
 *       |                                              ^
 *       `-------------------------> LATE --------------'
 *
 * IDLE   The watcher takes part in no backward.
 * EARLY  A leaf is reported as soon as its gradient is whole.
 * LATE   All leaves are reported at the end of the backward, because it retains the graph, an
 *        output is a watched leaf, or the tape has an op with CTI_OP_HIDES_LEAVES.
 *
 * Invariants:
 *
 * 1. In state EARLY `uses` of a leaf is the number of edges to the leaf from nodes on the tape that
 *    have not run in this backward. Nodes that the backward does not reach count too. The gradient
 *    is whole when `uses` is 0 or the backward ends.
 * 2. A leaf is reported at most once in a backward, and only if the backward reaches it.
 * 3. The program's functions run when no sum is lent, because they run after a node has added its
 *    gradients.
 * 4. While one of these functions runs the watcher's memory exists, even if the function calls
 *    ct_unwatch. That sets context->watch to NULL, and the memory is given back when the function
 *    has returned. */
#ifndef CTI_AUTOGRAD_WATCH_H
#define CTI_AUTOGRAD_WATCH_H

#include <cotangent/autograd.h>

#include "tape.h"

/* These run around the backward of `outs`. Each returns false if a function of the watcher has
 * recorded an error. cti_watch_end also returns false if `ok` is false. */
bool cti_watch_begin(ct_context *context, ct_tensor *const *outs, int n, bool retain_graph);
bool cti_watch_end(ct_context *context, bool ok);

/* Runs when a node has run and has added its gradients, while its edges still exist. Returns false
 * if a function of the watcher has recorded an error. */
bool cti_watch_ran(ct_context *context, const cti_node *node);

#endif
