/* eq: y = (a = b), false if either is NaN
 * ne: y = (a != b), true if either is NaN
 * lt: y = (a < b), false if either is NaN
 * le: y = (a <= b), false if either is NaN
 * gt: y = (a > b), false if either is NaN
 * ge: y = (a >= b), false if either is NaN
 * Each: broadcast; of any one dtype to bool; no gradient */
#include "support/op.h"
#include "../src/kernels/elementwise.h"

static ct_tensor *eq_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->eq, CT_BOOL);
}
static ct_tensor *ne_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->ne, CT_BOOL);
}
static ct_tensor *lt_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->lt, CT_BOOL);
}
static ct_tensor *le_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->le, CT_BOOL);
}
static ct_tensor *gt_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->gt, CT_BOOL);
}
static ct_tensor *ge_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->ge, CT_BOOL);
}

static const ct_op eq_op = {.name = "eq", .forward = eq_forward};
static const ct_op ne_op = {.name = "ne", .forward = ne_forward};
static const ct_op lt_op = {.name = "lt", .forward = lt_forward};
static const ct_op le_op = {.name = "le", .forward = le_forward};
static const ct_op gt_op = {.name = "gt", .forward = gt_forward};
static const ct_op ge_op = {.name = "ge", .forward = ge_forward};

ct_tensor *ct_eq(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&eq_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_ne(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&ne_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_lt(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&lt_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_le(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&le_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_gt(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&gt_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_ge(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&ge_op, (ct_tensor *[]){a, b}, 2, NULL);
}
