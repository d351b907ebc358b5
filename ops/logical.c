/* logical_and: y = a and b, broadcast
 * logical_or: y = a or b, broadcast
 * logical_not: y = not x
 * Each: of bool to bool; no gradient */
#include "support/op.h"
#include "../src/kernels/elementwise.h"
#include "../src/kernels/unary.h"

static ct_tensor *and_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->logical_and, CT_BOOL);
}
static ct_tensor *or_forward(ct_call *c) {
    return cti_op_binary(c, kernels(c)->elementwise->logical_or, CT_BOOL);
}
static ct_tensor *not_forward(ct_call *c) {
    return cti_op_unary(c, c->in[0], kernels(c)->unary->logical_not);
}

static const ct_op logical_and_op = {.name = "logical_and", .forward = and_forward};
static const ct_op logical_or_op = {.name = "logical_or", .forward = or_forward};
static const ct_op logical_not_op = {.name = "logical_not", .forward = not_forward};

ct_tensor *ct_logical_and(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&logical_and_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_logical_or(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&logical_or_op, (ct_tensor *[]){a, b}, 2, NULL);
}
ct_tensor *ct_logical_not(ct_tensor *a) {
    return ct_apply(&logical_not_op, (ct_tensor *[]){a}, 1, NULL);
}
