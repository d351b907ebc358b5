/* split_heads: (B, T, E) -> (B, H, T, E / H), a view: head h is columns [h d, (h + 1) d);
 * dx = g with its heads combined.
 * combine_heads: (B, H, T, d) -> (B, T, H d), a view if the heads of a row are adjacent in memory,
 * otherwise a copy; dx = g with its heads split */
#include "support/op.h"

#include <inttypes.h>

typedef struct {
    int64_t heads;
} split_heads_attrs;

ct_tensor *cti_op_heads(ct_tensor *x, int64_t heads, int64_t start, int64_t width) {
    const int64_t *n = x->shape.dim, *step = x->stride, d = width / heads;
    char *data = x->data + (x->numel ? start * step[2] * (int64_t)cti_dtype_size(x->dtype) : 0);
    return cti_tensor_view(x, data, CT_SHAPE(n[0], heads, n[1], d),
                           (int64_t[]){step[0], d * step[2], step[1], step[2]});
}

static ct_tensor *heads_split(ct_tensor *x, int64_t heads) {
    return cti_op_heads(x, heads, 0, x->shape.dim[2]);
}

static ct_tensor *heads_combine(ct_tensor *x) {
    const int64_t *n = x->shape.dim, *step = x->stride;
    const ct_shape shape = CT_SHAPE(n[0], n[2], n[1] * n[3]);
    if (n[1] == 1 || step[1] == n[3] * step[3])
        return cti_tensor_view(x, x->data, shape, (int64_t[]){step[0], step[2], step[3]});
    ct_tensor *y = cti_tensor_new(x->context, x->dtype, shape);
    ct_tensor *heads = y && y->numel ? heads_split(y, n[1]) : y;
    if (heads && y->numel) cti_tensor_copy(heads, x, false);
    return heads ? y : NULL;
}

static ct_tensor *split_heads_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const int64_t heads = ((const split_heads_attrs *)c->attrs)->heads;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (x->shape.ndim != 3 || heads < 1 || x->shape.dim[2] % heads)
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "split_heads: expected (B, T, E) with E divisible by %" PRId64
                       " heads, got %s",
                       heads, SHAPE(x->shape));
    return heads_split(x, heads);
}

static bool split_heads_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    return (grad[0] = heads_combine(g[0])) != NULL;
}

static ct_tensor *combine_heads_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (c->in[0]->shape.ndim == 4) return heads_combine(c->in[0]);
    return ct_fail(c->context, CT_ERR_SHAPE, "combine_heads: expected (B, H, T, d), got %s",
                   SHAPE(c->in[0]->shape));
}

static bool combine_heads_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const int64_t heads = c->in[0]->shape.dim[1];
    return (grad[0] = heads ? heads_split(g[0], heads)
                            : ct_zeros(c->context, g[0]->dtype, c->in[0]->shape)) != NULL;
}

static const ct_op split_heads_op = {.name = "split_heads",
                                     .attrs_size = sizeof(split_heads_attrs),
                                     .forward = split_heads_forward,
                                     .backward = split_heads_backward,
                                     .flags = CT_OP_STRIDED};
static const ct_op combine_heads_op = {.name = "combine_heads",
                                       .forward = combine_heads_forward,
                                       .backward = combine_heads_backward,
                                       .flags = CT_OP_STRIDED};

ct_tensor *ct_split_heads(ct_tensor *x, int64_t num_heads) {
    return ct_apply(&split_heads_op, (ct_tensor *[]){x}, 1, &(split_heads_attrs){num_heads});
}
ct_tensor *ct_combine_heads(ct_tensor *x) {
    return ct_apply(&combine_heads_op, (ct_tensor *[]){x}, 1, NULL);
}
