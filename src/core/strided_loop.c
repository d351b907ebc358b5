#include "strided_loop.h"

void cti_strided_loop_over(cti_strided_loop *loop, ct_shape shape, int count,
                           const ct_tensor *const *tensor) {
    CTI_ASSERT(count >= 1 && count <= CTI_STRIDED_MOST);
    for (int i = 0; i < count; i++) CTI_ASSERT(cti_shape_broadcasts_to(tensor[i]->shape, shape));
    loop->count = count;
    const int64_t numel = cti_shape_numel(shape);
    bool single_row = true; /* every tensor is row-major and none is broadcast */
    for (int i = 0; i < count; i++)
        single_row = single_row && tensor[i]->contiguous && tensor[i]->numel == numel;
    if (single_row) {
        loop->n = numel;
        loop->ndim = 0;
        for (int i = 0; i < count; i++) loop->step[i] = 1;
        return;
    }
    int last = -1; /* the merged dim that is being extended */
    for (int d = 0; d < shape.ndim; d++) {
        int64_t n = shape.dim[d], stride[CTI_STRIDED_MOST];
        if (n == 1) continue;
        bool merges = last >= 0;
        for (int i = 0; i < count; i++) {
            int own = d - (shape.ndim - tensor[i]->shape.ndim);
            stride[i] = own < 0 || tensor[i]->shape.dim[own] == 1 ? 0 : tensor[i]->stride[own];
            merges = merges && loop->stride[last][i] == n * stride[i];
        }
        if (!merges) loop->dim[++last] = 1;
        loop->dim[last] *= n;
        for (int i = 0; i < count; i++) loop->stride[last][i] = stride[i];
    }
    loop->ndim = last < 0 ? 0 : last;
    loop->n = last < 0 ? 1 : loop->dim[last];
    for (int i = 0; i < count; i++) loop->step[i] = last < 0 ? 0 : loop->stride[last][i];
    CTI_ASSERT(cti_strided_loop_numel(loop) == numel);
    for (int i = 0; i < count; i++)
        CTI_ASSERT(!numel || cti_strided_loop_last(loop, i) == cti_tensor_last(tensor[i]));
}

void cti_strided_loop_at(const cti_strided_loop *loop, int64_t i,
                         int64_t offset[CTI_STRIDED_MOST]) {
    CTI_ASSERT(i >= 0 && i < cti_strided_loop_numel(loop));
    int64_t row = loop->ndim ? i / loop->n : 0;
    const int64_t column = i - row * loop->n;
    for (int k = 0; k < loop->count; k++) offset[k] = column * loop->step[k];
    for (int d = loop->ndim - 1; d >= 0; d--) {
        const int64_t index = row % loop->dim[d];
        for (int k = 0; k < loop->count; k++) offset[k] += index * loop->stride[d][k];
        row /= loop->dim[d];
    }
}
