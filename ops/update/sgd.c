/* One step of gradient descent of all parameters, with or without momentum. The kernel has the
 * formula. */
#include "../support/op.h"
#include "../../src/core/isa.h"
#include "update.h"
#include "../../src/kernels/elementwise.h"

enum { SGD_UNIT = 64 };

static int sgd_states(const ct_optim_item *item) { return item->numbers[CTI_OP_MOMENTUM] != 0; }

static void sgd_task(void *arg, const ct_optim_item *item, int64_t first, int64_t at,
                     int64_t count) {
    const ct_tensor *p = item->param;
    const size_t place = (size_t)at * cti_dtype_size(p->dtype);
    const cti_sgd_numbers numbers = {.lr = item->lr,
                                     .momentum = item->numbers[CTI_OP_MOMENTUM],
                                     .dampening = item->numbers[CTI_OP_DAMPENING],
                                     .weight_decay = item->weight_decay,
                                     .grad_scale = item->grad_scale,
                                     .nesterov = item->numbers[CTI_OP_NESTEROV] != 0,
                                     .first = item->step == 1};
    (void)arg, (void)first;
    p->context->isa->of[p->dtype]->elementwise->sgd(
        count, p->data + place, item->grad->data + place,
        sgd_states(item) ? item->state[0]->data + place : NULL, &numbers);
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
