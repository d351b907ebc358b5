/* The watcher of a context's leaves (ct_watch). It is told during a backward which leaves have
 * their whole gradient.
 *
 * (1) `uses` of a leaf is, from the begin of a backward to its end, the number of edges to the leaf
 * from nodes on the tape that have not run, whether this backward reaches them or a later one does.
 * The gradient is whole when it is 0, or at the end of the backward.
 *
 * (2) The program's functions run after a node has added its gradients, so no slot is lent.
 *
 * (3) Between the begin and the end of a backward the watcher's memory stays, even if one of its
 * functions calls ct_unwatch: context->watch is NULL then, and the last call that runs frees it. */
#ifndef CTI_AUTOGRAD_WATCH_H
#define CTI_AUTOGRAD_WATCH_H

#include <cotangent/autograd.h>

#include "tape.h"

/* Around the backward of these outputs. Each returns false if a function of the watcher has left an
 * error. */
bool cti_watch_begin(ct_context *context, ct_tensor *const *outs, int n, bool retain_graph);
bool cti_watch_end(ct_context *context, bool ok);

/* When a node has run and has added its gradients; its edges still exist. */
bool cti_watch_ran(ct_context *context, const cti_node *node);

#endif
