/* Initialisation in place. Glorot & Bengio 2010 (Xavier); He et al. 2015, arXiv:1502.01852
 * (Kaiming). */
#include "module.h"

#include <math.h>

/* A weight is (out, in, ...): as in torch, both fans are multiplied by the product of the dims
 * after the second. */
static bool fans(ct_tensor *tensor, const char *name, double *in, double *out) {
    if (!cti_tensor_ready(tensor, name)) return false;
    if (tensor->shape.ndim < 2) {
        ct_fail(tensor->context, CT_ERR_SHAPE, "%s: needs at least 2 dims, got %s", name,
                SHAPE(tensor->shape));
        return false;
    }
    double rest = 1;
    for (int d = 2; d < tensor->shape.ndim; d++) rest *= (double)tensor->shape.dim[d];
    *in = rest * (double)tensor->shape.dim[1];
    *out = rest * (double)tensor->shape.dim[0];
    return true;
}

static bool init_check(ct_tensor *tensor, const char *name, const char *option, double value) {
    return cti_tensor_ready(tensor, name) &&
           cti_nn_check_number(tensor->context, name, option, value);
}

/* sqrt(a / fan); a fan of 0 gives infinity, which no element then receives */
static double per_root(double a, double fan) { return sqrt(a / fan); }

bool ct_init_xavier_uniform(ct_tensor *tensor, double gain) {
    double in, out;
    if (!init_check(tensor, "xavier_uniform", "gain", gain) ||
        !fans(tensor, "xavier_uniform", &in, &out))
        return false;
    double a = gain * per_root(6, in + out);
    return cti_op_fill_uniform(tensor, -a, a);
}

bool ct_init_xavier_normal(ct_tensor *tensor, double gain) {
    double in, out;
    if (!init_check(tensor, "xavier_normal", "gain", gain) ||
        !fans(tensor, "xavier_normal", &in, &out))
        return false;
    return cti_op_fill_normal(tensor, 0, gain * per_root(2, in + out));
}

bool ct_init_kaiming_uniform(ct_tensor *tensor, double a) {
    double in, out;
    if (!init_check(tensor, "kaiming_uniform", "a", a) ||
        !fans(tensor, "kaiming_uniform", &in, &out))
        return false;
    double b = per_root(6, (1 + a * a) * in);
    return cti_op_fill_uniform(tensor, -b, b);
}

bool ct_init_uniform(ct_tensor *tensor, double low, double high) {
    if (!cti_tensor_ready(tensor, "init_uniform")) return false;
    if (low <= high && isfinite(high - low)) return cti_op_fill_uniform(tensor, low, high);
    ct_fail(tensor->context, CT_ERR_ARGUMENT, "init_uniform: no range from %g to %g", low, high);
    return false;
}

bool ct_init_normal(ct_tensor *tensor, double mean, double std) {
    return init_check(tensor, "init_normal", "std", std) && cti_op_fill_normal(tensor, mean, std);
}

bool ct_init_constant(ct_tensor *tensor, double value) {
    return tensor && cti_op_fill(tensor, value);
}
