/* The parts of a save and a load that need the other processes of a group: the states of optimisers
 * whose clients step ranges, and the values that the first process has read. checkpoint_group.h has
 * the protocol. */
#ifndef CTI_NN_TOGETHER_H
#define CTI_NN_TOGETHER_H

#include "checkpoint_group.h"
#include "optim/optim.h"
#include "state.h"

/* Makes the copies of n optimisers that the first process saves at this step. All processes send
 * the states of their ranges, and the first process's copies have whole states, in the innermost
 * scope. False, on all processes, if one was not `ok` or has another step or other optimisers than
 * the first. Call cti_nn_gathered_free in any case. */
bool cti_nn_gather(ct_checkpoint_group *group, ct_optim *const *optims, int64_t n, ct_optim *whole,
                   int64_t step, bool ok);
void cti_nn_gathered_free(ct_optim *const *optims, int64_t n, ct_optim *whole);

/* Sends the tensors of the first process's state, and its drafts, to all processes. The others have
 * a state and drafts of the same names, into which nothing was read; their drafts have states of
 * the ranges. False, on all processes, if nothing was changed. */
bool cti_nn_scatter(ct_checkpoint_group *group, ct_optim *const *optims, int64_t n,
                    ct_optim *drafts, cti_nn_state *state, bool ok);

#endif
