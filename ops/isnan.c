/* isnan: y = (x is NaN), bool; false for i64 and bool;   no gradient.
 * y = ct_ne(x, x), because only NaN differs from itself. */
#include "support/op.h"

static ct_tensor *isnan_forward(ct_call *c) { return ct_ne(c->in[0], c->in[0]); }

static const ct_op isnan_op = {.name = "isnan", .forward = isnan_forward};

ct_tensor *ct_isnan(ct_tensor *x) { return ct_apply(&isnan_op, (ct_tensor *[]){x}, 1, NULL); }
