/* What runs around an op's forward and backward in debug mode and while a profile runs, that is, if
 * context->observed. */
#ifndef CTI_AUTOGRAD_OBSERVE_H
#define CTI_AUTOGRAD_OBSERVE_H

#include "../core/profile.h"
#include "debug.h"

/* Around ct_apply. False: another thread is inside the context (debug mode). */
bool cti_observe_enter(ct_context *context, const ct_op *op, cti_span *span);
void cti_observe_leave(ct_context *context, cti_span *span);

/* After a forward that has succeeded, and its recording; `given` are the inputs of ct_apply. False,
 * with an error recorded: debug mode has found the first NaN. */
bool cti_observe_result(const ct_call *call, ct_tensor *const *given);

/* Around the backward of a node. The first begins the span, and returns what
 * cti_debug_node_is_clean says; the last ends it, and returns `done`, or false if debug mode has
 * found the first NaN. */
bool cti_observe_node(const cti_node *node, cti_span *span);
/* Between, when the op's backward has succeeded: counts the bytes that it has read and written. One
 * that hands on its cotangents has read none. */
void cti_observe_gradients(const cti_node *node, ct_tensor *const *cotangents,
                           ct_tensor *const *grad);
bool cti_observe_node_end(const cti_node *node, cti_span *span, bool clean, bool done);

#endif
