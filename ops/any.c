/* any: y = whether any element of x over dims is true; false for no elements
 * all: y = whether every element of x over dims is true; true for no elements
 * Each: bool; no gradient. An element of another dtype is true if it is not 0, so NaN is
 * true */
#include "support/reduce.h"
#include "../src/core/isa.h"
#include "../src/kernels/rows.h"

#include <string.h>

static ct_tensor *truth_of(ct_call *c, bool all) {
    const cti_reduce_attrs *attrs = c->attrs;
    const cti_kernels *k = c->context->isa->of[CT_BOOL];
    ct_tensor *x = c->in[0];
    unsigned set;
    if (!cti_dim_set(c->context, c->op->name, attrs->dims, x->shape.ndim, &set)) return NULL;
    if (x->dtype != CT_BOOL) x = ct_cast(x, CT_BOOL);
    if (!x) return NULL;
    cti_reduce *f = all ? k->rows->min : k->rows->max;
    ct_tensor *y = cti_reduce_dims(c, f, f, CT_BOOL, x, set, attrs->keepdim);
    if (y && all && x->numel == 0) memset(y->data, 1, (size_t)y->numel);
    return y;
}

static ct_tensor *any_forward(ct_call *c) { return truth_of(c, false); }
static ct_tensor *all_forward(ct_call *c) { return truth_of(c, true); }

static const ct_op any_op = {
    .name = "any", .attrs_size = sizeof(cti_reduce_attrs), .forward = any_forward};
static const ct_op all_op = {
    .name = "all", .attrs_size = sizeof(cti_reduce_attrs), .forward = all_forward};

ct_tensor *ct_any(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ct_apply(&any_op, (ct_tensor *[]){x}, 1, &(cti_reduce_attrs){dims, keepdim});
}
ct_tensor *ct_all(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ct_apply(&all_op, (ct_tensor *[]){x}, 1, &(cti_reduce_attrs){dims, keepdim});
}
