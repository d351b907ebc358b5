/* The backward of the norms: dx row by row; dw = sum over rows of g xhat, db = sum over rows of g.
 * The rows of each block of a fixed size are summed first, then the blocks, so that the sums have
 * the same bits for any number of threads. */
#include "norm.h"
#include "along.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/rows.h"

enum { NORM_BLOCK = 32 }; /* rows */

typedef struct {
    const cti_kernels *k;
    int64_t n, rows;
    size_t size, stat_size;              /* bytes of an element of x, and of an rstd */
    const char *x, *w, *g, *mean, *rstd; /* w and mean may be NULL */
    const char *base;                    /* a gradient to which dx is added; NULL if none */
    char *dx, *dw, *db;                  /* dw, db: one row for each block; any may be NULL */
} norm_backward_args;

bool cti_op_norm_check(const ct_call *c) {
    static const char *const names[] = {"x", "weight", "bias"};
    const ct_tensor *x = c->in[0];
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype(c)) return false;
    if (x->shape.ndim == 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: a scalar has no last dim", c->op->name);
    for (int i = 1; i < c->n; i++)
        if (c->in[i] && (c->in[i]->shape.ndim != 1 ||
                         c->in[i]->shape.dim[0] != x->shape.dim[x->shape.ndim - 1]))
            return ct_fail(c->context, CT_ERR_SHAPE, "%s: the %s %s is not the last dim of %s",
                           c->op->name, names[i], SHAPE(c->in[i]->shape), SHAPE(x->shape));
    return true;
}

static void norm_backward_blocks(void *arg, int64_t begin, int64_t end, int worker) {
    const norm_backward_args *a = arg;
    const size_t row = (size_t)a->n * a->size;
    (void)worker;
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * NORM_BLOCK,
                      m = a->rows - first < NORM_BLOCK ? a->rows - first : NORM_BLOCK;
        const size_t at = (size_t)(first * a->n) * a->size, stat = (size_t)first * a->stat_size;
        const char *base = a->base ? a->base + at : NULL;
        char *dx = a->dx ? a->dx + at : NULL, *dw = a->dw ? a->dw + (size_t)b * row : NULL,
             *db = a->db ? a->db + (size_t)b * row : NULL;
        if (dw) a->k->elementwise->fill(a->n, 0, dw);
        if (db) a->k->elementwise->fill(a->n, 0, db);
        const cti_norm_backward block = {.rows = m,
                                         .n = a->n,
                                         .x = a->x + at,
                                         .w = a->w,
                                         .g = a->g + at,
                                         .mean = a->mean ? a->mean + stat : NULL,
                                         .rstd = a->rstd + stat,
                                         .base = base,
                                         .dx = dx,
                                         .dw = dw,
                                         .db = db};
        if (a->mean) a->k->rows->layer_norm_backward(&block);
        else a->k->rows->rms_norm_backward(&block);
    }
}

/* Sets *data to the data of a new tensor, or to NULL if none is wanted. Returns false with an error
 * if memory is short. */
static bool norm_block_sums(const ct_call *c, bool wanted, int64_t rows, int64_t n, char **data) {
    ct_tensor *t = wanted ? cti_op_new(c, c->in[0]->dtype, CT_SHAPE(rows, n)) : NULL;
    *data = t ? t->data : NULL;
    return t || !wanted;
}

static bool norm_sum_blocks(const ct_call *c, int i, int64_t blocks, const char *block_sums,
                            ct_tensor **grad) {
    ct_tensor *x = c->in[0];
    const int64_t n = x->shape.dim[x->shape.ndim - 1];
    grad[i] = cti_op_new(c, x->dtype, CT_SHAPE(n));
    if (!grad[i]) return false;
    kernels(c)->rows->sum(blocks, n, block_sums, n, grad[i]->data);
    return true;
}

bool cti_op_norm_backward(const ct_call *c, ct_tensor *g, const ct_tensor *w, ct_tensor *mean,
                          ct_tensor *rstd, ct_tensor **grad) {
    ct_tensor *x = c->in[0];
    const bool want_w = c->wants[1], want_b = c->n > 2 && c->wants[2];
    const int64_t rows = cti_op_row_count(x->shape),
                  blocks = rows / NORM_BLOCK + (rows % NORM_BLOCK != 0);
    CTI_ASSERT(rstd->dtype == cti_dtype_statistics(x->dtype) && rstd->numel == rows);
    CTI_ASSERT(!mean || (mean->dtype == rstd->dtype && mean->numel == rows));
    norm_backward_args a = {.k = kernels(c),
                            .n = x->shape.dim[x->shape.ndim - 1],
                            .rows = rows,
                            .size = cti_dtype_size(x->dtype),
                            .stat_size = cti_dtype_size(rstd->dtype)};
    a.x = x->data, a.w = w ? w->data : NULL, a.g = g->data, a.mean = mean ? mean->data : NULL,
    a.rstd = rstd->data;
    ct_tensor *base = NULL;
    if (!norm_block_sums(c, want_w, blocks, a.n, &a.dw) ||
        !norm_block_sums(c, want_b, blocks, a.n, &a.db))
        return false;
    /* this comes last, because nothing may fail once base's memory is written to */
    if (c->wants[0]) {
        grad[0] = cti_grad_writable_onto(c, 0, &base);
        if (!grad[0]) return false;
        a.dx = grad[0]->data;
    }
    a.base = base ? base->data : NULL;
    cti_parallel(c->context, blocks, cti_op_grain(NORM_BLOCK * a.n), norm_backward_blocks, &a);
    return (!want_w || norm_sum_blocks(c, 1, blocks, a.dw, grad)) &&
           (!want_b || norm_sum_blocks(c, 2, blocks, a.db, grad));
}
