/* What works on each column along some dims: x as (outer, n, inner), and a task for each block of
 * columns of each of outer. */
#ifndef CTI_OPS_SUPPORT_COLUMNS_H
#define CTI_OPS_SUPPORT_COLUMNS_H

#include "op.h"

/* An element (o, i, j) is at (o n + i) inner + j of x, and of what has its shape; a column (o, j)
 * at o inner + j. */
typedef struct {
    int64_t outer, n, inner;
} cti_columns;

/* The columns along one dim. A scalar has one column of one element. */
cti_columns cti_columns_along(ct_shape shape, int dim);

/* The index of the first element of column (o, j). */
static inline int64_t cti_columns_start(const cti_columns *of, int64_t o, int64_t j) {
    return o * of->n * of->inner + j;
}

/* Runs f for all columns, `width` of them from column j of o on. The first argument of f's is arg.
 * cost: of an element. */
typedef void cti_columns_task(const void *arg, int64_t o, int64_t j, int64_t width);
void cti_columns_each(ct_context *context, const cti_columns *of, int64_t cost, cti_columns_task *f,
                      const void *arg);

#endif
