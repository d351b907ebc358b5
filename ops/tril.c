/* tril: y_ij = x_ij if j <= i + diagonal, otherwise 0, in the last two dims;   dx = tril of g.
 * x of any dtype */
#include "support/op.h"

#include <string.h>

typedef struct {
    int64_t rows, diagonal; /* rows of a matrix, and the diagonal */
    size_t row;             /* bytes of a row */
    size_t size;
    const char *x;
    char *y;
} triangle;

static void tril_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const triangle *t = arg;
    for (int64_t r = begin; r < end; r++) {
        const int64_t count = r % t->rows + t->diagonal + 1;
        const size_t bytes = count > 0 ? (size_t)count * t->size : 0,
                     kept = bytes < t->row ? bytes : t->row;
        memcpy(t->y + (size_t)r * t->row, t->x + (size_t)r * t->row, kept);
        memset(t->y + (size_t)r * t->row + kept, 0, t->row - kept);
    }
}

static ct_tensor *lower(const ct_call *c, const ct_tensor *x) {
    const int64_t rows = x->shape.dim[x->shape.ndim - 2], cols = x->shape.dim[x->shape.ndim - 1],
                  diagonal = *(const int64_t *)c->attrs;
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (!y || y->numel == 0) return y;
    triangle t = {.rows = rows,
                  .diagonal = diagonal < -rows  ? -rows
                              : diagonal > cols ? cols
                                                : diagonal,
                  .size = cti_dtype_size(x->dtype),
                  .x = x->data,
                  .y = y->data};
    t.row = (size_t)cols * t.size;
    cti_parallel(c->context, x->numel / cols, cti_op_grain(cols), tril_rows, &t);
    return y;
}

static ct_tensor *tril_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (c->in[0]->shape.ndim < 2)
        return ct_fail(c->context, CT_ERR_SHAPE, "tril: %s has fewer than two dims",
                       SHAPE(c->in[0]->shape));
    return lower(c, c->in[0]);
}

static bool tril_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = lower(c, g[0])) != NULL;
}

static const ct_op tril_op = {.name = "tril",
                              .attrs_size = sizeof(int64_t),
                              .forward = tril_forward,
                              .backward = tril_backward,
                              .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_tril(ct_tensor *x, int64_t diagonal) {
    return ct_apply(&tril_op, (ct_tensor *[]){x}, 1, &diagonal);
}
