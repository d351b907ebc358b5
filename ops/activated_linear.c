/* activated_linear: y = r + h W^T + b,  h = f(x), f an activation: the end of a feed-forward;
 * dr = g,  db = g's rows summed,  dW = g^T h,  dx = (g W) f'(x).
 *
 * h is not saved for backward: the epilogue of the product g W turns each block of it into dx while
 * the block is in cache, and computes h again. */
#include "support/activation.h"
#include "../src/kernels/elementwise.h"

#include <string.h>

#include "../src/core/cache_sets.h"
#include "../src/gemm/gemm.h"

typedef struct {
    ct_activation activation;
} activated_linear_attrs;

static bool activation_of(const ct_call *c, cti_activation *f) {
    return cti_op_activation(c, ((const activated_linear_attrs *)c->attrs)->activation, f);
}

/* h = f(x) */
static ct_tensor *activated(const ct_call *c) {
    cti_activation a;
    if (!activation_of(c, &a)) return NULL;
    return a.f ? cti_op_unary(c, c->in[0], a.f)
               : cti_op_unary_scalar(c, c->in[0], a.scalar, a.number);
}

static cti_matrix by_rows(const ct_tensor *t, int64_t cols) { return cti_matrix_of(t, cols, 1); }
static cti_matrix by_columns(const ct_tensor *t, int64_t cols) { return cti_matrix_of(t, 1, cols); }

static int64_t activated_linear_rows(const ct_tensor *x) {
    int64_t rows = 1;
    for (int d = 0; d < x->shape.ndim - 1; d++) rows *= x->shape.dim[d];
    return rows;
}

static bool activated_linear_check(ct_call *c, ct_shape *shape) {
    const ct_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2], *residual = c->in[3];
    cti_activation f;
    if (!activation_of(c, &f)) return false;
    if (!w) return ct_fail(c->context, CT_ERR_ARGUMENT, "activated_linear: weight is NULL");
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype_or_weight(c, 1)) return false;
    if (w->shape.ndim != 2 || x->shape.ndim == 0 ||
        x->shape.dim[x->shape.ndim - 1] != w->shape.dim[1])
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "activated_linear: %s with weight %s, not (..., in) with (out, in)",
                       SHAPE(x->shape), SHAPE(w->shape));
    if (bias && (bias->shape.ndim != 1 || bias->shape.dim[0] != w->shape.dim[0]))
        return ct_fail(c->context, CT_ERR_SHAPE, "activated_linear: bias %s does not fit weight %s",
                       SHAPE(bias->shape), SHAPE(w->shape));
    *shape = x->shape;
    shape->dim[shape->ndim - 1] = w->shape.dim[0];
    if (residual && !cti_shape_equal(residual->shape, *shape))
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "activated_linear: residual %s beside a result of %s",
                       SHAPE(residual->shape), SHAPE(*shape));
    return true;
}

/* ---- forward ---- */

typedef struct {
    const cti_kernels *kernels;
    const char *residual, *y;
    int64_t row; /* bytes of a row */
} residual_sum;

static void add_residual(void *arg, const cti_matrix *y, int64_t rows, int64_t cols) {
    const residual_sum *s = arg;
    int64_t at = (char *)y->data - s->y;
    for (int64_t i = 0; i < rows; i++, at += s->row) {
        char *to = (char *)y->data + i * s->row;
        s->kernels->elementwise->add(cols, to, 1, s->residual + at, 1, to);
    }
}

static ct_tensor *activated_linear_forward(ct_call *c) {
    const ct_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2], *residual = c->in[3];
    ct_shape shape;
    if (!activated_linear_check(c, &shape)) return NULL;
    c->drop = CT_DROP_OUT | CT_DROP_IN(2) | CT_DROP_IN(3) | (c->wants[0] ? 0 : CT_DROP_IN(1));
    if (!c->wants[0] && !c->wants[1]) c->drop |= CT_DROP_IN(0);
    ct_tensor *y = cti_op_new(c, x->dtype, shape), *h = y ? activated(c) : NULL;
    if (!h) return NULL;
    const int64_t in = w->shape.dim[1], out = w->shape.dim[0],
                  size = (int64_t)cti_dtype_size(x->dtype);
    residual_sum s = {kernels(c), residual ? residual->data : NULL, y->data, out * size};
    const cti_gemm_epilogue end = {
        .bias = bias ? bias->data : NULL, .apply = residual ? add_residual : NULL, .arg = &s};
    const cti_matrix of_h = by_rows(h, in), of_w = by_columns(w, in), of_y = by_rows(y, out);
    return cti_gemm_single(c->context, activated_linear_rows(x), out, in, &of_h, &of_w, &of_y, &end)
               ? y
               : NULL;
}

/* ---- backward ---- */

typedef struct {
    cti_activation f;
    const char *x;
    char *dx, *h;
    int64_t x_row, row; /* bytes */
} gradient_blocks;

/* Turns dh of a block into dx, and computes h beside it. */
static void through_activation(void *arg, const cti_matrix *dh, int64_t rows, int64_t cols) {
    const gradient_blocks *b = arg;
    int64_t at = (char *)dh->data - b->dx, at_x = at / b->row * b->x_row + at % b->row;
    for (int64_t i = 0; i < rows; i++, at += b->row, at_x += b->x_row) {
        const char *x = b->x + at_x;
        char *dx = b->dx + at;
        if (b->h) cti_activation_both(&b->f, cols, x, dx, b->h + at, dx);
        else cti_activation_backward(&b->f, cols, x, dx, dx);
    }
}

/* Returns a tensor like x that products read by columns. If its rows would begin at one or two
 * offsets of an L1d way (conflict misses, src/core/cache_sets.h), they are made 16 elements longer:
 * 64 bytes in f32, 128 in f64. A step of width 128 is 1.03 times as fast. */
static ct_tensor *new_padded_like(const ct_call *c, const ct_tensor *x, int64_t in) {
    const bool conflicts = cti_l1d_offsets(in * (int64_t)cti_dtype_size(x->dtype)) <= 2;
    if (!conflicts) return cti_op_new(c, x->dtype, x->shape);
    ct_shape shape = x->shape;
    shape.dim[shape.ndim - 1] += 16;
    ct_tensor *y = cti_op_new(c, x->dtype, shape);
    if (!y) return NULL;
    int64_t stride[CT_MAX_DIMS];
    memcpy(stride, y->stride, sizeof stride);
    return cti_tensor_view(y, y->data, x->shape, stride);
}

static bool activated_linear_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const ct_tensor *x = c->in[0], *w = c->in[1];
    const int64_t rows = activated_linear_rows(x), in = w->shape.dim[1], out = w->shape.dim[0];
    ct_tensor *h = NULL;
    int64_t row = in; /* elements from one row of h to the next */
    if (c->wants[0]) {
        grad[0] = new_padded_like(c, x, in);
        if (c->wants[1]) h = new_padded_like(c, x, in);
        if (!grad[0] || (c->wants[1] && !h)) return false;
        row = x->shape.ndim > 1 ? grad[0]->stride[x->shape.ndim - 2] : in;
        const int64_t size = (int64_t)cti_dtype_size(x->dtype);
        gradient_blocks b = {.x = x->data,
                             .dx = grad[0]->data,
                             .h = h ? h->data : NULL,
                             .x_row = in * size,
                             .row = row * size};
        if (!activation_of(c, &b.f)) return false;
        const cti_gemm_epilogue end = {.apply = through_activation, .arg = &b};
        const cti_matrix of_g = by_rows(g[0], out), of_w = by_rows(w, in),
                         of_dx = by_rows(grad[0], row);
        if (!cti_gemm_single(c->context, rows, in, out, &of_g, &of_w, &of_dx, &end)) return false;
    } else if (c->wants[1]) {
        h = activated(c);
        if (!h) return false;
    }
    if (c->wants[1]) {
        bool add;
        grad[1] = cti_grad_writable(c, 1, &add);
        if (!grad[1]) return false;
        const cti_matrix of_g = by_columns(g[0], out), of_h = by_rows(h, row),
                         of_dw = by_rows(grad[1], in);
        if (!cti_gemm_single(c->context, out, in, rows, &of_g, &of_h, &of_dw,
                             &(cti_gemm_epilogue){.add = add}))
            return false;
    }
    if (c->wants[3]) grad[3] = g[0];
    return !c->wants[2] || cti_op_sum_to_input(c, 2, g[0], &grad[2]);
}

static const ct_op activated_linear_op = {.name = "activated_linear",
                                          .attrs_size = sizeof(activated_linear_attrs),
                                          .forward = activated_linear_forward,
                                          .backward = activated_linear_backward,
                                          .flags = CT_OP_OPTIONAL | CTI_OP_READS_BLOCKS};

ct_tensor *ct_activated_linear(ct_tensor *x, ct_activation activation, ct_tensor *weight,
                               ct_tensor *bias, ct_tensor *residual) {
    return ct_apply(&activated_linear_op, (ct_tensor *[]){x, weight, bias, residual}, 4,
                    &(activated_linear_attrs){activation});
}
