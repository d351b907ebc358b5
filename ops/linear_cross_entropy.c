/* linear_cross_entropy: cross_entropy of the logits z = x W^T;
 * dx = dz W,  dW = dz^T x,  dz as in cross_entropy.  x (..., D), W (C, D).
 *
 * Rows are computed a block at a time: the block's logits, from them its losses and, in place, dz /
 * g, and from these its terms of dx and dW. So the whole z is never in memory. Backward only
 * multiplies dx and dW by g, and does nothing if g is 1. With CT_NONE each row has its own g, so
 * backward computes the blocks again. */
#include "support/loss.h"
#include "update/update.h"

#include "../src/core/int_math.h"
#include "../src/gemm/gemm.h"

/* A block has as many rows as have BLOCK_ELEMENTS logits together, but at least BLOCK_ROWS rows. */
enum { BLOCK_ELEMENTS = 1 << 20, BLOCK_ROWS = 256 };

static bool linear_cross_entropy_check(const ct_call *c) {
    const ct_tensor *x = c->in[0], *weight = c->in[1];
    if (!cti_op_is_real(c, 0)) return false;
    const bool at_rest = weight->dtype == CT_BF16 || cti_is_blocks(weight->dtype);
    if (x->dtype != weight->dtype && !(x->dtype == CT_F32 && at_rest))
        return ct_fail(c->context, CT_ERR_DTYPE, "linear_cross_entropy: dtypes differ: %s and %s",
                       cti_dtype_name(x->dtype), cti_dtype_name(weight->dtype));
    const int last = x->shape.ndim - 1;
    const bool inner =
        last >= 0 && weight->shape.ndim == 2 && x->shape.dim[last] == weight->shape.dim[1];
    if (!inner)
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "linear_cross_entropy: %s and the weight %s are not (..., D) and (C, D)",
                       SHAPE(x->shape), SHAPE(weight->shape));
    return cti_op_loss_check(c, 2, weight->shape.dim[0]);
}

/* Returns the rows of x (..., D) from `first` on as a matrix. */
static cti_matrix rows_from(const ct_tensor *x, int64_t first) {
    const cti_matrix all = cti_matrix_of(x, x->shape.dim[x->shape.ndim - 1], 1);
    return (cti_matrix){.data = cti_matrix_at(&all, 0, first, 0),
                        .row = all.row,
                        .col = all.col,
                        .dtype = all.dtype};
}

/* Writes the losses (rows), and the gradients dx and dw if they are not NULL. */
static bool all_blocks(const ct_call *c, ct_tensor *losses, cti_loss_scale scale, ct_tensor *dx,
                       ct_tensor *dw) {
    ct_tensor *x = c->in[0], *weight = c->in[1];
    const int64_t rows = c->in[2]->numel, classes = weight->shape.dim[0],
                  width = weight->shape.dim[1];
    const int64_t fits = BLOCK_ELEMENTS / cti_max(classes, 1);
    const int64_t block = cti_min(cti_max(fits, BLOCK_ROWS), rows);
    ct_tensor *z = cti_op_new(c, x->dtype, CT_SHAPE(block, classes));
    ct_tensor *statistics = cti_op_loss_statistics(c, block);
    if (!z || !statistics || (dw && rows == 0 && !cti_op_fill(dw, 0))) return false;

    const cti_matrix logits = cti_matrix_of(z, classes, 1), w = cti_matrix_of(weight, width, 1),
                     logits_t = cti_matrix_transposed(&logits), w_t = cti_matrix_transposed(&w);
    for (int64_t at = 0; at < rows; at += block) {
        const int64_t m = cti_min(block, rows - at);
        const cti_matrix x_block = rows_from(x, at);
        if (!cti_gemm_single(c->context, m, classes, width, &x_block, &w_t, &logits, NULL))
            return false;
        cti_op_loss_rows(c, 2, m,
                         &(cti_loss_rows){.first = at,
                                          .classes = classes,
                                          .x = z->data,
                                          .losses = losses,
                                          .statistics = statistics,
                                          .dx = dx || dw ? z->data : NULL,
                                          .scale = scale});
        if (dx) {
            const cti_matrix dx_block = rows_from(dx, at);
            if (!cti_gemm_single(c->context, m, width, classes, &logits, &w, &dx_block, NULL))
                return false;
        }
        if (dw) {
            const cti_matrix of_dw = cti_matrix_of(dw, width, 1);
            if (!cti_gemm_single(c->context, classes, width, m, &logits_t, &x_block, &of_dw,
                                 &(cti_gemm_epilogue){.add = at > 0}))
                return false;
        }
    }
    return true;
}

static bool has_loss_of_each_row(const ct_call *c) {
    return ((const ct_cross_entropy_opts *)c->attrs)->reduction == CT_NONE;
}

static ct_tensor *linear_cross_entropy_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *weight = c->in[1], *targets = c->in[2];
    c->drop = has_loss_of_each_row(c) ? CT_DROP_OUT : CT_DROP_INPUTS | CT_DROP_OUT;
    if (!linear_cross_entropy_check(c)) return NULL;
    const double scale = cti_op_loss_weight(c, 2);
    const bool want_x = c->wants[0] && !has_loss_of_each_row(c),
               want_w = c->wants[1] && !has_loss_of_each_row(c);
    ct_tensor *losses = cti_op_new(c, x->dtype, targets->shape);
    ct_tensor *dx = c->saved[0] = want_x ? cti_op_new(c, x->dtype, x->shape) : NULL;
    ct_tensor *dw = c->saved[1] = want_w ? cti_op_new(c, x->dtype, weight->shape) : NULL;
    if (!losses || (want_x && !dx) || (want_w && !dw) ||
        !all_blocks(c, losses, (cti_loss_scale){.by = scale}, dx, dw))
        return NULL;
    return cti_op_loss_total(c, losses, scale);
}

static bool gradient_of_each_row(const ct_call *c, ct_tensor *g, ct_tensor **grad) {
    ct_tensor *x = c->in[0], *weight = c->in[1];
    /* a caller's buffer may have changed */
    if (!cti_op_loss_check(c, 2, weight->shape.dim[0])) return false;
    ct_tensor *losses = cti_op_new(c, x->dtype, g->shape);
    if (!losses || !cti_op_new_grads(c, 2, grad)) return false;
    return all_blocks(c, losses, cti_op_loss_scale(c, g, 1), grad[0], grad[1]);
}

static bool linear_cross_entropy_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    if (has_loss_of_each_row(c)) return gradient_of_each_row(c, g[0], grad);
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
                                           .backward = linear_cross_entropy_backward,
                                           .flags = CTI_OP_READS_BLOCKS};

ct_tensor *ct_linear_cross_entropy(ct_tensor *x, ct_tensor *weight, ct_tensor *targets,
                                   ct_cross_entropy_opts opts) {
    return cti_op_weighted_loss(&linear_cross_entropy, (ct_tensor *[4]){x, weight, targets}, 3,
                                opts.weight, &opts);
}
