/* Loops over the columns of a tensor along one dim or adjacent dims. x is viewed as (outer, n,
 * inner), and a column has the n elements (o, 0, j), (o, 1, j), ... A task has a block of columns
 * with the same o. */
#ifndef CTI_OPS_SUPPORT_COLUMNS_H
#define CTI_OPS_SUPPORT_COLUMNS_H

#include "op.h"

/* Element (o, i, j) of x has the index (o n + i) inner + j. Column (o, j) has the index o inner + j
 * in a tensor with one element for each column. */
typedef struct {
    int64_t outer, n, inner;
} cti_columns;

/* Returns the columns along one dim. A scalar has one column of one element. */
cti_columns cti_columns_along(ct_shape shape, int dim);

/* Returns the index of the first element of column (o, j). */
static inline int64_t cti_columns_start(const cti_columns *of, int64_t o, int64_t j) {
    return o * of->n * of->inner + j;
}

/* Runs f for all columns; each call has `width` columns from (o, j) on. arg is the first argument
 * of f, and cost is the cost of an element. */
typedef void cti_columns_task(const void *arg, int64_t o, int64_t j, int64_t width);
void cti_columns_each(ct_context *context, const cti_columns *of, int64_t cost, cti_columns_task *f,
                      const void *arg);

#endif
