/* rms_norm: y = xhat w,  xhat = x rstd,  rstd = 1 / sqrt(mean(x^2) + eps), over the last dim;
 * dx = rstd (gw - xhat mean(gw xhat)),  gw = g w;
 * dw = sum g xhat.
 * rms_norm_offset: likewise with o + w in place of w, o a number; dw is the same.
 * Each: Zhang & Sennrich 2019, arXiv:1910.07467 */
#include "support/along.h"
#include "support/norm.h"
#include "../src/kernels/rows.h"
#include "../src/kernels/unary.h"

#include <math.h>

typedef struct {
    double eps, offset;
} rms_norm_attrs;

typedef struct {
    const cti_kernels *k;
    int64_t n;
    size_t size, stat_size; /* bytes of an element of x, and of an rstd */
    const char *x, *w;
    double eps;
    char *y, *rstd;
} rms_norm_args;

static void rms_norm_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const rms_norm_args *a = arg;
    const size_t row = (size_t)(begin * a->n) * a->size, stat = (size_t)begin * a->stat_size;
    a->k->rows->rms_norm(&(cti_norm){.rows = end - begin,
                                     .n = a->n,
                                     .x = a->x + row,
                                     .w = a->w,
                                     .eps = a->eps,
                                     .y = a->y + row,
                                     .rstd = a->rstd + stat});
}

/* Sets *w to the weight plus the offset: the weight itself if the offset is 0, NULL if there is no
 * weight. Returns false with an error if memory is short. */
static bool rms_norm_weight(const ct_call *c, ct_tensor **w) {
    const double offset = ((const rms_norm_attrs *)c->attrs)->offset;
    *w = c->in[1];
    if (*w && offset != 0) *w = cti_op_unary_scalar(c, *w, kernels(c)->unary->add_scalar, offset);
    return *w || !c->in[1];
}

static ct_tensor *rms_norm_forward(ct_call *c) {
    const rms_norm_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0], *w;
    c->drop = CT_DROP_OUT;
    if (!cti_op_norm_check(c)) return NULL;
    if (!isfinite(attrs->offset))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: the offset is %g, must be finite",
                       c->op->name, attrs->offset);
    if (!rms_norm_weight(c, &w)) return NULL;
    const int64_t rows = cti_op_row_count(x->shape), n = x->shape.dim[x->shape.ndim - 1];
    const ct_dtype statistics = cti_dtype_statistics(x->dtype);
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape),
              *rstd = c->saved[0] = cti_op_new(c, statistics, CT_SHAPE(rows));
    if (!y || !rstd) return NULL;
    cti_parallel(c->context, rows, cti_op_grain(n), rms_norm_rows,
                 &(rms_norm_args){.k = kernels(c),
                                  .n = n,
                                  .size = cti_dtype_size(x->dtype),
                                  .stat_size = cti_dtype_size(statistics),
                                  .x = x->data,
                                  .w = w ? w->data : NULL,
                                  .eps = attrs->eps,
                                  .y = y->data,
                                  .rstd = rstd->data});
    return y;
}

static bool rms_norm_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *w;
    return rms_norm_weight(c, &w) && cti_op_norm_backward(c, g[0], w, NULL, c->saved[0], grad);
}

static const ct_op rms_norm_op = {.name = "rms_norm",
                                  .attrs_size = sizeof(rms_norm_attrs),
                                  .forward = rms_norm_forward,
                                  .backward = rms_norm_backward,
                                  .flags = CT_OP_OPTIONAL | CTI_OP_EXACT_ATTRS};

ct_tensor *ct_rms_norm(ct_tensor *x, ct_tensor *weight, double eps) {
    return ct_rms_norm_offset(x, weight, eps, 0);
}

ct_tensor *ct_rms_norm_offset(ct_tensor *x, ct_tensor *weight, double eps, double offset) {
    return ct_apply(&rms_norm_op, (ct_tensor *[]){x, weight}, 2, &(rms_norm_attrs){eps, offset});
}
