/* A loop over up to three tensors at once, in the row-major order of a shape that each of them
 * broadcasts to. Neighbouring dims are merged where each tensor has one stride along both. The last
 * merged dim is the row: the loop's body does whole rows, the other dims number them. */
#ifndef CTI_CORE_STRIDED_LOOP_H
#define CTI_CORE_STRIDED_LOOP_H

#include "tensor.h"

enum { CTI_STRIDED_MOST = 3 };

typedef struct {
    int count; /* of tensors */
    /* the row: elements, and each tensor's stride in elements, 0 where it is broadcast */
    int64_t n, step[CTI_STRIDED_MOST];
    /* the other dims, after merging */
    int ndim;
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS][CTI_STRIDED_MOST];
} cti_strided_loop;

void cti_strided_loop_over(cti_strided_loop *loop, ct_shape shape, int count,
                           const ct_tensor *const *tensor);

/* How many elements the row of element i has from i on. */
static inline int64_t cti_strided_loop_left(const cti_strided_loop *loop, int64_t i) {
    return loop->n - (loop->ndim ? i % loop->n : i);
}

/* The offset in each tensor, in elements, of element i of the shape. */
void cti_strided_loop_at(const cti_strided_loop *loop, int64_t i, int64_t offset[CTI_STRIDED_MOST]);

#endif
