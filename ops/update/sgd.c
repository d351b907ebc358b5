/* One step of gradient descent of all parameters, with or without momentum: the kernel's
 * formula. */
#include "../support/op.h"
#include "update.h"

enum { SGD_UNIT = 64 };

static int sgd_states(const cti_op_step *s) { return s->numbers.sgd.momentum != 0; }

static void sgd_task(void *arg, const cti_op_step *s, int64_t first, int64_t at, int64_t count) {
    (void)arg, (void)first;
    const size_t place = (size_t)at * cti_dtype_size(s->p->dtype);
    s->p->context->isa->of[s->p->dtype]->sgd(count, s->p->data + place, s->g->data + place,
                                             sgd_states(s) ? s->state[0]->data + place : NULL,
                                             &s->numbers.sgd);
}

bool cti_op_sgd_step(cti_op_step *all, int64_t n) {
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
