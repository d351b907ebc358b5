/* One step of Adam or AdamW: the kernel's formula over fixed pieces.   Kingma & Ba 2014, arXiv:1412.6980 */
#include "op.h"
#include "update.h"

typedef struct {
    ct_tensor *p, *g, *m, *v;
    const ct_adam_numbers *numbers;
} stepping;

static void step_piece(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const stepping *s = arg;
    const size_t at = (size_t)begin * ct_dtype_size(s->p->dtype);
    s->p->context->isa->of[s->p->dtype]->adam(end - begin, s->p->data + at, s->g->data + at, s->m->data + at, s->v->data + at, s->numbers);
}

bool op_adam_step(ct_tensor *p, ct_tensor *g, ct_tensor *m, ct_tensor *v, const ct_adam_numbers *numbers) {
    if (!op_updatable(p, "adam_step", true) || !op_updates_with(p, g, "adam_step") || !op_updates_with(p, m, "adam_step") ||
        !op_updates_with(p, v, "adam_step"))
        return false;
    ct_parallel(p->context, p->numel, op_grain(4), step_piece, /* four arrays are read, and three of them written */
                &(stepping){p, g, m, v, numbers});
    ct_tensor_wrote(p);
    ct_tensor_wrote(m);
    ct_tensor_wrote(v);
    return true;
}
