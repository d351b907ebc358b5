/* Several tensors walked together in the row-major order of one shape that each of them broadcasts
 * to. Dims along which all go on in one stride are one dim, so what is left is rows as long as they
 * can be, along each of which a tensor moves by one step. */
#ifndef CTI_CORE_STRIDED_LOOP_H
#define CTI_CORE_STRIDED_LOOP_H

#include "tensor.h"

enum { CTI_STRIDED_MOST = 3 };

typedef struct {
    int count; /* of tensors */
    /* of a row: elements, and each tensor's stride along it (0 where it repeats) */
    int64_t n, step[CTI_STRIDED_MOST];
    /* of the rows' index, the last dim the quickest */
    int ndim;
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS][CTI_STRIDED_MOST];
} cti_strided_loop;

void cti_strided_loop_over(cti_strided_loop *walk, ct_shape shape, int count,
                           const ct_tensor *const *tensor);

/* How many elements there are from element i to the end of its row. */
static inline int64_t cti_strided_loop_left(const cti_strided_loop *walk, int64_t i) {
    return walk->n - (walk->ndim ? i % walk->n : i);
}

/* The offset of element i of the shape in each tensor, in its elements. */
void cti_strided_loop_at(const cti_strided_loop *walk, int64_t i, int64_t offset[CTI_STRIDED_MOST]);

#endif
