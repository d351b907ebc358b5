#include "reduce_extremum.h"
#include "columns.h"
#include "../../src/kernels/rows.h"

ct_tensor *cti_reduce_extremum(ct_call *c, cti_reduce *f) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    unsigned set;
    if (!cti_dim_set(c->context, c->op->name, attrs->dims, x->shape.ndim, &set)) return NULL;
    if (cti_reduce_count(x->shape, set) == 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: no element to choose from in %s", c->op->name,
                       SHAPE(x->shape));
    return cti_reduce_dims(c, f, f, x->dtype, x, set, attrs->keepdim);
}

typedef struct {
    const cti_kernels *k;
    cti_columns of;
    const char *x, *y, *g;
    char *dx;
    int64_t size;
} extremum_args;

static void extremum_columns(const void *arg, int64_t o, int64_t j, int64_t width) {
    const extremum_args *s = arg;
    const int64_t at = cti_columns_start(&s->of, o, j) * s->size,
                  one = (o * s->of.inner + j) * s->size;
    s->k->rows->max_backward(s->of.n, width, s->x + at, s->of.inner, s->y + one, s->g + one,
                             s->dx + at);
}

static ct_tensor *share_gradient(const ct_call *c, ct_tensor *x, ct_tensor *g, cti_columns of) {
    ct_tensor *dx = cti_op_new(c, x->dtype, x->shape);
    if (!dx || !dx->numel) return dx;
    const extremum_args s = {.k = kernels(c),
                             .of = of,
                             .x = x->data,
                             .y = c->out->data,
                             .g = g->data,
                             .dx = dx->data,
                             .size = (int64_t)cti_dtype_size(x->dtype)};
    cti_columns_each(c->context, &s.of, 1, extremum_columns, &s);
    return dx;
}

bool cti_reduce_extremum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const cti_reduce_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0], *dx;
    cti_columns of;
    ct_shape back;
    unsigned set;
    return cti_dim_set(c->context, c->op->name, attrs->dims, x->shape.ndim, &set) &&
           (x = cti_reduce_as_columns(x, set, &of, &back)) &&
           (dx = share_gradient(c, x, g[0], of)) &&
           (grad[0] = back.ndim ? ct_permute(dx, back) : dx);
}
