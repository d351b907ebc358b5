/* t = a t, in place. */
#include "../../src/core/profile.h"
#include "../support/op.h"
#include "update.h"

typedef struct {
    ct_tensor *t;
    double a;
} scale_args;

static void scale_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const scale_args *s = arg;
    char *chunk = s->t->data + (size_t)begin * cti_dtype_size(s->t->dtype);
    s->t->context->isa->of[s->t->dtype]->scale(end - begin, chunk, s->a, chunk);
}

bool cti_op_scale_in_place(ct_tensor *t, double a) {
    if (!cti_op_updatable(t, "scale_in_place", true)) return false;
    cti_span span;
    cti_update_begin(t->context, &span, "scale_in_place");
    cti_parallel(t->context, t->numel, cti_op_grain(1), scale_chunk, &(scale_args){t, a});
    cti_tensor_wrote(t);
    cti_update_end(t->context, &span, 2 * cti_profile_bytes(t));
    return true;
}
