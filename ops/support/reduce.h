/* Reductions over any set of dims, on all threads. */
#ifndef CTI_OPS_SUPPORT_REDUCE_H
#define CTI_OPS_SUPPORT_REDUCE_H

#include "columns.h"
#include "op.h"

/* The attributes of sum, mean and max. */
typedef struct {
    ct_shape dims;
    bool keepdim;
} cti_reduce_attrs;

/* Dims in runs, alternately reduced and kept; a dim of size 1 may belong to either. */
typedef struct {
    int count;
    int64_t size[CT_MAX_DIMS];
    bool reduced[CT_MAX_DIMS];
} cti_reduce_runs;

cti_reduce_runs cti_reduce_runs_of(ct_shape shape, unsigned set);

/* Sets outer, n and inner of the last reduced run, which has n elements for each of outer x inner;
 * n is 1 if no run is reduced. Returns the number of the run, which is less than 2 if no earlier
 * run is reduced. */
int cti_reduce_last(const cti_reduce_runs *runs, int64_t *outer, int64_t *n, int64_t *inner);

/* Reduces x by f over a set of dims. `again`, which takes the result's dtype, combines partial
 * results; if it is NULL they cannot be combined, and the set is one dim. Reducing no element gives
 * 0. x may have any strides. */
ct_tensor *cti_reduce_dims(const ct_call *c, cti_reduce *f, cti_reduce *again, ct_dtype dtype,
                           ct_tensor *x, unsigned set, bool keepdim);

ct_tensor *cti_reduce_sum(const ct_call *c, ct_tensor *x, unsigned set, bool keepdim);

/* Returns x, row-major, as columns along the dims of the set. Each column reduces to one element,
 * in the order of the other dims. If kept and reduced dims alternate, the result is a copy of x
 * with the reduced dims last, and ct_permute by `back` undoes the new order. Otherwise the result
 * is x, and back has no dims. */
ct_tensor *cti_reduce_as_columns(ct_tensor *x, unsigned set, cti_columns *of, ct_shape *back);

/* Expands g from the reduced shape (with or without keepdim) to the shape before the reduction. The
 * result is a view in which reduced dims have stride 0. */
ct_tensor *cti_reduce_expand(ct_tensor *g, ct_shape shape, unsigned set);

/* Returns the number of elements that are reduced to one. It is a double because the product may
 * overflow if another dim is 0. */
double cti_reduce_count(ct_shape shape, unsigned set);

#endif
