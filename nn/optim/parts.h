/* The states of an optimiser whose client steps ranges of the parameters. One process of the client
 * has whole states; each process has the states of its own ranges.
 *
 * (1) Item i of the parts is of the same parameter as item i of `held` and of `of`.
 *
 * (2) Until cti_optim_parts_end the parts own the states of their items. */
#ifndef CTI_NN_OPTIM_PARTS_H
#define CTI_NN_OPTIM_PARTS_H

#include "optim.h"

struct cti_optim_parts {
    const ct_optim *held; /* the optimiser that has the client and the ranges */
    ct_optim *of;         /* the optimiser, or a draft of it, whose whole states are replaced */
    cti_nn_item *item;    /* [count] */
};

/* Makes parts for the whole states of `of`. Returns NULL with an error if memory is short. */
cti_optim_parts *cti_nn_parts_new(const ct_optim *held, ct_optim *of);

/* Moves all states between whole ones and parts; both are the items of an optimiser or a draft.
 * `whole` is NULL in a process that has none. */
void cti_nn_parts_move(const ct_optim *held, cti_nn_item *whole, cti_nn_item *part, bool to_whole);

#endif
