/* Shapes. A function that fails records the error under the name `op`. */
#ifndef CTI_CORE_SHAPE_H
#define CTI_CORE_SHAPE_H

#include <cotangent/context.h>

#include "dtype.h"
#include "memory.h"

/* SHAPE(s) is "(2, 10, 512)", in a buffer that lives as long as the enclosing block. Each dim takes
 * at most 20 characters and ", ". */
enum { CTI_SHAPE_TEXT = CT_MAX_DIMS * 22 + 4 };
const char *cti_shape_text(ct_shape shape, char text[CTI_SHAPE_TEXT]);
#define SHAPE(shape) cti_shape_text((shape), (char[CTI_SHAPE_TEXT]){0})

bool cti_shape_equal(ct_shape a, ct_shape b);
int64_t cti_shape_numel(ct_shape shape); /* the shape has passed cti_shape_check */

/* cti_shape_equal for the path of every op. It takes pointers, because a copy of a shape whose
 * numbers have just been written would be a store-forwarding stall (docs/design.md). */
static inline bool cti_shape_same(const ct_shape *a, const ct_shape *b) {
    bool same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++) same = a->dim[d] == b->dim[d];
    return same;
}

/* Records the fault of a shape and returns false. The message calls a NULL `op` "tensor". */
bool cti_shape_refuse(ct_context *context, const char *op, const ct_shape *shape);
/* Whether a shape has 0 to 8 dims, no negative size and at most `most` bytes. Sets *numel. A size
 * of 0 counts as 1 in the bytes, because the product of the other sizes becomes a stride and must
 * not overflow either. A negative size, read as an unsigned number, is too large. An element of a
 * dtype of blocks, whose size is 0, counts as an f32, to which it can be widened. */
static inline bool cti_shape_fits_in(uint64_t most, ct_context *context, const char *op,
                                     const ct_shape *shape, size_t element_size, int64_t *numel) {
    uint64_t bytes = element_size ? element_size : sizeof(float), count = 1;
    bool wrong = shape->ndim < 0 || shape->ndim > CT_MAX_DIMS;
    for (int d = 0, ndim = wrong ? 0 : shape->ndim; d < ndim; d++) {
        const uint64_t size = (uint64_t)shape->dim[d];
        wrong |= __builtin_mul_overflow(bytes, size ? size : 1, &bytes);
        count *= size;
    }
    *numel = (int64_t)count;
    CTI_ASSERT(wrong || bytes > most || count <= bytes);
    return (!wrong && bytes <= most) || cti_shape_refuse(context, op, shape);
}
static inline bool cti_shape_fits(ct_context *context, const char *op, const ct_shape *shape,
                                  size_t element_size, int64_t *numel) {
    return cti_shape_fits_in(CTI_MOST_BYTES, context, op, shape, element_size, numel);
}
bool cti_shape_check(ct_context *context, const char *op, ct_shape shape, size_t element_size);

/* The index of a dim, from 0 to ndim - 1; a negative `dim` counts from the end. Returns -1 with an
 * error if the dim does not exist. */
int cti_dim_index(ct_context *context, const char *op, int64_t dim, int ndim);

/* Sets *set to a bit mask of a list of dims, with bit d for dim d. An empty list means all dims.
 * Returns false with an error if a dim does not exist or is named twice. */
bool cti_dim_set(ct_context *context, const char *op, ct_shape dims, int ndim, unsigned *set);

/* Whether the dtype exists and is not one of blocks, of which only ct_cast makes a tensor. If not,
 * an error is recorded. */
bool cti_dtype_check(ct_context *context, const char *op, ct_dtype dtype);

/* The shape without the dims of the set or, if keepdim is set, with size 1 in these dims. */
ct_shape cti_shape_reduced(ct_shape shape, unsigned set, bool keepdim);

/* Sets *out to the shape to which a and b broadcast by torch's rules. Returns false with an error
 * if they do not broadcast. */
bool cti_shape_broadcast(ct_context *context, const char *op, ct_shape a, ct_shape b,
                         ct_shape *out);

/* Whether `from` broadcasts to exactly `to`. */
bool cti_shape_broadcasts_to(ct_shape from, ct_shape to);

/* Sets the row-major strides, in elements. */
void cti_shape_strides(ct_shape shape, int64_t stride[CT_MAX_DIMS]);

#endif
