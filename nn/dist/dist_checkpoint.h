/* The steps of saving and loading that need other ranks. All ranks call each function.
 *
 *     save    meet ok --> meet facts equal --> ranges to rank 0 --> rank 0 writes --> meet written
 *
 *     load    rank 0 reads --> meet read --> meet counts equal --> found and steps to all
 *             --> meet memory taken --> meet names equal --> tensors and states to all
 *             --> meet received --> all commit
 *
 * (1) Only rank 0 has a file. The others send it their states, or receive theirs.
 *
 * (2) After a meeting that fails no rank has changed anything. All ranks have the same error, if no
 * rank was lost.
 *
 * (3) Every transfer is between two meetings that all ranks reach. A rank with an error reports it
 * at the next meeting. */
#ifndef CTI_NN_DIST_DIST_CHECKPOINT_H
#define CTI_NN_DIST_DIST_CHECKPOINT_H

#include "../state.h"
#include "dist.h"

/* Makes copies of n optimisers for rank 0 to save at this step. The copies of optimisers with a
 * ct_dist have whole states in the innermost scope, which all ranks send. False, on all ranks, if
 * one was not `ok` or has another step or other optimisers than rank 0. Call cti_dist_gathered_free
 * in any case. */
bool cti_dist_gather(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *whole,
                     int64_t step, bool ok);
void cti_dist_gathered_free(ct_optim *const *optims, int64_t n, ct_optim *whole);

/* Sends the tensors of rank 0's state, and its drafts, to all ranks. The other ranks have a state
 * and drafts of the same names, into which nothing was read; their states are cut to ranges. False,
 * on all ranks, if nothing was changed. */
bool cti_dist_scatter(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *drafts,
                      cti_nn_state *state, bool ok);

#endif
