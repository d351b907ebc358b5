/* masked_softmax: softmax over the elements whose mask is true, 0 for the others; a row without any
 * such element gives zeros;   dx = y (g - <g, y>), and 0 if y is 0, also if another element is NaN
 *
 * The mask is read in place by strides: a (T, S) mask of (B, H, T, S) scores is never expanded in
 * memory. */
#include "support/along.h"
#include "../src/kernels/rows.h"

typedef struct {
    const cti_kernels *k;
    ct_shape lead;               /* x's shape without the last dim */
    int64_t stride[CT_MAX_DIMS]; /* strides of the mask along lead; 0 if it repeats */
    int64_t n, along;            /* a row's length, and the mask's stride in it: 0 or 1 */
    size_t size;
    const char *x;
    char *y;
    const bool *mask;
} masked_softmax_args;

static void masked_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const masked_softmax_args *a = arg;
    for (int64_t r = begin; r < end; r++) {
        const size_t at = (size_t)(r * a->n) * a->size;
        int64_t offset = 0, rest = r;
        for (int d = a->lead.ndim - 1; d >= 0; d--) {
            offset += rest % a->lead.dim[d] * a->stride[d];
            rest /= a->lead.dim[d];
        }
        a->k->rows->masked_softmax(a->n, a->x + at, a->mask + offset, a->along, a->y + at);
    }
}

static ct_tensor *masked_softmax_forward(ct_call *c) {
    static const bool all = true;
    ct_tensor *mask = c->in[1];
    c->drop = CT_DROP_INPUTS;
    if (!cti_op_is_real(c, 0) || (mask && !cti_op_is(c, 1, CT_BOOL))) return NULL;
    ct_tensor *x = cti_tensor_dense(c->in[0]), *y = x ? cti_op_new(c, x->dtype, x->shape) : NULL;
    if (!y) return NULL;
    masked_softmax_args a = {.k = kernels(c),
                             .lead = x->shape,
                             .size = cti_dtype_size(x->dtype),
                             .x = x->data,
                             .y = y->data,
                             .mask = &all};
    a.n = a.lead.dim[--a.lead.ndim];
    if (mask && mask->shape.ndim > 0) {
        const int last = mask->shape.ndim - 1, grown = a.lead.ndim - last;
        if (mask->shape.dim[last] > 1 && mask->stride[last] != 0 && mask->stride[last] != 1) {
            mask = cti_tensor_dense(mask);
            if (!mask) return NULL;
        }
        a.along = mask->shape.dim[last] > 1 ? mask->stride[last] : 0;
        for (int d = 0; d < last; d++)
            a.stride[grown + d] = mask->shape.dim[d] > 1 ? mask->stride[d] : 0;
    }
    if (mask) a.mask = (const bool *)mask->data;
    if (y->numel > 0) cti_parallel(c->context, y->numel / a.n, cti_op_grain(a.n), masked_rows, &a);
    return y;
}

static bool masked_softmax_backward(const ct_call *c, ct_tensor *const *cotangents,
                                    ct_tensor **grad) {
    ct_tensor *g = cotangents[0];
    g = cti_tensor_dense(g);
    return g &&
           cti_op_rows_backward(c, c->out, g, kernels(c)->rows->masked_softmax_backward, &grad[0]);
}

static const ct_op masked_softmax_op = {.name = "masked_softmax",
                                        .forward = masked_softmax_forward,
                                        .backward = masked_softmax_backward,
                                        .flags = CT_OP_STRIDED | CT_OP_OPTIONAL};

ct_tensor *ct_masked_softmax(ct_tensor *x, ct_tensor *mask, int dim) {
    return cti_op_along_masked(&masked_softmax_op, x, mask, dim);
}
