/* normalize: y = x / d,  d = max(n, eps),  n = (sum |x|^p)^(1/p) along a dim: for p = 0 the number
 * of elements that are not 0, for +-infinity the largest or smallest |x|; dx = g / d - [n >= eps]
 * sum(g y) / d n',  n' = sign(x) (|x| / n)^(p-1), 0 where x or n is 0. For +-infinity n' is sign(x)
 * where |x| = n, shared by equal elements, and for p = 0 it is 0 */
#include "support/op.h"
#include "support/shape_ops.h"

#include <math.h>

typedef struct {
    double p, eps;
    int dim;
} normalize_attrs;

static ct_tensor *p_norm(ct_tensor *x, double p, ct_shape along) {
    if (p == 2) return ct_sqrt(ct_sum(ct_mul(x, x), along, true));
    if (p == 0) return ct_sum(ct_cast(ct_ne_scalar(x, 0), x->dtype), along, true);
    ct_tensor *size = ct_abs(x);
    if (isinf(p)) return p > 0 ? ct_max(size, along, true) : ct_min(size, along, true);
    if (p == 1) return ct_sum(size, along, true);
    if (p < 1) return ct_pow(ct_sum(ct_pow(size, p), along, true), 1 / p);
    /* relative to the largest, as the power of a large number overflows */
    ct_tensor *most = ct_max(size, along, true);
    most = ct_masked_fill(most, ct_eq_scalar(most, 0), 1);
    most = ct_masked_fill(most, ct_eq_scalar(most, (double)INFINITY), 1);
    ct_tensor *sum = ct_sum(ct_pow(ct_div(size, most), p), along, true);
    return ct_mul(most, ct_pow(sum, 1 / p));
}

/* dn n', where n' is the derivative of the norm by x, for p other than 0. */
static ct_tensor *p_norm_grad(ct_tensor *x, ct_tensor *n, double p, ct_shape along, ct_tensor *dn) {
    if (isinf(p)) {
        ct_tensor *is_n = ct_cast(ct_eq(ct_abs(x), n), x->dtype);
        return ct_mul(dn, ct_div(ct_mul(ct_sign(x), is_n), ct_sum(is_n, along, true)));
    }
    if (p == 1) return ct_mul(dn, ct_sign(x));
    ct_tensor *part = ct_div(x, n);
    if (p < 1) { /* the power of a quotient that is nearly 0 would be infinite */
        part = ct_mul(ct_sign(x), ct_pow(ct_abs(x), p - 1));
        dn = ct_mul(dn, ct_pow(n, 1 - p));
    } else if (p != 2) {
        part = ct_mul(ct_sign(x), ct_pow(ct_abs(part), p - 1));
    }
    if (p != 2) part = ct_masked_fill(part, ct_eq_scalar(x, 0), 0);
    return ct_mul(dn, ct_masked_fill(part, ct_eq_scalar(n, 0), 0));
}

static ct_tensor *normalize_forward(ct_call *c) {
    const normalize_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    c->drop = 0;
    if (!cti_op_is_real(c, 0)) return NULL;
    if (isnan(attrs->p) || isnan(attrs->eps))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "normalize: p is %g and eps is %g", attrs->p,
                       attrs->eps);
    const int dim = cti_op_dim_or_scalar("normalize", x, attrs->dim);
    if (dim < 0) return NULL;
    if (x->numel == 0) return cti_op_new(c, x->dtype, x->shape);
    c->saved[0] = p_norm(x, attrs->p, x->shape.ndim ? CT_DIMS(dim) : CT_ALL);
    return c->saved[0] ? ct_div(x, ct_clamp(c->saved[0], attrs->eps, (double)INFINITY)) : NULL;
}

static bool normalize_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const normalize_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0], *n = c->saved[0];
    if (x->numel == 0) return (grad[0] = ct_zeros(c->context, x->dtype, x->shape)) != NULL;
    const int dim = cti_op_dim_or_scalar("normalize", x, attrs->dim);
    const ct_shape along = x->shape.ndim ? CT_DIMS(dim) : CT_ALL;
    ct_tensor *d = ct_clamp(n, attrs->eps, (double)INFINITY), *dx = ct_div(g[0], d);
    if (attrs->p != 0) {
        ct_tensor *dn = ct_div(ct_sum(ct_mul(g[0], ct_div(x, d)), along, true), d);
        dn = ct_masked_fill(dn, ct_lt_scalar(n, attrs->eps), 0);
        dx = ct_sub(dx, p_norm_grad(x, n, attrs->p, along, dn));
    }
    return (grad[0] = dx) != NULL;
}

static const ct_op normalize_op = {.name = "normalize",
                                   .attrs_size = sizeof(normalize_attrs),
                                   .forward = normalize_forward,
                                   .backward = normalize_backward};

ct_tensor *ct_normalize(ct_tensor *x, double p, int dim, double eps) {
    return ct_apply(&normalize_op, (ct_tensor *[]){x}, 1, &(normalize_attrs){p, eps, dim});
}
