/* cumsum: y_i = x_0 + ... + x_i along dim;   dx_i = g_i + ... + g_(n-1).
 * i64 too; for bool the count, i64. Sums are kept in f64, together with their rounding errors. */
#include "support/columns.h"
#include "../src/core/isa.h"
#include "support/shape_ops.h"
#include "../src/kernels/rows.h"

typedef struct {
    const cti_kernels *k;
    cti_columns of;
    bool reverse;
    const char *x;
    char *y;
    int64_t size;
} cumsum_args;

static void cumsum_columns(const void *arg, int64_t o, int64_t j, int64_t width) {
    const cumsum_args *r = arg;
    const int64_t at = cti_columns_start(&r->of, o, j) * r->size;
    r->k->rows->cumsum(r->of.n, width, r->x + at, r->of.inner, r->reverse, r->y + at);
}

static ct_tensor *cumsum_run(const ct_call *c, ct_tensor *x, bool reverse) {
    const int dim = cti_op_dim_or_scalar("cumsum", x, *(const int *)c->attrs);
    if (dim < 0) return NULL;
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (!y || y->numel == 0) return y;
    const cumsum_args r = {.k = c->context->isa->of[x->dtype],
                           .of = cti_columns_along(x->shape, dim),
                           .reverse = reverse,
                           .x = x->data,
                           .y = y->data,
                           .size = (int64_t)cti_dtype_size(x->dtype)};
    cti_columns_each(c->context, &r.of, 1, cumsum_columns, &r);
    return y;
}

static ct_tensor *cumsum_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (x->dtype == CT_BF16) return cti_op_refuse(c, x->dtype), NULL;
    if (x->dtype == CT_BOOL) x = ct_cast(x, CT_I64);
    return x ? cumsum_run(c, x, false) : NULL;
}

static bool cumsum_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = cumsum_run(c, g[0], true)) != NULL;
}

static const ct_op cumsum_op = {.name = "cumsum",
                                .attrs_size = sizeof(int),
                                .forward = cumsum_forward,
                                .backward = cumsum_backward,
                                .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_cumsum(ct_tensor *x, int dim) {
    return ct_apply(&cumsum_op, (ct_tensor *[]){x}, 1, &dim);
}
