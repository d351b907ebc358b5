/* Reductions over any set of dims, computed by all threads. A set of dims is a bit mask: bit d is
 * set if dim d is reduced. */
#ifndef CTI_OPS_SUPPORT_REDUCE_H
#define CTI_OPS_SUPPORT_REDUCE_H

#include "columns.h"
#include "op.h"

/* The attributes of the ops sum, mean and max: the reduced dims, and whether they are kept as 1. */
typedef struct {
    ct_shape dims;
    bool keepdim;
} cti_reduce_attrs;

/* Reduces x over a set of dims by the kernel f, to a result of the given dtype. The kernel `again`
 * combines partial results, which have the result's dtype. If the op's partial results cannot be
 * combined (argmax), `again` is NULL and the set must have exactly one dim. If x has no elements,
 * every element of the result is 0; max and argmax must refuse an empty reduction before the call.
 * If f is NULL, records CT_ERR_DTYPE and returns NULL. x may have any strides. */
ct_tensor *cti_reduce_dims(const ct_call *c, cti_reduce *f, cti_reduce *again, ct_dtype dtype,
                           ct_tensor *x, unsigned set, bool keepdim);

/* Returns the sum of x over a set of dims; the sum of a bool tensor is i64. */
ct_tensor *cti_reduce_sum(const ct_call *c, ct_tensor *x, unsigned set, bool keepdim);

/* Arranges x, which must be dense and row-major, for a loop over columns: each column of *of
 * (columns.h) has the elements that reduce to one element of the result, and columns are in the
 * order of the kept dims. If x has only one reduced run, the result is x itself and *back has no
 * dims. Otherwise the result is a copy of x with the reduced dims last, and ct_permute(copy, *back)
 * restores the order of dims. */
ct_tensor *cti_reduce_as_columns(ct_tensor *x, unsigned set, cti_columns *of, ct_shape *back);

/* Expands g from the reduced shape (with or without keepdim) to the shape before the reduction. The
 * result is a view in which reduced dims have stride 0. */
ct_tensor *cti_reduce_expand(ct_tensor *g, ct_shape shape, unsigned set);

/* Returns the number of elements that are reduced to one element. The result is a double because
 * the product of the reduced dims may exceed int64_t: if a kept dim is 0, a valid tensor without
 * elements may have reduced dims of any size. */
double cti_reduce_count(ct_shape shape, unsigned set);

#endif
