/* softmax: y_i = e^(x_i - max) / sum_j e^(x_j - max);   dx = y (g - <g, y>)
 *
 * The last dim is computed row by row; another dim is computed by blocks of columns, in memory
 * order. */
#include "support/along.h"
#include "support/columns.h"
#include "support/shape_ops.h"
#include "../src/kernels/rows.h"

static ct_tensor *softmax_rows_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return cti_op_rows(c, c->in[0], kernels(c)->rows->softmax);
}

static bool softmax_rows_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return cti_op_rows_backward(c, c->out, g[0], kernels(c)->rows->softmax_backward, &grad[0]);
}

static const ct_op softmax_rows_op = {
    .name = "softmax", .forward = softmax_rows_forward, .backward = softmax_rows_backward};

/* ---- along another dim ---- */

typedef struct {
    const cti_kernels *k;
    cti_columns of;
    int64_t size;
    const char *x, *g; /* forward: x, NULL; backward: y, g */
    char *y;
} softmax_columns_args;

static void softmax_some_columns(const void *arg, int64_t o, int64_t j, int64_t width) {
    const softmax_columns_args *a = arg;
    const int64_t at = cti_columns_start(&a->of, o, j) * a->size;
    if (a->g)
        a->k->rows->softmax_columns_backward(a->of.n, width, a->x + at, a->g + at, a->of.inner,
                                             a->y + at);
    else a->k->rows->softmax_columns(a->of.n, width, a->x + at, a->of.inner, a->y + at);
}

static ct_tensor *softmax_along_columns(const ct_call *c, const ct_tensor *x, const char *g) {
    if (!cti_op_is_real(c, 0)) return NULL;
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (!y || y->numel == 0) return y;
    const softmax_columns_args a = {.k = kernels(c),
                                    .of = cti_columns_along(x->shape, *(const int *)c->attrs),
                                    .size = (int64_t)cti_dtype_size(x->dtype),
                                    .x = x->data,
                                    .g = g,
                                    .y = y->data};
    cti_columns_each(c->context, &a.of, 1, softmax_some_columns, &a);
    return y;
}

static ct_tensor *softmax_columns_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS;
    return softmax_along_columns(c, c->in[0], NULL);
}

static bool softmax_columns_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = softmax_along_columns(c, c->out, g[0]->data)) != NULL;
}

static const ct_op softmax_columns_op = {.name = "softmax",
                                         .attrs_size = sizeof(int),
                                         .forward = softmax_columns_forward,
                                         .backward = softmax_columns_backward,
                                         .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_softmax(ct_tensor *x, int dim) {
    /* this records the error */
    if (!x || !cti_tensor_ready(x, "softmax")) return cti_op_along(&softmax_rows_op, x, dim);
    dim = cti_op_dim_or_scalar("softmax", x, dim);
    if (dim < 0) return NULL;
    return dim >= x->shape.ndim - 1 ? cti_op_along(&softmax_rows_op, x, dim)
                                    : ct_apply(&softmax_columns_op, (ct_tensor *[]){x}, 1, &dim);
}
