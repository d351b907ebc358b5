/* A loop over up to three tensors at once, in the row-major order of a shape to which each of them
 * broadcasts. Two neighbouring dims are merged if in each tensor they can be walked by a single
 * stride. The last dim after merging is the row: the body of the loop does whole rows, and the
 * other dims number the rows. */
#ifndef CTI_CORE_STRIDED_LOOP_H
#define CTI_CORE_STRIDED_LOOP_H

#include "tensor.h"

enum { CTI_STRIDED_MOST = 3 };

typedef struct {
    int count; /* the number of tensors */
    /* The row: its number of elements, and the stride of each tensor in elements. A tensor that is
     * broadcast along the row has stride 0. */
    int64_t n, step[CTI_STRIDED_MOST];
    /* The other dims after merging: their sizes, and the strides of each tensor. */
    int ndim;
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS][CTI_STRIDED_MOST];
} cti_strided_loop;

void cti_strided_loop_over(cti_strided_loop *loop, ct_shape shape, int count,
                           const ct_tensor *const *tensor);

/* The number of elements from element i to the end of its row. */
static inline int64_t cti_strided_loop_left(const cti_strided_loop *loop, int64_t i) {
    return loop->n - (loop->ndim ? i % loop->n : i);
}

/* The number of elements of a loop, and the offset of its last element in tensor i. */
static inline int64_t cti_strided_loop_numel(const cti_strided_loop *loop) {
    int64_t numel = loop->n;
    for (int d = 0; d < loop->ndim; d++) numel *= loop->dim[d];
    return numel;
}
static inline int64_t cti_strided_loop_last(const cti_strided_loop *loop, int i) {
    int64_t last = (loop->n - 1) * loop->step[i];
    for (int d = 0; d < loop->ndim; d++) last += (loop->dim[d] - 1) * loop->stride[d][i];
    return last;
}

/* Sets the offset of element i of the shape in each tensor, in elements. */
void cti_strided_loop_at(const cti_strided_loop *loop, int64_t i, int64_t offset[CTI_STRIDED_MOST]);

#endif
