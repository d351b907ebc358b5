/* An optimiser in a checkpoint. KEY is "optim" or "optims.0":
 *
 *     KEY.lr, ...           the optimiser's numbers, exact; a rest's are KEY.rest.beta1, ...
 *     KEY.step.NAME         the number of updates of each parameter
 *     KEY.m.NAME, ...       the states of each parameter that was updated; of a rest's parameter
 *                           KEY.rest.m.NAME, ...
 *     KEY.lr_scale.NAME     the options of the group, for each parameter that has one, also
 *                           KEY.weight_decay.NAME and KEY.frozen.NAME
 *
 * The file decides which parameters have a group or states after a load. So a load reads into a
 * draft:
 *
 *     look_up --> draft_begin --> read, draft_check --> draft_adopt --> draft_end
 *                      |                  |                                 ^
 *                      '------------------'----------- an error ------------'
 *
 * (1) The optimiser does not change before draft_adopt, which cannot fail.
 *
 * (2) Item i of the draft is of the same parameter as item i of the optimiser.
 *
 * (3) A draft owns its items' states until draft_adopt moves them to the optimiser. */
#ifndef CTI_NN_OPTIM_SAVED_H
#define CTI_NN_OPTIM_SAVED_H

#include "../state.h"
#include "optim.h"

/* The bits in `found`, which has a byte for each item: whether the file has the options of its
 * group, and whether it has a state of it. */
enum { CTI_NN_HAS_GROUP = 1, CTI_NN_HAS_STATE = 2 };
void cti_nn_look_up(const ct_optim *optim, const char *key, const cti_shards *file,
                    unsigned char *found);

/* Adds the tensors of an optimiser to the state: the optimiser itself for a save, a draft for a
 * load. */
bool cti_nn_optim_gather(cti_nn_state *state, const char *key, ct_optim *optim);

/* Makes a draft with the groups and states that were found. With `cut` the states have the lengths
 * of the items' ranges. Call cti_nn_draft_end also after a failure. */
bool cti_nn_draft_begin(ct_optim *draft, const ct_optim *optim, const unsigned char *found,
                        bool cut);
/* Checks the draft after reading: the numbers as a constructor and ct_optim_group check them, and
 * that states, steps and groups agree. False with CT_ERR_FORMAT. */
bool cti_nn_draft_check(const ct_optim *draft, ct_optim *optim, const char *key,
                        const cti_shards *file);
/* Moves the draft's numbers, groups and states to the optimiser. Cannot fail. */
void cti_nn_draft_adopt(ct_optim *draft, ct_optim *optim);
void cti_nn_draft_end(ct_optim *draft);

#endif
