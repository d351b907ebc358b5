/* One step of gradient descent of all parameters, with or without momentum. The kernel has the
 * formula. */
#include "../support/op.h"
#include "update.h"
#include "../../src/kernels/elementwise.h"

enum { SGD_UNIT = 64 };

static int sgd_states(const ct_optim_item *item) { return item->numbers[CTI_OP_MOMENTUM] != 0; }

static void sgd_elements(const cti_elementwise_kernels *kernels, int64_t n, void *param,
                         const void *grad, void *const state[CTI_OP_STEP_STATES],
                         const void *numbers) {
    kernels->sgd(n, param, grad, state[0], numbers);
}

static void sgd_task(void *arg, const ct_optim_item *item, int64_t first, int64_t at,
                     int64_t count) {
    const cti_sgd_numbers numbers = {.lr = item->lr,
                                     .momentum = item->numbers[CTI_OP_MOMENTUM],
                                     .dampening = item->numbers[CTI_OP_DAMPENING],
                                     .weight_decay = item->weight_decay,
                                     .grad_scale = item->grad_scale,
                                     .nesterov = item->numbers[CTI_OP_NESTEROV] != 0,
                                     .first = item->step == 1};
    (void)arg, (void)first;
    cti_op_step_elements(item, sgd_states(item), at, count, sgd_elements, &numbers);
}

bool cti_op_sgd_step(ct_optim_item *all, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!cti_op_step_is_ready(&all[i], sgd_states(&all[i]), "sgd_step")) return false;
    cti_op_step_all(all, n,
                    (cti_op_step_job){.name = "sgd_step",
                                      .arrays = n && sgd_states(all) ? 5 : 3,
                                      .unit = SGD_UNIT,
                                      .grain = cti_op_grain(SGD_UNIT),
                                      .task = sgd_task});
    for (int64_t i = 0; i < n; i++) cti_op_step_wrote(&all[i], sgd_states(&all[i]));
    return true;
}
