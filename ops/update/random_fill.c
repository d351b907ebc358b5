/* t = random numbers, in place: element i is a function of (seed, stream, i) only, so the number of
 * threads does not matter. */
#include "../../src/core/profile.h"
#include "../../src/core/isa.h"
#include "../support/op.h"
#include "update.h"
#include "../../src/kernels/random.h"

typedef struct {
    ct_tensor *t;
    void (*kernel)(int64_t n, int64_t start, cti_random random, double a, double b, void *y);
    cti_random random;
    double a, b;
} random_fill_args;

static void random_fill_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const random_fill_args *f = arg;
    f->kernel(end - begin, begin, f->random, f->a, f->b,
              f->t->data + (size_t)begin * cti_dtype_size(f->t->dtype));
}

static bool fill_at_random(random_fill_args f) {
    const ct_rng next = cti_rng_next(f.t->context);
    f.random = (cti_random){next.seed, next.stream};
    cti_span span;
    cti_update_begin(f.t->context, &span, "random_fill");
    cti_parallel(f.t->context, f.t->numel, cti_op_grain(1), random_fill_chunk, &f);
    cti_tensor_wrote(f.t);
    cti_update_end(f.t->context, &span, cti_profile_bytes(f.t));
    return true;
}

bool cti_op_fill_uniform(ct_tensor *t, double low, double high) {
    if (!cti_op_updatable(t, "fill_uniform", true)) return false;
    return fill_at_random((random_fill_args){
        .t = t, .kernel = t->context->isa->of[t->dtype]->random->uniform, .a = low, .b = high});
}

bool cti_op_fill_normal(ct_tensor *t, double mean, double std) {
    if (!cti_op_updatable(t, "fill_normal", true)) return false;
    return fill_at_random((random_fill_args){
        .t = t, .kernel = t->context->isa->of[t->dtype]->random->normal, .a = mean, .b = std});
}
