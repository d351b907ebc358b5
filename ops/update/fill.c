/* t = value, in place. */
#include "../../src/core/profile.h"
#include "../../src/core/isa.h"
#include "../support/op.h"
#include "update.h"
#include "../../src/kernels/elementwise.h"

typedef struct {
    ct_tensor *t;
    double value;
} fill_args;

static void fill_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const fill_args *f = arg;
    ct_tensor *t = f->t;
    t->context->isa->of[t->dtype]->elementwise->fill(
        end - begin, f->value, t->data + (size_t)begin * cti_dtype_size(t->dtype));
}

bool cti_op_fill(ct_tensor *t, double value) {
    if (!cti_op_updatable(t, "fill", false)) return false;
    cti_span span;
    cti_update_begin(t->context, &span, "fill");
    cti_parallel(t->context, t->numel, cti_op_grain(1), fill_chunk, &(fill_args){t, value});
    cti_tensor_wrote(t);
    cti_update_end(t->context, &span, cti_profile_bytes(t));
    return true;
}
