/* Helpers of ops: new tensors, loops over elements or rows on all threads, and checks. */
#ifndef CTI_OPS_SUPPORT_OP_H
#define CTI_OPS_SUPPORT_OP_H

#include <cotangent/ops.h>

#include "../../src/core/context.h"
#include "../../src/core/isa.h"
#include "../../src/core/option.h"
#include "../../src/kernels/random.h"
#include "../../src/autograd/tape.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Returns the kernel table for the dtype of the call's first input. A NULL kernel means that the op
 * does not take this dtype; the loops below then record the error. */
static inline const cti_kernels *kernels(const ct_call *c) {
    return c->context->isa->of[c->in[0]->dtype];
}

/* Returns the minimum number of rows for one task of cti_parallel, if a row costs as much as `cost`
 * elements. It depends only on cost, not on the number of threads. */
static inline int64_t cti_op_grain(int64_t cost) {
    return cost >= 16384 ? 1 : 16384 / (cost > 0 ? cost : 1);
}

/* Returns a new row-major tensor with undefined values. The shape is checked for overflow. */
static inline ct_tensor *cti_op_new(const ct_call *c, ct_dtype dtype, ct_shape shape) {
    return cti_tensor_new(c->context, dtype, shape);
}

/* Makes tensors for the wanted gradients of inputs 0 ... n - 1. */
static inline bool cti_op_new_grads(const ct_call *c, int n, ct_tensor **grad) {
    for (int i = 0; i < n; i++) {
        if (!c->wants[i]) continue;
        grad[i] = cti_op_new(c, c->in[i]->dtype, c->in[i]->shape);
        if (!grad[i]) return false;
    }
    return true;
}

/* Returns the start of the second half of a dense tensor, for example of (2, rows): maxima, then 1
 * / sums. */
static inline char *cti_op_second_half(const ct_tensor *t) {
    CTI_ASSERT(t->contiguous && t->numel % 2 == 0);
    return t->data + (size_t)(t->numel / 2) * cti_dtype_size(t->dtype);
}

/* Returns columns [start, start + width) of x (B, T, W) as heads, (B, H, T, width / H), in a
 * view. */
ct_tensor *cti_op_heads(ct_tensor *x, int64_t heads, int64_t start, int64_t width);

/* Returns x times the factors of dropout that belong to `random`, as ct_dropout. */
ct_tensor *cti_op_dropout(ct_tensor *x, double p, cti_random random);

/* ---- loops of dense tensors ---- */

/* A loop records CT_ERR_DTYPE with the op's name if its kernel is NULL. */

/* y = f(x) */
ct_tensor *cti_op_unary(const ct_call *c, ct_tensor *x, cti_unary *f);
/* y = f(x, a) */
ct_tensor *cti_op_unary_scalar(const ct_call *c, ct_tensor *x, cti_unary_scalar *f, double a);
/* dx = g f'(xy) */
bool cti_op_unary_backward(const ct_call *c, ct_tensor *xy, ct_tensor *g, cti_unary_backward *f,
                           ct_tensor **dx);
/* dx = g f'(x, a). cost is the cost of an element, for cti_op_grain. */
bool cti_op_unary_scalar_backward(const ct_call *c, ct_tensor *x, double a, ct_tensor *g,
                                  cti_unary_scalar_backward *f, int64_t cost, ct_tensor **dx);
/* y = f(in[0], in[1]); the inputs broadcast, and their dtypes are checked */
ct_tensor *cti_op_binary(const ct_call *c, cti_binary *f, ct_dtype out);
/* y has the shape of x, and each row of its last dim is f of the row of x */
ct_tensor *cti_op_rows(const ct_call *c, ct_tensor *x, cti_unary *f);
bool cti_op_rows_backward(const ct_call *c, ct_tensor *xy, ct_tensor *g, cti_unary_backward *f,
                          ct_tensor **dx);

/* ---- checks: false with an error recorded under the op's name ---- */
/* records that the op does not take the dtype; always false */
bool cti_op_refuse(const ct_call *c, ct_dtype dtype);
/* records that the dtypes of in[0] and in[i] differ; always false */
bool cti_op_refuse_dtypes(const ct_call *c, int i);
bool cti_op_is(const ct_call *c, int i, ct_dtype dtype);     /* whether in[i] has the dtype */
static inline bool cti_op_is_real(const ct_call *c, int i) { /* whether ops compute in its dtype */
    return cti_is_real(c->in[i]->dtype) || cti_op_refuse(c, c->in[i]->dtype);
}
bool cti_op_is_whole(const ct_call *c, double a); /* whether a is a whole number of i64 */
static inline bool cti_op_takes_number(const ct_call *c, double a) { /* i64 takes whole numbers */
    return c->in[0]->dtype != CT_I64 || cti_op_is_whole(c, a);
}
/* whether all inputs that are not NULL have in[0]'s dtype */
static inline bool cti_op_same_dtype(const ct_call *c) {
    for (int i = 1; i < c->n; i++)
        if (c->in[i] && c->in[i]->dtype != c->in[0]->dtype) return cti_op_refuse_dtypes(c, i);
    return true;
}

/* the same, but in[weight] may be bf16 or blocks if the others are f32 */
bool cti_op_same_dtype_or_weight(const ct_call *c, int weight);

/* Sums a gradient to the shape of in[i], the last step in the backward of every broadcast. sum_to.c
 * has it. */
bool cti_op_sum_to_input(const ct_call *c, int i, ct_tensor *g, ct_tensor **grad);

#endif
