/* clamp: y = min(max(x, lo), hi), NaN if x is NaN; either bound may be infinite;
 * dx = g if lo <= x <= hi, otherwise 0.
 * i64 too, with whole bounds */
#include "support/op.h"
#include "../src/kernels/unary.h"

#include <math.h>

typedef struct {
    double low, high;
} clamp_attrs;

typedef struct {
    const cti_kernels *k;
    clamp_attrs to;
    const char *x, *g; /* g is NULL in forward */
    char *y;
    size_t size;
} clamp_args;

static void clamp_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const clamp_args *a = arg;
    const size_t at = (size_t)begin * a->size;
    if (!a->g) a->k->unary->clamp(end - begin, a->x + at, a->to.low, a->to.high, a->y + at);
    else
        a->k->unary->clamp_backward(end - begin, a->x + at, a->to.low, a->to.high, a->g + at,
                                    a->y + at);
}

static ct_tensor *clamped(const ct_call *c, const char *g) {
    const ct_tensor *x = c->in[0];
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (y)
        cti_parallel(c->context, y->numel, cti_op_grain(1), clamp_range,
                     &(clamp_args){.k = kernels(c),
                                   .to = *(const clamp_attrs *)c->attrs,
                                   .x = x->data,
                                   .g = g,
                                   .y = y->data,
                                   .size = cti_dtype_size(x->dtype)});
    return y;
}

static bool is_whole(double bound) { return bound == trunc(bound); /* infinities too */ }

static ct_tensor *clamp_forward(ct_call *c) {
    const clamp_attrs *to = c->attrs;
    c->drop = CT_DROP_OUT;
    if (!kernels(c)->unary->clamp) return cti_op_refuse(c, c->in[0]->dtype), NULL;
    if (c->in[0]->dtype == CT_I64 && !(is_whole(to->low) && is_whole(to->high)))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "clamp: i64 needs whole bounds, not %g and %g",
                       to->low, to->high);
    return clamped(c, NULL);
}

static bool clamp_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = clamped(c, g[0]->data)) != NULL;
}

static const ct_op clamp_op = {.name = "clamp",
                               .attrs_size = sizeof(clamp_attrs),
                               .forward = clamp_forward,
                               .backward = clamp_backward,
                               .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_clamp(ct_tensor *x, double lo, double hi) {
    return ct_apply(&clamp_op, (ct_tensor *[]){x}, 1, &(clamp_attrs){lo, hi});
}
