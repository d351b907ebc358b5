/* Declarations of AdamW for other optimiser rules: Muon updates some of its parameters by AdamW. */
#ifndef CTI_NN_OPTIM_ADAM_H
#define CTI_NN_OPTIM_ADAM_H

#include "optim.h"

/* The options of AdamW for the .numbers of a rule, which stand at the indices CTI_OP_BETA1,
 * CTI_OP_BETA2 and CTI_OP_EPS. As in torch, eps may be 0; an element with m = v = 0 then becomes
 * NaN. */
#define CTI_NN_BETA1 {.name = "beta1", .value = 0.9, .most = 1, .open_most = true}
#define CTI_NN_BETA2 {.name = "beta2", .value = 0.999, .most = 1, .open_most = true}
#define CTI_NN_EPS   {.name = "eps", .value = 1e-8}

/* The names of the states, "m" and "v". */
extern const char *const cti_nn_adam_states[2];
/* The function .step_all of a rule; it updates n items by AdamW. */
bool cti_nn_adamw_step(ct_optim_item *items, int64_t n, void *user);

#endif
