/* Shapes: what ops ask of them. The functions that can fail record the error under the op's
 * name. */
#ifndef CTI_CORE_SHAPE_H
#define CTI_CORE_SHAPE_H

#include <cotangent/context.h>

#include "dtype.h"
#include "memory.h"

/* "(2, 10, 512)" in a buffer that lives as long as the enclosing block: ct_fail(c, CT_ERR_SHAPE,
 * "%s", SHAPE(s)) */
enum { CTI_SHAPE_TEXT = CT_MAX_DIMS * 22 + 4 };
const char *cti_shape_text(ct_shape shape, char text[CTI_SHAPE_TEXT]);
#define SHAPE(shape) cti_shape_text((shape), (char[CTI_SHAPE_TEXT]){0})

bool cti_shape_equal(ct_shape a, ct_shape b);
int64_t cti_shape_numel(ct_shape shape); /* of a shape that passed cti_shape_check */

/* The same where every op comes by: a shape handed over by value is copied, and a copy of what was
 * just written waits for it. */
static inline bool cti_shape_same(const ct_shape *a, const ct_shape *b) {
    bool same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++) same = a->dim[d] == b->dim[d];
    return same;
}

/* Is it a shape: 0 to 8 dims, no negative size, a product of at most so many bytes? That of the
 * sizes other than 0 must fit too: strides are made of it. A negative size is, unsigned, too large.
 * numel is how many elements it has, if it is one. op NULL: "tensor". */
/* false, with the error recorded */
bool cti_shape_refuse(ct_context *context, const char *op, const ct_shape *shape);
static inline bool cti_shape_fits_in(uint64_t most, ct_context *context, const char *op,
                                     const ct_shape *shape, size_t element_size, int64_t *numel) {
    uint64_t bytes = element_size, count = 1;
    bool wrong = shape->ndim < 0 || shape->ndim > CT_MAX_DIMS;
    for (int d = 0, ndim = wrong ? 0 : shape->ndim; d < ndim; d++) {
        const uint64_t size = (uint64_t)shape->dim[d];
        wrong |= __builtin_mul_overflow(bytes, size ? size : 1, &bytes);
        count *= size;
    }
    *numel = (int64_t)count;
    return (!wrong && bytes <= most) || cti_shape_refuse(context, op, shape);
}
static inline bool cti_shape_fits(ct_context *context, const char *op, const ct_shape *shape,
                                  size_t element_size, int64_t *numel) {
    return cti_shape_fits_in(CTI_MOST_BYTES, context, op, shape, element_size, numel);
}
bool cti_shape_check(ct_context *context, const char *op, ct_shape shape, size_t element_size);

/* dim, negative from the end, as 0 ... ndim - 1; -1 with an error recorded where there is no such
 * dim */
int cti_dim_index(ct_context *context, const char *op, int64_t dim, int ndim);

/* The set of dims as a bit mask (bit d: dim d; no dim named: all of them). False with an error: out
 * of range, or twice. */
bool cti_dim_set(ct_context *context, const char *op, ct_shape dims, int ndim, unsigned *set);

/* is there such a dtype? */
bool cti_dtype_check(ct_context *context, const char *op, ct_dtype dtype);

/* without the dims of the set, or with size 1 */
ct_shape cti_shape_reduced(ct_shape shape, unsigned set, bool keepdim);

/* The shape that a and b broadcast to, by torch's rules. False with "op: shapes do not broadcast:
 * (2, 3) and (4)". */
bool cti_shape_broadcast(ct_context *context, const char *op, ct_shape a, ct_shape b,
                         ct_shape *out);

/* Does `from` broadcast to exactly `to`? */
bool cti_shape_broadcasts_to(ct_shape from, ct_shape to);

/* Row-major strides, in elements. */
void cti_shape_strides(ct_shape shape, int64_t stride[CT_MAX_DIMS]);

#endif
