/* ct_recompute, for modules, and what other parts of the engine need to know of its node. */
#ifndef CTI_AUTOGRAD_RECOMPUTE_H
#define CTI_AUTOGRAD_RECOMPUTE_H

#include "tape.h"

/* The op of the node that stands for a function that backward runs again. The node has an edge for
 * each input of the function that has a gradient, and one for each other leaf or result from
 * outside that the function has used, so its edges are all through which gradients will leave it.
 * They arrive there after its own backward: that puts the nodes of the second run on the tape just
 * before it (cti_node.moved), and the loop comes to these next. */
extern const ct_op cti_op_recompute;

/* ct_recompute, which copies arg_size bytes of `arg`, at most CTI_RECOMPUTE_ARG, for the second
 * run; 0: passes on the pointer. */
enum { CTI_RECOMPUTE_ARG = 128 };
ct_tensor *cti_recompute(ct_fn fn, void *arg, size_t arg_size, ct_tensor *const *in, int n);

/* In backward.c, for the backward of this op: adds a gradient to a slot of a node that is on the
 * tape before the one that is running. False: out of memory, recorded. */
bool cti_backward_continue(cti_grad_slot *slot, ct_tensor *grad);

#endif
