/* where: y = cond ? a : b, all three broadcast, a and b of any one dtype;
 * da = cond ? g : 0, db = cond ? 0 : g, each summed to its input's shape */
#include "support/op.h"
#include "../src/core/isa.h"
#include "../src/core/strided_loop.h"
#include "../src/kernels/elementwise.h"

typedef struct {
    const cti_kernels *k;
    cti_strided_loop walk;
    const bool *cond;
    const char *a, *b;
    char *y;
    int64_t size;
} where_args;

static void where_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const where_args *c = arg;
    const cti_strided_loop *w = &c->walk;
    while (begin < end) {
        int64_t left = cti_strided_loop_left(w, begin), n = left < end - begin ? left : end - begin,
                at[CTI_STRIDED_MOST];
        cti_strided_loop_at(w, begin, at);
        c->k->elementwise->where(n, c->cond + at[0], w->step[0], c->a + at[1] * c->size, w->step[1],
                                 c->b + at[2] * c->size, w->step[2], c->y + begin * c->size);
        begin += n;
    }
}

static ct_tensor *where_forward(ct_call *c) {
    ct_tensor *cond = c->in[0], *a = c->in[1], *b = c->in[2];
    ct_shape shape;
    c->drop = CT_DROP_IN(1) | CT_DROP_IN(2) | CT_DROP_OUT;
    if (!cti_op_is(c, 0, CT_BOOL)) return NULL;
    if (a->dtype != b->dtype)
        return ct_fail(c->context, CT_ERR_DTYPE, "where: dtypes differ: %s and %s",
                       cti_dtype_name(a->dtype), cti_dtype_name(b->dtype));
    if (!cti_shape_broadcast(c->context, "where", a->shape, b->shape, &shape)) return NULL;
    if (!cti_shape_broadcast(c->context, "where", cond->shape, shape, &shape)) return NULL;
    ct_tensor *y = cti_op_new(c, a->dtype, shape);
    if (!y || !y->numel) return y;
    where_args w = {.k = c->context->isa->of[a->dtype],
                    .cond = (const bool *)cond->data,
                    .a = a->data,
                    .b = b->data,
                    .y = y->data,
                    .size = (int64_t)cti_dtype_size(a->dtype)};
    cti_strided_loop_over(&w.walk, shape, 3, (const ct_tensor *const *)c->in);
    cti_parallel(c->context, y->numel, cti_op_grain(1), where_range, &w);
    return y;
}

static bool where_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *zero = ct_zeros(c->context, g[0]->dtype, CT_SCALAR);
    if (c->wants[1] && !cti_op_sum_to_input(c, 1, ct_where(c->in[0], g[0], zero), &grad[1]))
        return false;
    if (c->wants[2] && !cti_op_sum_to_input(c, 2, ct_where(c->in[0], zero, g[0]), &grad[2]))
        return false;
    return true;
}

static const ct_op where_op = {
    .name = "where", .forward = where_forward, .backward = where_backward};

ct_tensor *ct_where(ct_tensor *cond, ct_tensor *a, ct_tensor *b) {
    return ct_apply(&where_op, (ct_tensor *[]){cond, a, b}, 3, NULL);
}
