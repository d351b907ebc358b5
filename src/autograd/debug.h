/* Debug mode, ct_context_opts.debug. Memory that is free is all ones (memory.c); a handle that has
 * ended is kept for a while, so that its use is an error (ended.c); and the first NaN is named with
 * the op that made it. Nothing here runs in other contexts. */
#ifndef CTI_AUTOGRAD_DEBUG_H
#define CTI_AUTOGRAD_DEBUG_H

#include "tape.h"

/* False, with an error that names the op: an output has a NaN and the inputs have none. The
 * outputs' node remembers whether one of them has. */
bool cti_debug_result(const ct_call *call);

/* Before and after an op's backward. A backward may be watched when nothing it reads or adds to has
 * a NaN yet; what gathers for its inputs must then have none either: false, with an error that
 * names the op. */
bool cti_debug_watches(const cti_node *node);
bool cti_debug_gradients(const cti_node *node);

#endif
