#include "shape_ops.h"
#include "../update/update.h"

bool cti_op_view_shape(const char *name, const ct_tensor *x, ct_shape asked, ct_shape *shape) {
    ct_context *context = x->context;
    int inferred = -1;
    bool zero = false;
    *shape = asked;
    for (int d = 0; d < asked.ndim && d < CT_MAX_DIMS; d++) {
        if (asked.dim[d] == 0) zero = true;
        if (asked.dim[d] != -1) continue;
        if (inferred >= 0)
            return ct_fail(context, CT_ERR_SHAPE, "%s: only one size may be inferred: %s", name,
                           SHAPE(asked));
        inferred = d;
        shape->dim[d] = 1;
    }
    if (!cti_shape_check(context, name, *shape, cti_dtype_size(x->dtype))) return false;
    const int64_t rest = cti_shape_numel(*shape);
    if (inferred >= 0) {
        if (zero)
            return ct_fail(context, CT_ERR_SHAPE, "%s: the size of -1 is ambiguous: %s as %s", name,
                           SHAPE(x->shape), SHAPE(asked));
        shape->dim[inferred] = x->numel / rest;
    }
    if (cti_shape_numel(*shape) == x->numel) return true;
    return ct_fail(context, CT_ERR_SHAPE, "%s: %s has not the number of elements of %s", name,
                   SHAPE(x->shape), SHAPE(asked));
}

/* Adjacent dims with stride[d - 1] = stride[d] size[d] act like one dim. The new shape is a view if
 * each such run, from the last to the first, is a product of whole dims of the new shape. */
bool cti_op_view_strides(const ct_tensor *x, ct_shape shape, int64_t stride[CT_MAX_DIMS]) {
    cti_shape_strides(shape, stride);
    if (x->numel == 0 || x->contiguous) return true;
    int to = shape.ndim - 1;
    for (int d = x->shape.ndim - 1; d >= 0;) {
        while (d >= 0 && x->shape.dim[d] == 1) d--;
        if (d < 0) break;
        const int64_t base = x->stride[d];
        int64_t run = x->shape.dim[d--], taken = 1;
        while (d >= 0 && (x->shape.dim[d] == 1 || x->stride[d] == run * base))
            run *= x->shape.dim[d--];
        while (to >= 0 && taken < run) {
            stride[to] = taken * base;
            taken *= shape.dim[to--];
        }
        if (taken != run) return false;
    }
    return true; /* the remaining dims of the new shape have size 1 */
}

int cti_op_dim_or_scalar(const char *name, const ct_tensor *x, int64_t dim) {
    return cti_dim_index(x->context, name, dim, x->shape.ndim > 0 ? x->shape.ndim : 1);
}

void cti_op_without_dim(const ct_tensor *x, int dim, ct_shape *shape, int64_t *stride) {
    CTI_ASSERT(dim >= 0 && dim < x->shape.ndim);
    shape->ndim = x->shape.ndim - 1;
    for (int d = 0; d < shape->ndim; d++) {
        shape->dim[d] = x->shape.dim[d < dim ? d : d + 1];
        stride[d] = x->stride[d < dim ? d : d + 1];
    }
}

ct_tensor *cti_op_grad_sum(const ct_call *c, int i) {
    bool add;
    ct_tensor *place = cti_grad_writable(c, i, &add);
    return place && (add || cti_op_fill(place, 0)) ? place : NULL;
}
