/* max: y = max of x over dims, NaN if any is;
 * dx = g / (how many equal y) where x = y, else 0.
 * i64 too; torch's amax */
#include "support/reduce.h"

static ct_tensor *max_forward(ct_call *c) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    unsigned set;
    if (!cti_dim_set(c->context, "max", attrs->dims, x->shape.ndim, &set)) return NULL;
    if (cti_reduce_count(x->shape, set) == 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "max: no element to choose from in %s",
                       SHAPE(x->shape));
    return cti_reduce_dims(c, kernels(c)->max, kernels(c)->max, x->dtype, x, set, attrs->keepdim);
}

typedef struct {
    const cti_kernels *k;
    const char *x, *y, *g;
    char *dx;
    int64_t size, n, inner, width, blocks; /* inner: in blocks of columns, each width wide */
} share;

static void share_task(void *arg, int64_t begin, int64_t end, int worker) {
    const share *s = arg;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t column = unit % s->blocks * s->width, o = unit / s->blocks,
                width = s->inner - column;
        int64_t at = (o * s->n * s->inner + column) * s->size,
                one = (o * s->inner + column) * s->size;
        s->k->max_backward(s->n, width < s->width ? width : s->width, s->x + at, s->inner,
                           s->y + one, s->g + one, s->dx + at);
    }
}

/* (outer, n, inner): one run of reduced dims. */
static ct_tensor *shared(const ct_call *c, ct_tensor *x, ct_tensor *g, int64_t outer, int64_t n,
                         int64_t inner) {
    ct_tensor *dx = cti_op_new(c, x->dtype, x->shape);
    if (!dx || !dx->numel) return dx;
    share s = {kernels(c), x->data,  c->out->data,
               g->data,    dx->data, (int64_t)cti_dtype_size(x->dtype),
               n,          inner,    0,
               0};
    s.width = inner < 256 ? inner : 256;
    s.blocks = (inner + s.width - 1) / s.width;
    cti_parallel(c->context, outer * s.blocks, cti_op_grain(n * s.width), share_task, &s);
    return dx;
}

/* If kept and reduced dims alternate, the reduced ones are moved to the end. */
static bool max_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    int64_t outer, n, inner;
    unsigned set;
    if (!cti_dim_set(c->context, "max", attrs->dims, x->shape.ndim, &set)) return false;
    cti_reduce_runs runs = cti_reduce_runs_of(x->shape, set);
    if (cti_reduce_last(&runs, &outer, &n, &inner) < 2)
        return (grad[0] = shared(c, x, g[0], outer, n, inner));

    ct_shape order = {.ndim = x->shape.ndim}, back = order;
    for (int d = 0, kept = 0, reduced = order.ndim - __builtin_popcount(set); d < order.ndim; d++) {
        back.dim[d] = set >> d & 1 ? reduced++ : kept++;
        order.dim[back.dim[d]] = d;
    }
    ct_tensor *last = ct_contiguous(ct_permute(x, order)), *dx;
    return last &&
           (dx = shared(c, last, g[0], g[0]->numel, g[0]->numel ? last->numel / g[0]->numel : 1,
                        1)) &&
           (grad[0] = ct_permute(dx, back));
}

static const ct_op max = {.name = "max",
                          .attrs_size = sizeof(cti_reduce_attrs),
                          .forward = max_forward,
                          .backward = max_backward};

ct_tensor *ct_max(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ct_apply(&max, (ct_tensor *[]){x}, 1, &(cti_reduce_attrs){dims, keepdim});
}
