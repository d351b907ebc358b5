#include "along.h"
#include "shape_ops.h"

int64_t cti_op_row_count(ct_shape shape) {
    CTI_ASSERT(shape.ndim > 0);
    shape.ndim--;
    return cti_shape_numel(shape);
}

static ct_tensor *bring_last(ct_tensor *x, int dim) {
    if (!x || x->shape.ndim == 0) return ct_unsqueeze(x, 0);
    ct_shape dims = {.ndim = x->shape.ndim};
    for (int d = 0; d < dims.ndim; d++) dims.dim[d] = d < dim ? d : d + 1 < dims.ndim ? d + 1 : dim;
    return ct_permute(x, dims);
}

static ct_tensor *bring_back(ct_tensor *x, int dim, int ndim) {
    if (ndim == 0) return ct_squeeze(x, 0);
    ct_shape dims = {.ndim = ndim};
    for (int d = 0; d < ndim; d++) dims.dim[d] = d < dim ? d : d > dim ? d - 1 : ndim - 1;
    return ct_contiguous(ct_permute(x, dims));
}

static ct_tensor *along(const ct_op *op, ct_tensor *const *in, int n, int dim) {
    ct_tensor *x = in[0];
    if (!x) return ct_apply(op, in, n, NULL); /* ct_apply records the error */
    if (!cti_tensor_ready(x, op->name)) return NULL;
    const int ndim = x->shape.ndim;
    dim = cti_op_dim_or_scalar(op->name, x, dim);
    if (dim < 0) return NULL;
    if (dim == ndim - 1) return ct_apply(op, in, n, NULL);
    cti_frame frame;
    cti_frame_open(x->context, &frame, false);
    ct_tensor *last[2] = {bring_last(x, dim),
                          n > 1 && in[1] ? bring_last(ct_expand(in[1], x->shape), dim) : NULL};
    ct_tensor *y = ct_apply(op, last, n, NULL);
    if (y && y->shape.ndim == last[0]->shape.ndim) y = bring_back(y, dim, ndim);
    return cti_frame_return(x->context, &frame, y);
}

ct_tensor *cti_op_along(const ct_op *op, ct_tensor *x, int dim) {
    return along(op, (ct_tensor *[]){x}, 1, dim);
}

ct_tensor *cti_op_along_masked(const ct_op *op, ct_tensor *x, ct_tensor *mask, int dim) {
    ct_tensor *const in[2] = {x, mask};
    if (x && !cti_tensors_in(in, 2, cti_handle_context(x), op->name)) return NULL;
    if (x && !cti_ready(x->context)) return NULL;
    if (x && mask && !cti_shape_broadcasts_to(mask->shape, x->shape))
        return ct_fail(x->context, CT_ERR_SHAPE, "%s: the mask %s does not broadcast to %s",
                       op->name, SHAPE(mask->shape), SHAPE(x->shape));
    return along(op, in, 2, dim);
}
