/* roll: y_i = x_(i - shift) along dim, indices modulo its size;   dx_i = g_(i + shift).
 * x of any dtype. y is made of two views of x, in exchanged order. */
#include "support/op.h"

typedef struct {
    int dim;
    int64_t shift;
} roll_attrs;

static ct_tensor *rolled(const ct_call *c, ct_tensor *x, bool back) {
    roll_attrs t = *(const roll_attrs *)c->attrs;
    t.dim = cti_dim_index(c->context, "roll", t.dim, x->shape.ndim);
    if (t.dim < 0) return NULL;
    const int64_t n = x->shape.dim[t.dim];
    int64_t front = n ? t.shift % n : 0; /* elements that move from the end to the front */
    if (front < 0) front += n;
    if (back && front) front = n - front;
    ct_tensor *halves[2] = {ct_narrow(x, t.dim, n - front, front),
                            ct_narrow(x, t.dim, 0, n - front)};
    return halves[0] && halves[1] ? ct_cat(halves, 2, t.dim) : NULL;
}

static ct_tensor *roll_forward(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    return rolled(c, c->in[0], false);
}

static bool roll_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = rolled(c, g[0], true)) != NULL;
}

static const ct_op roll_op = {.name = "roll",
                              .attrs_size = sizeof(roll_attrs),
                              .forward = roll_forward,
                              .backward = roll_backward,
                              .flags = CT_OP_STRIDED};

ct_tensor *ct_roll(ct_tensor *x, int64_t shift, int dim) {
    return ct_apply(&roll_op, (ct_tensor *[]){x}, 1, &(roll_attrs){dim, shift});
}
