/* pad: y = `before` times value, then x, then `after` times value along dim; a negative number cuts
 * off as many elements of x;   dx = g padded by -before and -after: the elements of g that were
 * x's, and 0 for elements that were cut off. x of any dtype */
#include "support/op.h"

typedef struct {
    int dim;
    int64_t before, after;
    double value;
} pad_attrs;

/* Fills a range of dim with the value. */
static bool pad_fill(ct_tensor *y, int dim, int64_t start, int64_t length, ct_tensor *value) {
    ct_tensor *slice = length > 0 ? ct_narrow(y, dim, start, length) : NULL;
    ct_tensor *all = slice ? ct_expand(value, slice->shape) : NULL;
    if (all) cti_tensor_copy(slice, all, false);
    return all || length <= 0;
}

static ct_tensor *padded(const ct_call *c, ct_tensor *x, pad_attrs p) {
    ct_shape shape = x->shape;
    const int64_t n = shape.dim[p.dim], cut_before = p.before < 0 ? -p.before : 0,
                  cut_after = p.after < 0 ? -p.after : 0, kept = n - cut_before - cut_after;
    int64_t *size = &shape.dim[p.dim];
    if (__builtin_add_overflow(kept, p.before > 0 ? p.before : 0, size) ||
        __builtin_add_overflow(*size, p.after > 0 ? p.after : 0, size))
        return ct_fail(c->context, CT_ERR_MEMORY, "pad: the size of dim %d overflows", p.dim);
    ct_tensor *y = cti_op_new(c, x->dtype, shape),
              *value = ct_full(c->context, x->dtype, CT_SCALAR, p.value);
    if (!y || !value) return NULL;
    const int64_t at = p.before > 0 ? p.before : 0;
    ct_tensor *from = ct_narrow(x, p.dim, cut_before, kept), *to = ct_narrow(y, p.dim, at, kept);
    if (!from || !to) return NULL;
    cti_tensor_copy(to, from, false);
    return pad_fill(y, p.dim, 0, p.before, value) && pad_fill(y, p.dim, at + kept, p.after, value)
               ? y
               : NULL;
}

static ct_tensor *pad_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    pad_attrs p = *(const pad_attrs *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    p.dim = cti_dim_index(c->context, "pad", p.dim, x->shape.ndim);
    if (p.dim < 0) return NULL;
    const int64_t n = x->shape.dim[p.dim], left = p.before < 0 ? n + p.before : n;
    if (left < 0 || (p.after < 0 && left + p.after < 0))
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "pad: %lld and %lld cut off more than dim %d of %s", (long long)p.before,
                       (long long)p.after, p.dim, SHAPE(x->shape));
    return padded(c, x, p);
}

static bool pad_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const pad_attrs p = *(const pad_attrs *)c->attrs;
    const int dim = p.dim < 0 ? p.dim + c->in[0]->shape.ndim : p.dim;
    return (grad[0] = padded(c, g[0], (pad_attrs){dim, -p.before, -p.after, 0})) != NULL;
}

static const ct_op pad_op = {.name = "pad",
                             .attrs_size = sizeof(pad_attrs),
                             .forward = pad_forward,
                             .backward = pad_backward,
                             .flags = CT_OP_STRIDED};

ct_tensor *ct_pad(ct_tensor *x, int dim, int64_t before, int64_t after, double value) {
    return ct_apply(&pad_op, (ct_tensor *[]){x}, 1, &(pad_attrs){dim, before, after, value});
}
