/* ct_recompute for modules, and the op of its node. */
#ifndef CTI_AUTOGRAD_RECOMPUTE_H
#define CTI_AUTOGRAD_RECOMPUTE_H

#include "tape.h"

/* The op of the node that stands for a function that backward runs again. The node has an edge for
 * each input of the function that has a gradient, and one for each other leaf or result from
 * outside that the function has used, so gradients leave the function through these edges only.
 * These gradients arrive after the node's own backward has run: it puts the nodes of the second run
 * on the tape just before the node (cti_node.moved), and the loop of the backward runs them
 * next. */
extern const ct_op cti_op_recompute;

/* Does the work of ct_recompute, with a copy of arg_size bytes of `arg`, at most CTI_RECOMPUTE_ARG,
 * which the second run reads. If arg_size is 0 both runs read `arg` itself. */
enum { CTI_RECOMPUTE_ARG = 192 };
ct_tensor *cti_recompute(ct_fn fn, void *arg, size_t arg_size, ct_tensor *const *in, int n);

/* Adds a gradient to a slot of a node that is older than the running node. The backward of
 * cti_op_recompute calls this, and backward.c defines it. Returns false with an error if memory is
 * short. */
bool cti_backward_continue(cti_grad_slot *slot, ct_tensor *grad);

#endif
