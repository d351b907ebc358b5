/* cast: each element converted to another dtype as in C, to bool by != 0;
 * dx = g cast back, between f32 and f64. bf16 is rounded to nearest even, and has no gradient. */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

typedef struct {
    void (*kernel)(int64_t n, const void *x, void *y);
    const ct_tensor *x, *y;
} casting;

static void cast_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const casting *t = arg;
    t->kernel(end - begin, t->x->data + (size_t)begin * cti_dtype_size(t->x->dtype),
              t->y->data + (size_t)begin * cti_dtype_size(t->y->dtype));
}

static ct_tensor *cast_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const ct_dtype dtype = *(const ct_dtype *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (dtype == x->dtype) return cti_tensor_view(x, x->data, x->shape, x->stride);
    ct_tensor *y = cti_op_new(c, dtype, x->shape), *dense = y ? cti_tensor_dense(x) : NULL;
    if (!dense) return NULL;
    cti_parallel(c->context, y->numel, cti_op_grain(1), cast_chunk,
                 &(casting){kernels(c)->elementwise->cast[dtype], dense, y});
    return y;
}

static bool cast_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_cast(g[0], c->in[0]->dtype)) != NULL;
}

static const ct_op cast_to_real_op = {.name = "cast",
                                      .attrs_size = sizeof(ct_dtype),
                                      .forward = cast_forward,
                                      .backward = cast_backward,
                                      .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};
static const ct_op cast_to_whole_op = {.name = "cast",
                                       .attrs_size = sizeof(ct_dtype),
                                       .forward = cast_forward,
                                       .flags = CT_OP_STRIDED};

ct_tensor *ct_cast(ct_tensor *x, ct_dtype dtype) {
    if (!cti_tensor_ready(x, "cast")) return NULL;
    if (!cti_dtype_check(x->context, "cast", dtype)) return NULL;
    if (dtype == CT_BF16 && x->slot && !x->context->frame->no_grad)
        return ct_fail(x->context, CT_ERR_GRAD,
                       "cast: no gradient flows through bf16, and %s requires one: ct_detach",
                       SHAPE(x->shape));
    return ct_apply(cti_is_real(dtype) ? &cast_to_real_op : &cast_to_whole_op, (ct_tensor *[]){x},
                    1, &dtype);
}
