/* Code that runs around an op's forward and backward if context->observed is set: in debug mode and
 * while a profile runs. */
#ifndef CTI_AUTOGRAD_OBSERVE_H
#define CTI_AUTOGRAD_OBSERVE_H

#include "../core/profile.h"
#include "debug.h"

/* These run around ct_apply. In debug mode cti_observe_enter returns false if another thread is
 * inside the context. */
bool cti_observe_enter(ct_context *context, const ct_op *op, cti_span *span);
void cti_observe_leave(ct_context *context, cti_span *span);

/* Runs after a forward that has succeeded, and after its recording; `given` are the inputs of
 * ct_apply. Returns false with an error if debug mode has found the first NaN. */
bool cti_observe_result(const ct_call *call, ct_tensor *const *given);

/* These run around the backward of a node. cti_observe_node begins the span and returns the result
 * of cti_debug_node_is_clean. cti_observe_node_end ends the span and returns `done`, or false if
 * debug mode has found the first NaN. */
bool cti_observe_node(const cti_node *node, cti_span *span);
/* Counts the bytes that an op's backward has read and written, when it has succeeded. A backward
 * that returns its cotangents has read none. */
void cti_observe_gradients(const cti_node *node, ct_tensor *const *cotangents,
                           ct_tensor *const *grad);
bool cti_observe_node_end(const cti_node *node, cti_span *span, bool clean, bool done);

#endif
