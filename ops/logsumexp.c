/* logsumexp: y = max + log sum_i e^(x_i - max), -inf for no elements;
 * dx_i = g e^(x_i - max) / sum. max and 1 / sum are saved for backward, because y itself has the
 * rounding error of a large max. */
#include "support/along.h"
#include "../src/kernels/rows.h"

typedef struct {
    const cti_kernels *k;
    int64_t n;
    size_t size, stat_size; /* bytes of an element of x, and of a maximum */
    char *x, *y, *max, *inverse, *g, *dx;
} logsumexp_args;

static void logsumexp_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const logsumexp_args *a = arg;
    const size_t first = (size_t)begin * a->size, stat = (size_t)begin * a->stat_size;
    char *max = a->max ? a->max + stat : NULL, *inverse = a->max ? a->inverse + stat : NULL;
    a->k->rows->logsumexp(end - begin, a->n, a->x + first * (size_t)a->n, a->y + first, max,
                          inverse);
}

static void logsumexp_backward_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const logsumexp_args *a = arg;
    for (int64_t r = begin; r < end; r++) {
        const size_t one = (size_t)r * a->size, row = one * (size_t)a->n,
                     stat = (size_t)r * a->stat_size;
        a->k->rows->logsumexp_backward(a->n, a->x + row, a->max + stat, a->inverse + stat,
                                       a->g + one, a->dx + row);
    }
}

static ct_tensor *logsumexp_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *stats = NULL;
    c->drop = CT_DROP_OUT;
    if (!cti_op_is_real(c, 0)) return NULL;
    const ct_dtype statistics = cti_dtype_statistics(x->dtype);
    ct_shape shape = x->shape;
    const int64_t n = shape.dim[--shape.ndim];
    ct_tensor *y = cti_op_new(c, x->dtype, shape);
    if (y && c->wants[0]) stats = c->saved[0] = cti_op_new(c, statistics, CT_SHAPE(2, y->numel));
    if (!y || (c->wants[0] && !stats)) return NULL;
    logsumexp_args a = {.k = kernels(c),
                        .n = n,
                        .size = cti_dtype_size(x->dtype),
                        .stat_size = cti_dtype_size(statistics),
                        .x = x->data,
                        .y = y->data};
    if (stats) a.max = stats->data, a.inverse = cti_op_second_half(stats);
    cti_parallel(c->context, y->numel, cti_op_grain(n), logsumexp_rows, &a);
    return y;
}

static bool logsumexp_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *x = c->in[0], *dx = cti_op_new(c, x->dtype, x->shape);
    const int64_t n = x->shape.dim[x->shape.ndim - 1];
    if (dx)
        cti_parallel(c->context, g[0]->numel, cti_op_grain(n), logsumexp_backward_rows,
                     &(logsumexp_args){.k = kernels(c),
                                       .n = n,
                                       .size = cti_dtype_size(x->dtype),
                                       .stat_size = cti_dtype_size(c->saved[0]->dtype),
                                       .x = x->data,
                                       .max = c->saved[0]->data,
                                       .inverse = cti_op_second_half(c->saved[0]),
                                       .g = g[0]->data,
                                       .dx = dx->data});
    return (grad[0] = dx) != NULL;
}

static const ct_op logsumexp_op = {
    .name = "logsumexp", .forward = logsumexp_forward, .backward = logsumexp_backward};

ct_tensor *ct_logsumexp(ct_tensor *x, int dim) { return cti_op_along(&logsumexp_op, x, dim); }
