/* cast: each element converted to another dtype as in C, to bool by != 0;
 * dx = g cast back, between f32 and f64. bf16 is rounded to nearest even, blocks (q8_0, q4_0) as in
 * src/core/blocks.h, from f32; neither has a gradient. */
#include "../src/core/block_matrix.h"
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

static bool is_float(ct_dtype dtype) { return dtype != CT_I64 && dtype != CT_BOOL; }

/* Casts from or to blocks. */
static ct_tensor *cast_blocks(const ct_call *c, ct_dtype dtype) {
    ct_tensor *x = c->in[0];
    if (!is_float(x->dtype) || !is_float(dtype))
        return ct_fail(c->context, CT_ERR_DTYPE, "cast: not from %s to %s: blocks are of floats",
                       cti_dtype_name(x->dtype), cti_dtype_name(dtype));
    ct_tensor *y = cti_op_new(c, dtype, x->shape),
              *dense = y && !cti_is_blocks(x->dtype) ? cti_tensor_dense(x) : x;
    if (!y || !dense) return NULL;
    cti_block_matrix_cast(y, dense);
    return y;
}

static ct_tensor *cast_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const ct_dtype dtype = *(const ct_dtype *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (dtype == x->dtype) return cti_tensor_view(x, x->data, x->shape, x->stride);
    if (cti_is_blocks(dtype) || cti_is_blocks(x->dtype)) return cast_blocks(c, dtype);
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
                                      .flags =
                                          CT_OP_STRIDED | CTI_OP_EXACT_ATTRS | CTI_OP_READS_BLOCKS};
static const ct_op cast_to_whole_op = {.name = "cast",
                                       .attrs_size = sizeof(ct_dtype),
                                       .forward = cast_forward,
                                       .flags = CT_OP_STRIDED | CTI_OP_READS_BLOCKS};

ct_tensor *ct_cast(ct_tensor *x, ct_dtype dtype) {
    if (!cti_tensor_ready(x, "cast")) return NULL;
    const bool blocks = dtype == CT_Q8_0 || dtype == CT_Q4_0;
    if (!blocks && !cti_dtype_check(x->context, "cast", dtype)) return NULL;
    if ((dtype == CT_BF16 || blocks) && x->slot && !x->context->frame->no_grad)
        return ct_fail(x->context, CT_ERR_GRAD,
                       "cast: no gradient flows through %s, and %s requires one: ct_detach",
                       cti_dtype_name(dtype), SHAPE(x->shape));
    return ct_apply(cti_is_real(dtype) ? &cast_to_real_op : &cast_to_whole_op, (ct_tensor *[]){x},
                    1, &dtype);
}
