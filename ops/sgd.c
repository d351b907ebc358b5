/* One step of gradient descent, with or without momentum: the kernel's formula over fixed pieces. */
#include "op.h"
#include "update.h"

typedef struct {
    ct_tensor *p, *g, *buffer;
    const ct_sgd_numbers *numbers;
} stepping;

static void step_piece(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const stepping *s = arg;
    const size_t at = (size_t)begin * ct_dtype_size(s->p->dtype);
    s->p->context->isa->of[s->p->dtype]->sgd(end - begin, s->p->data + at, s->g->data + at, s->buffer ? s->buffer->data + at : NULL,
                                             s->numbers);
}

bool op_sgd_step(ct_tensor *p, ct_tensor *g, ct_tensor *buffer, const ct_sgd_numbers *numbers) {
    if (!op_updatable(p, "sgd_step", true) || !op_updates_with(p, g, "sgd_step")) return false;
    if (numbers->momentum != 0 && !op_updates_with(p, buffer, "sgd_step")) return false;
    ct_parallel(p->context, p->numel, op_grain(1), step_piece, &(stepping){p, g, numbers->momentum != 0 ? buffer : NULL, numbers});
    ct_tensor_wrote(p);
    if (numbers->momentum != 0) ct_tensor_wrote(buffer);
    return true;
}
