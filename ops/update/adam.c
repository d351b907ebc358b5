/* One step of Adam or AdamW of all parameters: the kernel's formula.
 * Kingma & Ba 2014, arXiv:1412.6980 */
#include "../support/op.h"
#include "update.h"

enum { ADAM_UNIT = 64, ADAM_STATES = 2 };

static void adam_task(void *arg, const cti_op_step *s, int64_t first, int64_t at, int64_t count) {
    (void)arg, (void)first;
    const size_t place = (size_t)at * cti_dtype_size(s->p->dtype);
    s->p->context->isa->of[s->p->dtype]->adam(count, s->p->data + place, s->g->data + place,
                                              s->state[0]->data + place, s->state[1]->data + place,
                                              &s->numbers.adam);
}

bool cti_op_adam_step(cti_op_step *all, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!cti_op_step_is_ready(&all[i], ADAM_STATES, "adam_step")) return false;
    cti_op_step_all(all, n,
                    (cti_op_step_job){.name = "adam_step",
                                      .arrays = 7, /* four are read and three written */
                                      .unit = ADAM_UNIT,
                                      .grain = cti_op_grain(4 * ADAM_UNIT),
                                      .task = adam_task});
    for (int64_t i = 0; i < n; i++) cti_op_step_wrote(&all[i], ADAM_STATES);
    return true;
}
