/* layer_norm: y = xhat w + b,  xhat = (x - mean) rstd,  rstd = 1 / sqrt(var + eps), over the last
 * dim;
 * dx = rstd (gw - mean(gw) - xhat mean(gw xhat)),  gw = g w;
 * dw = sum g xhat;
 * db = sum g.
 * Ba et al. 2016, arXiv:1607.06450 */
#include "support/along.h"
#include "support/norm.h"

typedef struct {
    const cti_kernels *k;
    int64_t n;
    size_t size;
    const char *x, *w, *b;
    double eps;
    char *y, *mean, *rstd;
} norm;

static void forward_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const norm *a = arg;
    const size_t one = (size_t)begin * a->size, row = one * (size_t)a->n;
    a->k->layer_norm(end - begin, a->n, a->x + row, a->w, a->b, a->eps, a->y + row, a->mean + one,
                     a->rstd + one);
}

static ct_tensor *layer_norm_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *w = c->in[1], *b = c->in[2];
    c->drop = CT_DROP_OUT | CT_DROP_IN(2);
    if (!cti_op_norm_check(c)) return NULL;
    const int64_t rows = cti_op_row_count(x->shape), n = x->shape.dim[x->shape.ndim - 1];
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    ct_tensor *mean = c->saved[0] = cti_op_new(c, x->dtype, CT_SHAPE(rows)),
              *rstd = c->saved[1] = cti_op_new(c, x->dtype, CT_SHAPE(rows));
    if (!y || !mean || !rstd) return NULL;
    cti_parallel(c->context, rows, cti_op_grain(n), forward_rows,
                 &(norm){kernels(c), n, cti_dtype_size(x->dtype), x->data, w ? w->data : NULL,
                         b ? b->data : NULL, *(const double *)c->attrs, y->data, mean->data,
                         rstd->data});
    return y;
}

static bool layer_norm_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_norm_backward(c, g[0], c->saved[0], c->saved[1], grad);
}

static const ct_op layer_norm = {.name = "layer_norm",
                                 .attrs_size = sizeof(double),
                                 .forward = layer_norm_forward,
                                 .backward = layer_norm_backward,
                                 .flags = CT_OP_OPTIONAL | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps) {
    return cti_apply(&layer_norm, (ct_tensor *[]){x, weight, bias}, 3, &eps);
}
