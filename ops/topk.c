/* topk: the k largest elements along dim, the largest first, and their indices, i64; of equal
 * elements the first comes first; NaN counts as largest;   dx = the g of each value at its index, 0
 * elsewhere. i64 too */
#include "support/columns.h"
#include "support/index.h"
#include "support/ranking.h"
#include "support/shape_ops.h"

#include <string.h>

typedef struct {
    int64_t k;
    int dim;
} topk_attrs;

static ct_tensor *topk_forward(ct_call *c) {
    const topk_attrs *a = c->attrs;
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    const int dim = cti_op_dim_or_scalar("topk", x, a->dim);
    if (dim < 0) return NULL;
    if (x->dtype == CT_BOOL || x->dtype == CT_BF16) return cti_op_refuse(c, x->dtype), NULL;
    ct_shape shape = x->shape;
    const int64_t n = shape.ndim ? shape.dim[dim] : 1;
    if (a->k < 0 || a->k > n)
        return ct_fail(c->context, CT_ERR_ARGUMENT, "topk: no %lld largest in dim %d of %s",
                       (long long)a->k, dim, SHAPE(shape));
    if (shape.ndim) shape.dim[dim] = a->k;
    ct_tensor *index = cti_op_new(c, CT_I64, shape);
    if (!index || !cti_rank(c, x, dim, true, index)) return NULL;
    c->outs[1] = c->saved[0] = index;
    return ct_gather(x, dim, index);
}

typedef struct {
    cti_columns of; /* the columns of x */
    int64_t k;
    const int64_t *index;
    const char *g;
    char *dx;
    size_t size;
} topk_backward_args;

static void topk_place_columns(const void *arg, int64_t o, int64_t j, int64_t width) {
    const topk_backward_args *p = arg;
    for (int64_t i = 0; i < p->k; i++)
        for (int64_t c = j; c < j + width; c++) {
            const int64_t from = (o * p->k + i) * p->of.inner + c,
                          to = (o * p->of.n + p->index[from]) * p->of.inner + c;
            memcpy(p->dx + (size_t)to * p->size, p->g + (size_t)from * p->size, p->size);
        }
}

static bool topk_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const ct_tensor *x = c->in[0], *index = c->saved[0];
    const int dim = cti_op_dim_or_scalar("topk", x, ((const topk_attrs *)c->attrs)->dim);
    const int64_t n = x->shape.ndim ? x->shape.dim[dim] : 1;
    /* the caller has the indices, too, and may have changed them */
    if (!cti_op_indices_inside(c, index, "index", n, 0)) return false;
    ct_tensor *dx = grad[0] = ct_zeros(c->context, g[0]->dtype, x->shape);
    if (!dx) return false;
    const topk_backward_args p = {.of = cti_columns_along(x->shape, dim),
                                  .k = index->shape.ndim ? index->shape.dim[dim] : 1,
                                  .index = (const int64_t *)index->data,
                                  .g = g[0]->data,
                                  .dx = dx->data,
                                  .size = cti_dtype_size(dx->dtype)};
    if (index->numel) cti_columns_each(c->context, &p.of, 1, topk_place_columns, &p);
    return true;
}

static const ct_op topk_op = {.name = "topk",
                              .attrs_size = sizeof(topk_attrs),
                              .forward = topk_forward,
                              .backward = topk_backward,
                              .outputs = 2};

ct_topk_out ct_topk(ct_tensor *x, int64_t k, int dim) {
    ct_tensor *out[2] = {NULL, NULL};
    ct_apply_many(&topk_op, (ct_tensor *[]){x}, 1, &(topk_attrs){k, dim}, out);
    return (ct_topk_out){out[0], out[1]};
}
