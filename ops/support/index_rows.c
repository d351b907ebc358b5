#include "index_rows.h"
#include "../../src/core/isa.h"
#include "columns.h"
#include "index.h"
#include "../../src/kernels/elementwise.h"

#include <string.h>

typedef struct {
    const cti_kernels *k;
    cti_columns of; /* the columns of x */
    int64_t count;  /* the number of indices */
    const int64_t *index;
    char *x, *y;
    size_t size;
} index_rows_args;

static void copy_index_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const index_rows_args *a = arg;
    const size_t bytes = (size_t)a->of.inner * a->size;
    for (int64_t r = begin; r < end; r++) {
        const char *from = a->x + (size_t)(r / a->count * a->of.n + a->index[r % a->count]) * bytes;
        char *to = a->y + (size_t)r * bytes;
        if (bytes == 4) memcpy(to, from, 4);
        else if (bytes == 8) memcpy(to, from, 8);
        else memcpy(to, from, bytes);
    }
}

static void add_index_columns(const void *arg, int64_t o, int64_t j, int64_t width) {
    const index_rows_args *a = arg;
    for (int64_t i = 0; i < a->count; i++)
        a->k->elementwise->axpy(
            width, 1, a->y + (size_t)((o * a->count + i) * a->of.inner + j) * a->size,
            a->x + (size_t)((o * a->of.n + a->index[i]) * a->of.inner + j) * a->size);
}

static index_rows_args index_rows_of(const ct_call *c, int dim, const ct_tensor *index,
                                     const ct_tensor *x, const ct_tensor *y) {
    CTI_ASSERT(index->dtype == CT_I64 && index->contiguous && x->dtype == y->dtype);
    CTI_ASSERT(x->contiguous && y->contiguous && dim >= 0);
    return (index_rows_args){.k = c->context->isa->of[x->dtype],
                             .of = cti_columns_along(x->shape, dim),
                             .count = index->numel,
                             .index = (const int64_t *)index->data,
                             .x = x->data,
                             .y = y->data,
                             .size = cti_dtype_size(x->dtype)};
}

void cti_index_rows(const ct_call *c, int dim, const ct_tensor *index, const ct_tensor *x,
                    ct_tensor *y) {
    index_rows_args a = index_rows_of(c, dim, index, x, y);
    if (y->numel)
        cti_parallel(c->context, a.of.outer * a.count, cti_op_grain(a.of.inner), copy_index_rows,
                     &a);
}

void cti_index_rows_add(const ct_call *c, int dim, const ct_tensor *index, ct_tensor *x,
                        const ct_tensor *y) {
    const index_rows_args a = index_rows_of(c, dim, index, x, y);
    const cti_columns of = {a.of.outer, a.count, a.of.inner};
    if (y->numel) cti_columns_each(c->context, &of, 2, add_index_columns, &a);
}

bool cti_index_rows_check(const ct_call *c, int dim) {
    const ct_tensor *x = c->in[0], *index = c->in[1];
    if (!cti_op_is(c, 1, CT_I64)) return false;
    if (index->shape.ndim > 1 || (x->shape.ndim == 0 && index->numel != 1))
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: the index %s is not one dim of indices of %s",
                       c->op->name, SHAPE(index->shape), SHAPE(x->shape));
    return cti_op_indices_inside(c, index, "index", x->shape.ndim ? x->shape.dim[dim] : 1, 0);
}
