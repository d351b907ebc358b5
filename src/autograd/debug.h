/* Debug mode (ct_context_opts.debug): the first NaN is an error with the name of the op that made
 * it. This code runs in debug mode only. Other files have the rest of debug mode: core/memory.c
 * fills free memory with ones, and core/handle.h keeps the shape and the maker of a handle that has
 * ended, which its error names. */
#ifndef CTI_AUTOGRAD_DEBUG_H
#define CTI_AUTOGRAD_DEBUG_H

#include "tape.h"

/* Runs after a forward. Returns false with an error if an output has a NaN and no input has one.
 * The call's node, if it has one, becomes tainted if an output or an input has a NaN. Calls inside
 * another op's forward or backward are not searched: a program knows the op that it has called, and
 * a NaN inside need not reach a result. */
bool cti_debug_result(const ct_call *call);

/* Runs before an op's backward. Returns whether no tensor that it reads or adds to has a NaN. */
bool cti_debug_node_is_clean(const cti_node *node);
/* Runs after the backward of a clean node. Returns false with an error if the gradient of an input
 * has a NaN. */
bool cti_debug_gradients(const cti_node *node);

#endif
