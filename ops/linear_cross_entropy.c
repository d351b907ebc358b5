/* linear_cross_entropy: cross_entropy of the logits z = x W^T;
 * dx = dz W,  dW = dz^T x,  dz as in cross_entropy.
 *
 * Rows are computed a block at a time: its logits, from them its losses and, in place, dz / g, and
 * from that its share of dx and dW. So z is never whole in memory. Backward only multiplies dx and
 * dW by g, and does nothing where g is 1. */
#include "support/loss.h"
#include "update/update.h"

#include "../src/core/int_math.h"
#include "../src/gemm/gemm.h"

/* A block has as many rows as have this many logits together, but at least this many rows. */
enum { BLOCK_ELEMENTS = 1 << 20, BLOCK_ROWS = 128 };

static bool check(ct_call *c) {
    const ct_tensor *x = c->in[0], *weight = c->in[1];
    if (!cti_op_is_real(c, 0)) return false;
    if (x->dtype != weight->dtype)
        return ct_fail(c->context, CT_ERR_DTYPE, "linear_cross_entropy: dtypes differ: %s and %s",
                       cti_dtype_name(x->dtype), cti_dtype_name(weight->dtype));
    if (x->shape.ndim != 2 || weight->shape.ndim != 2 || x->shape.dim[1] != weight->shape.dim[1])
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "linear_cross_entropy: %s and the weight %s are not (N, D) and (C, D)",
                       SHAPE(x->shape), SHAPE(weight->shape));
    return cti_op_loss_check(c, 2, x->shape.dim[0], weight->shape.dim[0]);
}

/* A matrix (N, D), from row `first` on. */
static cti_matrix rows_from(const ct_tensor *x, int64_t first) {
    const cti_matrix all = cti_matrix_of(x, x->shape.dim[1], 1);
    return (cti_matrix){.data = cti_matrix_at(&all, 0, first, 0),
                        .row = all.row,
                        .col = all.col,
                        .dtype = all.dtype};
}

/* C = A B, or C += with add. */
static bool multiply(const ct_call *c, int64_t m, int64_t n, int64_t k, cti_matrix a, cti_matrix b,
                     cti_matrix to, bool add) {
    const cti_gemm_args args = {.batch = 1,
                                .m = m,
                                .n = n,
                                .k = k,
                                .alpha = 1,
                                .a = a,
                                .b = b,
                                .c = to,
                                .epilogue = &(cti_gemm_epilogue){.add = add}};
    return cti_gemm(c->context, &args);
}

static ct_tensor *linear_cross_entropy_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!check(c)) return NULL;
    ct_tensor *x = c->in[0], *weight = c->in[1], *targets = c->in[2];
    const int64_t rows = x->shape.dim[0], width = x->shape.dim[1], classes = weight->shape.dim[0];
    const int64_t fits = BLOCK_ELEMENTS / cti_max(classes, 1);
    const int64_t block = cti_min(cti_max(fits, BLOCK_ROWS), rows);
    const double scale = cti_op_loss_weight(c, targets);
    const bool want_x = c->wants[0], want_w = c->wants[1];
    ct_tensor *z = cti_op_new(c, x->dtype, CT_SHAPE(block, classes));
    ct_tensor *losses = cti_op_new(c, x->dtype, targets->shape);
    /* max and 1 / sum of a block's rows */
    ct_tensor *stats = cti_op_new(c, x->dtype, CT_SHAPE(2, block));
    ct_tensor *dx = c->saved[0] = want_x ? cti_op_new(c, x->dtype, x->shape) : NULL;
    ct_tensor *dw = c->saved[1] = want_w ? cti_op_new(c, x->dtype, weight->shape) : NULL;
    if (!z || !losses || !stats || (want_x && !dx) || (want_w && !dw)) return NULL;
    if (want_w && rows == 0 && !cti_op_fill(dw, 0)) return NULL;

    const cti_matrix logits = cti_matrix_of(z, classes, 1), w = cti_matrix_of(weight, width, 1);
    for (int64_t at = 0; at < rows; at += block) {
        const int64_t m = cti_min(block, rows - at);
        const cti_matrix x_block = rows_from(x, at);
        if (!multiply(c, m, classes, width, x_block, cti_matrix_transposed(&w), logits, false))
            return NULL;
        cti_op_loss_rows(
            c, m,
            (cti_loss_rows){.classes = classes,
                            .scale = scale,
                            .target = (const int64_t *)targets->data + at,
                            .x = z->data,
                            .loss = losses->data + (size_t)at * cti_dtype_size(x->dtype),
                            .max = stats->data,
                            .inverse = cti_op_second_half(stats),
                            .dx = want_x || want_w ? z->data : NULL});
        /* z now holds dz / g. */
        if (want_x && !multiply(c, m, width, classes, logits, w, rows_from(dx, at), false))
            return NULL;
        if (want_w && !multiply(c, classes, width, m, cti_matrix_transposed(&logits), x_block,
                                cti_matrix_of(dw, width, 1), at > 0))
            return NULL;
    }
    return cti_op_loss_total(c, losses, scale);
}

static bool linear_cross_entropy_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const double by = ct_item(g[0]);
    for (int i = 0; i < 2; i++) {
        if (!c->wants[i]) continue;
        grad[i] = cti_saved_writable(c, i);
        if (!grad[i] || (by != 1 && !cti_op_scale_in_place(grad[i], by))) return false;
    }
    return true;
}

static const ct_op linear_cross_entropy = {.name = "linear_cross_entropy",
                                           .attrs_size = sizeof(ct_cross_entropy_opts),
                                           .forward = linear_cross_entropy_forward,
                                           .backward = linear_cross_entropy_backward};

ct_tensor *ct_linear_cross_entropy(ct_tensor *x, ct_tensor *weight, ct_tensor *targets,
                                   ct_cross_entropy_opts opts) {
    return ct_apply(&linear_cross_entropy, (ct_tensor *[]){x, weight, targets}, 3, &opts);
}
