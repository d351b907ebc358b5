/* The elementwise ops of one tensor: those rows of src/kernels/unary.h that have a slope. For
 * backward an op keeps x or y, whichever its row computes the slope from. */
#include "support/op.h"
#include "../src/kernels/unary.h"

typedef struct {
    ct_op op;            /* the first member, so a call's op points to this struct */
    size_t value, slope; /* offsets of the kernels in cti_unary_kernels */
    bool from_y;         /* whether the slope is computed from the output */
    int64_t cost;        /* the cost of a slope of x and a number, for cti_op_grain */
} unary_op;

static const unary_op *unary_op_of(const ct_call *c) { return (const unary_op *)c->op; }
static const char *unary_kernels(const ct_call *c) { return (const char *)kernels(c)->unary; }

static ct_tensor *unary_forward(ct_call *c) {
    const unary_op *u = unary_op_of(c);
    c->drop = u->from_y ? CT_DROP_INPUTS : CT_DROP_OUT;
    return cti_op_unary(c, c->in[0], *(cti_unary *const *)(unary_kernels(c) + u->value));
}

static bool unary_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const unary_op *u = unary_op_of(c);
    return cti_op_unary_backward(c, u->from_y ? c->out : c->in[0], g[0],
                                 *(cti_unary_backward *const *)(unary_kernels(c) + u->slope),
                                 &grad[0]);
}

#define UNARY_OP(f, keeps_y)                                                                       \
    static const unary_op f##_op = {                                                               \
        .op = {.name = #f, .forward = unary_forward, .backward = unary_backward},                  \
        .value = offsetof(cti_unary_kernels, f),                                                   \
        .slope = offsetof(cti_unary_kernels, f##_backward),                                        \
        .from_y = (keeps_y)};                                                                      \
    ct_tensor *ct_##f(ct_tensor *x) { return ct_apply(&f##_op.op, (ct_tensor *[]){x}, 1, NULL); }
#define UNARY_OP_NONE(f, ...)
#define UNARY_OP_FROM_X(f, ...) UNARY_OP(f, false)
#define UNARY_OP_FROM_Y(f, ...) UNARY_OP(f, true)
CTI_UNARY_KERNELS(UNARY_OP_NONE, UNARY_OP_FROM_X, UNARY_OP_FROM_Y, UNARY_OP_FROM_X)

static ct_tensor *unary_scalar_forward(ct_call *c) {
    cti_unary_scalar *f = *(cti_unary_scalar *const *)(unary_kernels(c) + unary_op_of(c)->value);
    c->drop = CT_DROP_OUT;
    return cti_op_unary_scalar(c, c->in[0], f, *(const double *)c->attrs);
}

static bool unary_scalar_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const unary_op *u = unary_op_of(c);
    cti_unary_scalar_backward *f =
        *(cti_unary_scalar_backward *const *)(unary_kernels(c) + u->slope);
    return cti_op_unary_scalar_backward(c, c->in[0], *(const double *)c->attrs, g[0], f, u->cost,
                                        &grad[0]);
}

#define UNARY_SCALAR_OP(f, of_slope)                                                               \
    static const unary_op f##_op = {.op = {.name = #f,                                             \
                                           .attrs_size = sizeof(double),                           \
                                           .forward = unary_scalar_forward,                        \
                                           .backward = unary_scalar_backward,                      \
                                           .flags = CTI_OP_EXACT_ATTRS},                           \
                                    .value = offsetof(cti_unary_kernels, f),                       \
                                    .slope = offsetof(cti_unary_kernels, f##_backward),            \
                                    .cost = (of_slope)};                                           \
    ct_tensor *ct_##f(ct_tensor *x, double a) {                                                    \
        return ct_apply(&f##_op.op, (ct_tensor *[]){x}, 1, &a);                                    \
    }
#define UNARY_SCALAR_OP_FROM_X(f, ...) UNARY_SCALAR_OP(f, 1)
#define UNARY_SCALAR_OP_LOOPS(f, ...)  UNARY_SCALAR_OP(f, 8)
CTI_SCALAR_KERNELS(UNARY_OP_NONE, UNARY_SCALAR_OP_FROM_X, UNARY_SCALAR_OP_LOOPS)
