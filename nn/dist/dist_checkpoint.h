/* What a checkpoint needs of a ct_dist. Each is called by all ranks. */
#ifndef CTI_NN_DIST_DIST_CHECKPOINT_H
#define CTI_NN_DIST_DIST_CHECKPOINT_H

#include "../state.h"
#include "dist.h"

/* Copies of n optimisers for rank 0 to save at this step: those that have a ct_dist get whole
 * states, which all ranks send, of the innermost scope. False, on all ranks: not all were `ok`, or
 * one has another step or other optimisers than rank 0. Freed in any case. */
bool cti_dist_gather(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *whole,
                     int64_t step, bool ok);
void cti_dist_gathered_free(ct_optim *const *optims, int64_t n, ct_optim *whole);

/* Gives all ranks what rank 0 has read: its state's tensors and its drafts. The others come with a
 * state and drafts of the same names, which nothing was read into; states are in parts then. False,
 * on all ranks: nothing was changed. */
bool cti_dist_scatter(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *drafts,
                      cti_nn_state *state, bool ok);

#endif
