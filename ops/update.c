/* What every update in place checks before it writes a thing. */
#include "op.h"
#include "update.h"

bool op_updatable(ct_tensor *t, const char *name, bool real) {
    if (!t || !ct_ready(t->context) || !ct_tensor_has_values(t, name)) return false;
    if (real && !ct_is_real(t->dtype))
        return ct_fail(t->context, CT_ERR_DTYPE, "%s: takes f32 or f64, not %s", name, ct_dtype_name(t->dtype));
    if (!t->contiguous) return ct_fail(t->context, CT_ERR_ARGUMENT, "%s: the tensor %s is not contiguous", name, SHAPE(t->shape));
    return true;
}

bool op_updates_with(ct_tensor *t, ct_tensor *u, const char *name) {
    if (!u) return ct_fail(t->context, CT_ERR_ARGUMENT, "%s: a tensor is NULL", name);
    if (u->context != t->context) return ct_fail(t->context, CT_ERR_ARGUMENT, "%s: tensors of two contexts", name);
    if (!ct_shape_equal(u->shape, t->shape))
        return ct_fail(t->context, CT_ERR_SHAPE, "%s: shapes differ: %s and %s", name, SHAPE(t->shape), SHAPE(u->shape));
    if (u->dtype != t->dtype)
        return ct_fail(t->context, CT_ERR_DTYPE, "%s: dtypes differ: %s and %s", name, ct_dtype_name(t->dtype), ct_dtype_name(u->dtype));
    return op_updatable(u, name, false);
}
