/* AdamW as a part of other rules. */
#ifndef CTI_NN_OPTIM_ADAM_H
#define CTI_NN_OPTIM_ADAM_H

#include "optim.h"

/* The numbers of a rule that is AdamW, in the order of CTI_OP_BETA1, ... eps may be 0 as in torch;
 * then v = 0 gives NaN. */
#define CTI_NN_BETA1 {.name = "beta1", .value = 0.9, .most = 1, .open_most = true}
#define CTI_NN_BETA2 {.name = "beta2", .value = 0.999, .most = 1, .open_most = true}
#define CTI_NN_EPS   {.name = "eps", .value = 1e-8}

extern const char *const cti_nn_adam_states[2];
bool cti_nn_adamw_step(ct_optim_item *items, int64_t n, void *user);

#endif
