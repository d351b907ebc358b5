/* An optimiser in a checkpoint. KEY is "optim" or "optims.0":
 *
 *     KEY.lr, ...           its numbers, exact
 *     KEY.step.NAME         how many times each parameter was updated
 *     KEY.m.NAME, ...       the states of each that was updated
 *     KEY.lr_scale.NAME     the options of its group, for each that has one; weight_decay and
 *                           frozen likewise
 *
 * What the file has decides which parameters have a group or states after a load. So a load makes a
 * draft, a copy of the optimiser with those, reads into it, checks it, and then replaces the
 * optimiser's fields. */
#ifndef CTI_NN_OPTIM_SAVED_H
#define CTI_NN_OPTIM_SAVED_H

#include "../state.h"
#include "optim.h"

/* What a file has of an optimiser's slots, a byte for each. */
enum { CTI_NN_HAS_GROUP = 1, CTI_NN_HAS_STATE = 2 };
void cti_nn_look_up(const ct_optim *optim, const char *key, const cti_shards *file,
                    unsigned char *found);

/* Adds all tensors of an optimiser to save, or of a draft to load. */
bool cti_nn_optim_gather(cti_nn_state *state, const char *key, ct_optim *optim);

/* Makes a draft of the optimiser for what was found. With `parts` its states are those of the
 * slots' parts. Ended by cti_nn_draft_end, also where this fails. */
bool cti_nn_draft_begin(ct_optim *draft, const ct_optim *optim, const unsigned char *found,
                        bool cut);
/* Whether what was read passes the checks of the constructor and of ct_optim_group, and states,
 * steps and groups agree. False with CT_ERR_FORMAT. */
bool cti_nn_draft_check(const ct_optim *draft, const char *key, const cti_shards *file);
/* Replaces the optimiser's numbers, groups and states. Cannot fail. */
void cti_nn_draft_adopt(ct_optim *draft, ct_optim *optim);
void cti_nn_draft_end(ct_optim *draft);

#endif
