/* activated_linear: y = r + h W^T + b,  h = f(x), f an activation: the end of a feed-forward in one
 * op;
 * dr = g,  db = g's rows summed,  dW = g^T h,  dx = (g W) f'(x).
 *
 * h is not kept for backward: the epilogue of the product g W makes dx of each block while it is in
 * cache, and computes h again beside it. */
#include "support/op.h"

#include <string.h>

#include "../src/core/cache_sets.h"
#include "../src/gemm/gemm.h"

typedef struct {
    ct_activation activation;
} attributes;

typedef struct {
    cti_unary *f;
    cti_unary_backward *backward;
    cti_unary_both *both;
} functions;

static functions functions_of(const ct_call *c) {
    const cti_kernels *k = kernels(c);
    switch (((const attributes *)c->attrs)->activation) {
    /* from x as from y: both are positive or neither is */
    case CT_RELU: return (functions){k->relu, k->relu_backward, k->relu_both};
    case CT_GELU: return (functions){k->gelu, k->gelu_backward, k->gelu_both};
    case CT_GELU_TANH: return (functions){k->gelu_tanh, k->gelu_tanh_backward, k->gelu_tanh_both};
    case CT_SILU: return (functions){k->silu, k->silu_backward, k->silu_both};
    }
    return (functions){0};
}

static cti_matrix matrix(const ct_tensor *t, int64_t cols) { return cti_matrix_of(t, cols, 1); }
static cti_matrix transposed(const ct_tensor *t, int64_t cols) { return cti_matrix_of(t, 1, cols); }

static int64_t rows_of(const ct_tensor *x) {
    int64_t rows = 1;
    for (int d = 0; d < x->shape.ndim - 1; d++) rows *= x->shape.dim[d];
    return rows;
}

static bool check(ct_call *c, ct_shape *shape) {
    const ct_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2], *residual = c->in[3];
    if (!cti_op_is_real(c, 0)) return false; /* other dtypes have no activations at all */
    if (!functions_of(c).f)
        return ct_fail(c->context, CT_ERR_ARGUMENT, "activated_linear: no activation %d",
                       (int)((const attributes *)c->attrs)->activation);
    if (!w) return ct_fail(c->context, CT_ERR_ARGUMENT, "activated_linear: weight is NULL");
    if (!cti_op_same_dtype_or_bf16(c, 1)) return false;
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
    int64_t row; /* bytes */
} sum;

static void add_residual(void *arg, const cti_matrix *y, int64_t rows, int64_t cols) {
    const sum *s = arg;
    int64_t at = (char *)y->data - s->y;
    for (int64_t i = 0; i < rows; i++, at += s->row) {
        char *to = (char *)y->data + i * s->row;
        s->kernels->add(cols, to, 1, s->residual + at, 1, to);
    }
}

static ct_tensor *forward(ct_call *c) {
    const ct_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2], *residual = c->in[3];
    ct_shape shape;
    if (!check(c, &shape)) return NULL;
    c->drop = CT_DROP_OUT | CT_DROP_IN(2) | CT_DROP_IN(3) | (c->wants[0] ? 0 : CT_DROP_IN(1));
    if (!c->wants[0] && !c->wants[1]) c->drop |= CT_DROP_IN(0);
    ct_tensor *y = cti_op_new(c, x->dtype, shape),
              *h = y ? cti_op_unary(c, c->in[0], functions_of(c).f) : NULL;
    if (!h) return NULL;
    const int64_t in = w->shape.dim[1], out = w->shape.dim[0],
                  size = (int64_t)cti_dtype_size(x->dtype);
    sum s = {kernels(c), residual ? residual->data : NULL, y->data, out * size};
    const cti_gemm_epilogue end = {
        .bias = bias ? bias->data : NULL, .apply = residual ? add_residual : NULL, .arg = &s};
    const cti_gemm_args product = {.batch = 1,
                                   .m = rows_of(x),
                                   .n = out,
                                   .k = in,
                                   .alpha = 1,
                                   .epilogue = &end,
                                   .a = matrix(h, in),
                                   .b = transposed(w, in),
                                   .c = matrix(y, out)};
    return cti_gemm(c->context, &product) ? y : NULL;
}

/* ---- backward ---- */

typedef struct {
    functions f;
    const char *x;
    char *dx, *h;
    int64_t x_row, row; /* bytes */
} blocks;

/* dh of a block becomes dx, and h beside it. */
static void through_activation(void *arg, const cti_matrix *dh, int64_t rows, int64_t cols) {
    const blocks *b = arg;
    int64_t at = (char *)dh->data - b->dx, at_x = at / b->row * b->x_row + at % b->row;
    for (int64_t i = 0; i < rows; i++, at += b->row, at_x += b->x_row) {
        if (b->h) b->f.both(cols, b->x + at_x, b->dx + at, b->h + at, b->dx + at);
        else b->f.backward(cols, b->x + at_x, b->dx + at, b->dx + at);
    }
}

/* A tensor like x that products read by columns. Where its rows would begin at one or two offsets
 * of an L1d way (conflict misses, src/core/cache_sets.h), they are 16 elements longer: 64 bytes in
 * f32, 128 in f64. 1.03 times as fast for a step of width 128. */
static ct_tensor *new_padded(const ct_call *c, const ct_tensor *x, int64_t in) {
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

static bool backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const ct_tensor *x = c->in[0], *w = c->in[1];
    const int64_t rows = rows_of(x), in = w->shape.dim[1], out = w->shape.dim[0];
    ct_tensor *h = NULL;
    int64_t row = in; /* from one of h to the next */
    if (c->wants[0]) {
        grad[0] = new_padded(c, x, in);
        if (c->wants[1]) h = new_padded(c, x, in);
        if (!grad[0] || (c->wants[1] && !h)) return false;
        row = x->shape.ndim > 1 ? grad[0]->stride[x->shape.ndim - 2] : in;
        const int64_t size = (int64_t)cti_dtype_size(x->dtype);
        blocks b = {functions_of(c),    x->data,   grad[0]->data,
                    h ? h->data : NULL, in * size, row * size};
        const cti_gemm_args product = {
            .batch = 1,
            .m = rows,
            .n = in,
            .k = out,
            .alpha = 1,
            .a = matrix(g[0], out),
            .b = matrix(w, in),
            .c = matrix(grad[0], row),
            .epilogue = &(cti_gemm_epilogue){.apply = through_activation, .arg = &b}};
        if (!cti_gemm(c->context, &product)) return false;
    } else if (c->wants[1]) {
        h = cti_op_unary(c, c->in[0], functions_of(c).f);
        if (!h) return false;
    }
    if (c->wants[1]) {
        bool add;
        grad[1] = cti_grad_writable(c, 1, &add);
        if (!grad[1]) return false;
        const cti_gemm_args product = {.batch = 1,
                                       .m = out,
                                       .n = in,
                                       .k = rows,
                                       .alpha = 1,
                                       .epilogue = &(cti_gemm_epilogue){.add = add},
                                       .a = transposed(g[0], out),
                                       .b = matrix(h, row),
                                       .c = matrix(grad[1], in)};
        if (!cti_gemm(c->context, &product)) return false;
    }
    if (c->wants[3]) grad[3] = g[0];
    return !c->wants[2] || cti_op_sum_to_input(c, 2, g[0], &grad[2]);
}

static const ct_op op = {.name = "activated_linear",
                         .attrs_size = sizeof(attributes),
                         .forward = forward,
                         .backward = backward,
                         .flags = CT_OP_OPTIONAL};

ct_tensor *ct_activated_linear(ct_tensor *x, ct_activation activation, ct_tensor *weight,
                               ct_tensor *bias, ct_tensor *residual) {
    return cti_apply(&op, (ct_tensor *[]){x, weight, bias, residual}, 4, &(attributes){activation});
}
