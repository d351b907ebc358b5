/* to = to + w (from - to), or, if |w| >= 1/2, from - (from - to)(1 - w), in place, as torch's
 * lerp_. from broadcasts; any strides. */
#include "../support/op.h"
#include "../../src/core/int_math.h"
#include "../../src/core/strided_loop.h"
#include "into.h"

#include <math.h>

enum { LERP_TO, LERP_FROM };

typedef struct {
    cti_strided_loop loop;
    void (*kernel)(int64_t n, const void *x, const void *end, int64_t se, double w, void *y);
    char *to;
    const char *from;
    int64_t size;
    double w;
} lerp_args;

static void lerp_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const lerp_args *l = arg;
    while (begin < end) {
        const int64_t n = cti_min(cti_strided_loop_left(&l->loop, begin), end - begin);
        int64_t at[CTI_STRIDED_MOST];
        cti_strided_loop_at(&l->loop, begin, at);
        char *to = l->to + at[LERP_TO] * l->size;
        l->kernel(n, to, l->from + at[LERP_FROM] * l->size, l->loop.step[LERP_FROM], l->w, to);
        begin += n;
    }
}

/* Returns the stride of t along a row of the loop, or 1 if a row has one element. */
static int64_t lerp_step(const ct_tensor *t, const ct_tensor *to) {
    cti_strided_loop loop;
    cti_strided_loop_over(&loop, to->shape, 1, &t);
    return loop.n == 1 ? 1 : loop.step[0];
}

/* If the rows of `to` are not dense it is copied, changed and copied back. */
static bool lerp_run(ct_tensor *to, const ct_tensor *from, double w) {
    ct_tensor *values = lerp_step(to, to) == 1 ? to : cti_op_copy_of(to);
    const int64_t step = lerp_step(from, to);
    if ((step != 0 && step != 1) || cti_op_may_overlap(to, from)) from = cti_op_copy_of(from);
    if (!values || !from) return false;
    lerp_args l = {.kernel = to->context->isa->of[to->dtype]->lerp,
                   .to = values->data,
                   .from = from->data,
                   .size = (int64_t)cti_dtype_size(to->dtype),
                   .w = w};
    cti_strided_loop_over(&l.loop, to->shape, 2,
                          (const ct_tensor *const[]){[LERP_TO] = values, [LERP_FROM] = from});
    cti_parallel(to->context, to->numel, cti_op_grain(1), lerp_range, &l);
    if (values != to) cti_tensor_copy(to, values, false);
    cti_tensor_wrote(to);
    return true;
}

bool ct_lerp_into(ct_tensor *to, const ct_tensor *from, double w) {
    if (!cti_op_writes_from(to, from, "lerp_into")) return false;
    ct_context *context = to->context;
    if (!cti_is_real(to->dtype))
        return ct_fail(context, CT_ERR_DTYPE, "lerp_into: takes f32 or f64, not %s",
                       cti_dtype_name(to->dtype));
    if (from->dtype != to->dtype)
        return ct_fail(context, CT_ERR_DTYPE,
                       "lerp_into: dtypes differ: %s and %s; ct_cast converts",
                       cti_dtype_name(to->dtype), cti_dtype_name(from->dtype));
    if (!isfinite(w)) return ct_fail(context, CT_ERR_ARGUMENT, "lerp_into: a weight of %g", w);
    cti_op_update update;
    if (!cti_op_update_open(context, &update, "lerp_into")) return false;
    const bool done = to->numel == 0 || lerp_run(to, from, w);
    cti_op_update_close(context, &update, 3 * cti_profile_bytes(to));
    return done;
}
