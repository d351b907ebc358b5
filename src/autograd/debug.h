/* Debug mode (ct_context_opts.debug): the first NaN is an error with the name of the op that made
 * it. Nothing here runs outside debug mode. Its other parts: core/memory.c fills free memory with
 * ones, core/handle.h keeps the shape and maker of a
 * handle that has ended for the message of its error. */
#ifndef CTI_AUTOGRAD_DEBUG_H
#define CTI_AUTOGRAD_DEBUG_H

#include "tape.h"

/* After a forward. False, with an error recorded: an output has a NaN and no input has one. The
 * node, if there is one, is marked as tainted if an output or an input has a NaN. A call that
 * another op's forward or backward makes is left to that op: a program knows the op that it has
 * called, and a NaN on the way need not reach a result. */
bool cti_debug_result(const ct_call *call);

/* Before an op's backward: whether nothing that it reads or adds to has a NaN. */
bool cti_debug_node_is_clean(const cti_node *node);
/* After such a backward. False, with an error recorded: a gradient of an input has a NaN. */
bool cti_debug_gradients(const cti_node *node);

#endif
