/* One step of Adam or AdamW of all parameters. The kernel has the formula.
 * Kingma & Ba 2014, arXiv:1412.6980 */
#include "../support/op.h"
#include "update.h"
#include "../../src/kernels/elementwise.h"

#include <math.h>

enum { ADAM_UNIT = 64, ADAM_STATES = 2 };

/* An item's `work`: 1 - beta^t. */
enum { BIAS1, BIAS2 };

static void adam_elements(const cti_elementwise_kernels *kernels, int64_t n, void *param,
                          const void *grad, void *const state[ADAM_STATES], const void *numbers) {
    kernels->adam(n, param, grad, state[0], state[1], numbers);
}

static void adam_task(void *arg, const ct_optim_item *item, int64_t first, int64_t at,
                      int64_t count) {
    const cti_adam_numbers numbers = {.lr = item->lr,
                                      .beta1 = item->numbers[CTI_OP_BETA1],
                                      .beta2 = item->numbers[CTI_OP_BETA2],
                                      .eps = item->numbers[CTI_OP_EPS],
                                      .weight_decay = item->weight_decay,
                                      .bias1 = item->work[BIAS1],
                                      .bias2 = item->work[BIAS2],
                                      .grad_scale = item->grad_scale,
                                      .decoupled = *(const bool *)arg};
    (void)first;
    cti_op_step_elements(item, ADAM_STATES, at, count, adam_elements, &numbers);
}

/* Fills in the bias corrections of all[i]. Items mostly have the step and the numbers of the item
 * before, and two calls of pow take 250 instructions. */
static void correct_bias(ct_optim_item *all, int64_t i) {
    ct_optim_item *item = &all[i];
    if (i && item->step == item[-1].step && item->numbers == item[-1].numbers) {
        item->work[BIAS1] = item[-1].work[BIAS1];
        item->work[BIAS2] = item[-1].work[BIAS2];
    } else {
        item->work[BIAS1] = 1 - pow(item->numbers[CTI_OP_BETA1], (double)item->step);
        item->work[BIAS2] = 1 - pow(item->numbers[CTI_OP_BETA2], (double)item->step);
    }
}

bool cti_op_adam_step(ct_optim_item *all, int64_t n, bool decoupled) {
    for (int64_t i = 0; i < n; i++) {
        if (!cti_op_step_is_ready(&all[i], ADAM_STATES, "adam_step")) return false;
        correct_bias(all, i);
    }
    cti_op_step_all(all, n,
                    (cti_op_step_job){.name = "adam_step",
                                      .arrays = 7, /* four are read and three written */
                                      .unit = ADAM_UNIT,
                                      .grain = cti_op_grain(4 * ADAM_UNIT),
                                      .task = adam_task,
                                      .arg = &decoupled});
    for (int64_t i = 0; i < n; i++) cti_op_step_wrote(&all[i], ADAM_STATES);
    return true;
}
