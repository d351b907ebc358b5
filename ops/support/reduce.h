/* What the reductions share: any set of dims, on all threads. */
#ifndef CTI_OPS_SUPPORT_REDUCE_H
#define CTI_OPS_SUPPORT_REDUCE_H

#include "op.h"

/* What sum, mean and max are called with. */
typedef struct {
    ct_shape dims;
    bool keepdim;
} cti_reduce_attrs;

/* A shape's dims in runs, in turn reduced and kept; a size of 1 belongs to any run. */
typedef struct {
    int count;
    int64_t size[CT_MAX_DIMS];
    bool reduced[CT_MAX_DIMS];
} cti_reduce_runs;

cti_reduce_runs cti_reduce_runs_of(ct_shape shape, unsigned set);

/* The last reduced run as n elements for each of outer x inner; with none, n is 1. Below 2 where
 * there is no other one. */
int cti_reduce_last(const cti_reduce_runs *runs, int64_t *outer, int64_t *n, int64_t *inner);

/* x reduced by f over the dims of the set. Partial results are combined by `again`, which takes the
 * result's dtype; NULL: they cannot be, and the set is one dim. No element gives 0. x may have any
 * strides. */
ct_tensor *cti_reduce_dims(const ct_call *c, cti_reduce *f, cti_reduce *again, ct_dtype dtype,
                           ct_tensor *x, unsigned set, bool keepdim);

ct_tensor *cti_reduce_sum(const ct_call *c, ct_tensor *x, unsigned set, bool keepdim);

/* g, of the reduced shape with or without its dims of size 1, as a view of the shape before: a
 * reduced dim has stride 0. */
ct_tensor *cti_reduce_expand(ct_tensor *g, ct_shape shape, unsigned set);

/* How many elements make one. A double, which cannot overflow where another dim is 0. */
double cti_reduce_count(ct_shape shape, unsigned set);

#endif
