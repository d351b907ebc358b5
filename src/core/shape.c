#include "shape.h"

#include <cotangent/autograd.h>

#include <stdio.h>

bool cti_dtype_check(ct_context *context, const char *op, ct_dtype dtype) {
    const bool exists = (unsigned)dtype < CTI_DTYPES;
    if (exists && !cti_is_blocks(dtype)) return true;
    if (exists)
        return ct_fail(context, CT_ERR_DTYPE, "%s: makes no tensor of %s; ct_cast does", op,
                       cti_dtype_name(dtype));
    return ct_fail(context, CT_ERR_DTYPE, "%s: there is no dtype %d", op, (int)dtype);
}

const char *cti_shape_text(ct_shape shape, char text[CTI_SHAPE_TEXT]) {
    int end = sprintf(text, "(");
    for (int d = 0; d < shape.ndim && d < CT_MAX_DIMS; d++)
        end += sprintf(text + end, d ? ", %lld" : "%lld", (long long)shape.dim[d]);
    sprintf(text + end, ")");
    return text;
}

bool cti_shape_equal(ct_shape a, ct_shape b) { return cti_shape_same(&a, &b); }

int64_t cti_shape_numel(ct_shape shape) {
    int64_t numel = 1;
    CTI_ASSERT(shape.ndim >= 0 && shape.ndim <= CT_MAX_DIMS);
    for (int d = 0; d < shape.ndim; d++) numel *= shape.dim[d];
    CTI_ASSERT(numel >= 0);
    return numel;
}

bool cti_shape_refuse(ct_context *context, const char *op, const ct_shape *shape) {
    if (!op) op = "tensor";
    if (shape->ndim < 0 || shape->ndim > CT_MAX_DIMS)
        return ct_fail(context, CT_ERR_SHAPE, "%s: %d dims; a tensor has 0 to %d", op, shape->ndim,
                       CT_MAX_DIMS);
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dim[d] < 0)
            return ct_fail(context, CT_ERR_SHAPE, "%s: a size is negative: %s", op, SHAPE(*shape));
    return ct_fail(context, CT_ERR_MEMORY, "%s: the size of %s overflows", op, SHAPE(*shape));
}

bool cti_shape_check(ct_context *context, const char *op, ct_shape shape, size_t element_size) {
    int64_t numel;
    return cti_shape_fits(context, op, &shape, element_size, &numel);
}

int cti_dim_index(ct_context *context, const char *op, int64_t dim, int ndim) {
    const int64_t index = dim < 0 ? dim + ndim : dim;
    if (index >= 0 && index < ndim) return (int)index;
    ct_fail(context, CT_ERR_SHAPE, "%s: no dim %lld in a tensor of %d dims", op, (long long)dim,
            ndim);
    return -1;
}

bool cti_dim_set(ct_context *context, const char *op, ct_shape dims, int ndim, unsigned *set) {
    *set = 0;
    if (dims.ndim < 0 || dims.ndim > CT_MAX_DIMS) {
        ct_fail(context, CT_ERR_SHAPE, "%s: a list of %d dims", op, dims.ndim);
        return false;
    }
    for (int i = 0; i < dims.ndim; i++) {
        int64_t dim = dims.dim[i];
        /* as in torch, a scalar can be reduced along dim 0 */
        if (ndim == 0 && (dim == 0 || dim == -1)) continue;
        int d = cti_dim_index(context, op, dim, ndim);
        if (d < 0) return false;
        if (*set >> d & 1) {
            ct_fail(context, CT_ERR_SHAPE, "%s: dim %lld is named twice", op, (long long)dim);
            return false;
        }
        *set |= 1u << d;
    }
    if (dims.ndim == 0) *set = (1u << ndim) - 1;
    CTI_ASSERT(*set >> ndim == 0);
    return true;
}

ct_shape cti_shape_reduced(ct_shape shape, unsigned set, bool keepdim) {
    ct_shape out = CT_SCALAR;
    CTI_ASSERT(shape.ndim >= 0 && shape.ndim <= CT_MAX_DIMS);
    CTI_ASSERT(set >> shape.ndim == 0 || (set == 1 && shape.ndim == 0)); /* argmax of a scalar */
    for (int d = 0; d < shape.ndim; d++) {
        const bool reduced = set >> d & 1;
        if (!reduced || keepdim) out.dim[out.ndim++] = reduced ? 1 : shape.dim[d];
    }
    return out;
}

bool cti_shape_broadcast(ct_context *context, const char *op, ct_shape a, ct_shape b,
                         ct_shape *out) {
    if (cti_shape_equal(a, b)) {
        *out = a;
        return true;
    }
    ct_shape shape = {.ndim = a.ndim > b.ndim ? a.ndim : b.ndim};
    for (int i = 1; i <= shape.ndim; i++) {
        int64_t da = i <= a.ndim ? a.dim[a.ndim - i] : 1, db = i <= b.ndim ? b.dim[b.ndim - i] : 1;
        if (da != db && da != 1 && db != 1) {
            ct_fail(context, CT_ERR_SHAPE, "%s: shapes do not broadcast: %s and %s", op, SHAPE(a),
                    SHAPE(b));
            return false;
        }
        shape.dim[shape.ndim - i] = da == 1 ? db : da;
    }
    *out = shape;
    return true;
}

bool cti_shape_broadcasts_to(ct_shape from, ct_shape to) {
    if (from.ndim > to.ndim) return false;
    for (int i = 1; i <= from.ndim; i++) {
        int64_t size = from.dim[from.ndim - i];
        if (size != 1 && size != to.dim[to.ndim - i]) return false;
    }
    return true;
}

void cti_shape_strides(ct_shape shape, int64_t stride[CT_MAX_DIMS]) {
    int64_t step = 1;
    CTI_ASSERT(shape.ndim >= 0 && shape.ndim <= CT_MAX_DIMS);
    for (int d = shape.ndim - 1; d >= 0; d--) {
        stride[d] = step;
        CTI_ASSERT(shape.dim[d] >= 0);
        step *= shape.dim[d] ? shape.dim[d] : 1;
    }
}
