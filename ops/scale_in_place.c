/* t = a t, in place. */
#include "op.h"
#include "update.h"

typedef struct {
    ct_tensor *t;
    double a;
} scaling;

static void scale_piece(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const scaling *s = arg;
    char *piece = s->t->data + (size_t)begin * ct_dtype_size(s->t->dtype);
    s->t->context->isa->of[s->t->dtype]->scale(end - begin, piece, s->a, piece);
}

bool op_scale_in_place(ct_tensor *t, double a) {
    if (!op_updatable(t, "scale_in_place", true)) return false;
    ct_parallel(t->context, t->numel, op_grain(1), scale_piece, &(scaling){t, a});
    ct_tensor_wrote(t);
    return true;
}
