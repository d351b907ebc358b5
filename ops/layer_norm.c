/* layer_norm: y = xhat w + b,  xhat = (x - mean) rstd,  rstd = 1 / sqrt(var + eps), over the last
 * dim;
 * dx = rstd (gw - mean(gw) - xhat mean(gw xhat)),  gw = g w;
 * dw = sum g xhat;
 * db = sum g.
 * Ba et al. 2016, arXiv:1607.06450 */
#include "support/along.h"
#include "support/norm.h"
#include "../src/kernels/rows.h"

typedef struct {
    const cti_kernels *k;
    int64_t n;
    size_t size, stat_size; /* bytes of an element of x, and of a mean */
    const char *x, *w, *b;
    double eps;
    char *y, *mean, *rstd;
} layer_norm_args;

static void layer_norm_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const layer_norm_args *a = arg;
    const size_t row = (size_t)(begin * a->n) * a->size, stat = (size_t)begin * a->stat_size;
    a->k->rows->layer_norm(&(cti_norm){.rows = end - begin,
                                       .n = a->n,
                                       .x = a->x + row,
                                       .w = a->w,
                                       .b = a->b,
                                       .eps = a->eps,
                                       .y = a->y + row,
                                       .mean = a->mean + stat,
                                       .rstd = a->rstd + stat});
}

static ct_tensor *layer_norm_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *w = c->in[1], *b = c->in[2];
    c->drop = CT_DROP_OUT | CT_DROP_IN(2);
    if (!cti_op_norm_check(c)) return NULL;
    const int64_t rows = cti_op_row_count(x->shape), n = x->shape.dim[x->shape.ndim - 1];
    const ct_dtype statistics = cti_dtype_statistics(x->dtype);
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    ct_tensor *mean = c->saved[0] = cti_op_new(c, statistics, CT_SHAPE(rows)),
              *rstd = c->saved[1] = cti_op_new(c, statistics, CT_SHAPE(rows));
    if (!y || !mean || !rstd) return NULL;
    cti_parallel(c->context, rows, cti_op_grain(n), layer_norm_rows,
                 &(layer_norm_args){.k = kernels(c),
                                    .n = n,
                                    .size = cti_dtype_size(x->dtype),
                                    .stat_size = cti_dtype_size(statistics),
                                    .x = x->data,
                                    .w = w ? w->data : NULL,
                                    .b = b ? b->data : NULL,
                                    .eps = *(const double *)c->attrs,
                                    .y = y->data,
                                    .mean = mean->data,
                                    .rstd = rstd->data});
    return y;
}

static bool layer_norm_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_norm_backward(c, g[0], c->in[1], c->saved[0], c->saved[1], grad);
}

static const ct_op layer_norm_op = {.name = "layer_norm",
                                    .attrs_size = sizeof(double),
                                    .forward = layer_norm_forward,
                                    .backward = layer_norm_backward,
                                    .flags = CT_OP_OPTIONAL | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps) {
    return ct_apply(&layer_norm_op, (ct_tensor *[]){x, weight, bias}, 3, &eps);
}
