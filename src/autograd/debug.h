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
 * a NaN inside need not reach a result. In a composition of ops they make nodes tainted, and a NaN
 * is an error if it reaches the composition's result. */
bool cti_debug_result(const ct_call *call);

/* These run around a composition of recorded ops that a program knows as one op.
 * cti_composition_end returns false with an error, in debug mode, if a result has a NaN and no
 * input has one; a result may be NULL. */
void cti_composition_begin(ct_context *context, cti_running *composition, const char *name,
                           ct_tensor *const *given, int n);
bool cti_composition_end(ct_context *context, const cti_running *composition,
                         ct_tensor *const *results, int n);

/* Runs before an op's backward. Returns whether no tensor that it reads or adds to has a NaN. */
bool cti_debug_node_is_clean(const cti_node *node);
/* Runs after the backward of a clean node. Returns false with an error if the gradient of an input
 * has a NaN. */
bool cti_debug_gradients(const cti_node *node);

#endif
