#include "columns.h"

enum { COLUMNS_WIDTH = 256 };

cti_columns cti_columns_along(ct_shape shape, int dim) {
    cti_columns all = {1, 1, 1};
    for (int d = 0; d < shape.ndim; d++)
        *(d < dim ? &all.outer : d == dim ? &all.n : &all.inner) *= shape.dim[d];
    return all;
}

typedef struct {
    const cti_columns *of;
    int64_t width, blocks;
    cti_columns_task *f;
    const void *arg;
} columns_args;

static void columns_each_block(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const columns_args *w = arg;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit % w->blocks * w->width, left = w->of->inner - j;
        w->f(w->arg, unit / w->blocks, j, left < w->width ? left : w->width);
    }
}

void cti_columns_each(ct_context *context, const cti_columns *of, int64_t cost, cti_columns_task *f,
                      const void *arg) {
    CTI_ASSERT(of->outer >= 0 && of->n >= 0 && of->inner >= 0 && cost > 0);
    if (of->outer == 0 || of->inner == 0) return;
    columns_args w = {of, of->inner < COLUMNS_WIDTH ? of->inner : COLUMNS_WIDTH, 0, f, arg};
    w.blocks = (of->inner + w.width - 1) / w.width;
    cti_parallel(context, of->outer * w.blocks, cti_op_grain(of->n * w.width * cost),
                 columns_each_block, &w);
}
