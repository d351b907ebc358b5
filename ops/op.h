/* What the ops share: new tensors, elementwise loops and rows on all threads. */
#ifndef CT_OPS_OP_H
#define CT_OPS_OP_H

#include <cotangent/ops.h>

#include "../src/context.h"
#include "../src/tape.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* The kernels for the dtype of the call's first input. A kernel that is NULL has no such dtype: the loops below say so. */
static inline const ct_kernels *kernels(const ct_call *c) { return c->context->isa->of[c->in[0]->dtype]; }

/* How many rows of `cost` elements make a piece of work worth a thread. By size alone. */
static inline int64_t op_grain(int64_t cost) { return cost >= 16384 ? 1 : 16384 / (cost > 0 ? cost : 1); }

/* A new row-major tensor, its values undefined. Shapes that are made from inputs' shapes are checked for overflow here. */
static inline ct_tensor *op_new(const ct_call *c, ct_dtype dtype, ct_shape shape) { return ct_tensor_new(c->context, dtype, shape); }

/* Where the second half of a dense tensor's values begins, as of (2, rows): max, 1 / sum. */
static inline char *op_second_half(const ct_tensor *t) {
    return t->data + (size_t)(t->numel / 2) * ct_dtype_size(t->dtype);
}

/* Columns [start, start + width) of x (B, T, W) as heads, (B, H, T, width / H): a view. */
ct_tensor *op_heads(ct_tensor *x, int64_t heads, int64_t start, int64_t width);

/* ---- loops of dense tensors; each records CT_ERR_DTYPE under the op's name where its kernel is NULL ---- */
ct_tensor *op_map(const ct_call *c, ct_tensor *x, ct_map *f);                       /* y = f(x) */
ct_tensor *op_map_scalar(const ct_call *c, ct_tensor *x, ct_map_scalar *f, double a); /* y = f(x, a) */
bool op_map_backward(const ct_call *c, ct_tensor *xy, ct_tensor *g, ct_map_backward *f, ct_tensor **dx); /* dx = g f'(xy) */
ct_tensor *op_zip(const ct_call *c, ct_zip *f, ct_dtype out);                       /* f(in[0], in[1]), broadcast; checks their dtypes */
ct_tensor *op_rows(const ct_call *c, ct_tensor *x, ct_map *f);                      /* f of each row of the last dim; shape of x */
bool op_rows_backward(const ct_call *c, ct_tensor *xy, ct_tensor *g, ct_map_backward *f, ct_tensor **dx);

/* ---- checks: false with an error recorded under the op's name ---- */
bool op_refuse(const ct_call *c, ct_dtype dtype);      /* always false: the op does not take it */
bool op_refuse_dtypes(const ct_call *c, int i);        /* always false: in[0]'s and in[i]'s differ */
bool op_is(const ct_call *c, int i, ct_dtype dtype);   /* in[i] has that dtype */
static inline bool op_is_real(const ct_call *c, int i) {   /* in[i] is f32 or f64 */
    return ct_is_real(c->in[i]->dtype) || op_refuse(c, c->in[i]->dtype);
}
static inline bool op_same_dtype(const ct_call *c) {       /* all inputs (that are not NULL) have in[0]'s dtype */
    for (int i = 1; i < c->n; i++)
        if (c->in[i] && c->in[i]->dtype != c->in[0]->dtype) return op_refuse_dtypes(c, i);
    return true;
}

/* Sums a gradient down to the shape of in[i]: what the backward of every broadcast ends with. */
bool op_sum_to_input(const ct_call *c, int i, ct_tensor *g, ct_tensor **grad);

#endif
