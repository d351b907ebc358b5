#include "strided_loop.h"

void cti_strided_loop_over(cti_strided_loop *w, ct_shape shape, int count,
                           const ct_tensor *const *tensor) {
    int last = -1;
    w->count = count;
    int64_t numel = cti_shape_numel(shape);
    bool alike = true; /* row-major and nothing repeats: a single row */
    for (int i = 0; i < count; i++)
        alike = alike && tensor[i]->contiguous && tensor[i]->numel == numel;
    if (alike) {
        w->n = numel;
        w->ndim = 0;
        for (int i = 0; i < count; i++) w->step[i] = 1;
        return;
    }
    for (int d = 0; d < shape.ndim; d++) {
        int64_t n = shape.dim[d], stride[CTI_STRIDED_MOST];
        if (n == 1) continue;
        bool merges = last >= 0;
        for (int i = 0; i < count; i++) {
            int own = d - (shape.ndim - tensor[i]->shape.ndim);
            stride[i] = own < 0 || tensor[i]->shape.dim[own] == 1 ? 0 : tensor[i]->stride[own];
            merges = merges && w->stride[last][i] == n * stride[i];
        }
        if (!merges) w->dim[++last] = 1;
        w->dim[last] *= n;
        for (int i = 0; i < count; i++) w->stride[last][i] = stride[i];
    }
    w->ndim = last < 0 ? 0 : last;
    w->n = last < 0 ? 1 : w->dim[last];
    for (int i = 0; i < count; i++) w->step[i] = last < 0 ? 0 : w->stride[last][i];
}

void cti_strided_loop_at(const cti_strided_loop *w, int64_t i, int64_t offset[CTI_STRIDED_MOST]) {
    int64_t row = w->ndim ? i / w->n : 0, column = i - row * w->n;
    for (int k = 0; k < w->count; k++) offset[k] = column * w->step[k];
    for (int d = w->ndim - 1; d >= 0; row /= w->dim[d--])
        for (int k = 0; k < w->count; k++) offset[k] += row % w->dim[d] * w->stride[d][k];
}
