/* This file copies bf16 matrices to f32 for the few products that no bf16 kernel computes. */
#include "gemm_widened.h"

#include "../core/int_math.h"

/* A copy to f32 and its source. The copy is dense along the same dim as the source, because the
 * product's plan (gemm_plan.h) depends on the dense dim, and the plan fixes the order of sums. */
typedef struct {
    const cti_matrix *from;
    cti_matrix to;
    /* the number of lines of one matrix and the number of elements of a line; a line is a row, or a
     * column if by_columns is true */
    int64_t lines, length;
    bool by_columns; /* whether columns are dense and rows are not */
    const cti_kernels *kernels;
} matrix_widening;

static void widen_lines(void *arg, int64_t begin, int64_t end, int worker) {
    const matrix_widening *w = arg;
    const int64_t step = w->by_columns ? w->from->row : w->from->col;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t item = i / w->lines, line = i % w->lines, row = w->by_columns ? 0 : line,
                      col = w->by_columns ? line : 0;
        const char *from = cti_matrix_at(w->from, item, row, col);
        float *to = cti_matrix_at(&w->to, item, row, col);
        if (step == 1) w->kernels->cast[CT_F32](w->length, from, to);
        for (int64_t j = 0; j < w->length && step != 1; j++)
            w->kernels->cast[CT_F32](1, from + j * step * (int64_t)sizeof(uint16_t), to + j);
    }
}

/* If *x, a batch of rows x cols matrices, is bf16, replaces it by a copy in f32. Sets *bytes to the
 * size of the copy, or to 0 if no copy was made. */
static bool widen_matrix(ct_context *context, cti_matrix *x, int64_t batch, int64_t rows,
                         int64_t cols, size_t *bytes) {
    *bytes = 0;
    if (x->dtype != CT_BF16) return true;
    const int64_t items = x->batch ? batch : 1;
    const cti_matrix from = *x;
    matrix_widening w = {.from = &from,
                         .by_columns = x->col != 1 && x->row == 1,
                         .kernels = context->isa->of[CT_BF16]};
    const ct_shape shape = CT_SHAPE(items, rows, cols);
    int64_t numel;
    if (!cti_shape_fits(context, "a product's copy of an operand", &shape, sizeof(float), &numel))
        return false;
    if (numel == 0) {
        x->dtype = CT_F32;
        return true;
    }
    const size_t size = cti_bytes(numel, sizeof(float));
    float *data = cti_take(context, size);
    if (!data) return false;
    *bytes = size;
    w.lines = w.by_columns ? cols : rows;
    w.length = w.by_columns ? rows : cols;
    w.to = (cti_matrix){.data = data,
                        .row = w.by_columns ? 1 : cols,
                        .col = w.by_columns ? rows : 1,
                        .batch = x->batch ? rows * cols : 0,
                        .dtype = CT_F32};
    enum { ELEMENTS = 16384 }; /* the minimum number of elements of a task */
    cti_parallel(context, items * w.lines, cti_ceil_div(ELEMENTS, w.length), widen_lines, &w);
    *x = w.to;
    return true;
}

bool cti_gemm_widen(ct_context *context, const cti_gemm_args *g, cti_gemm_widened *wide) {
    *wide = (cti_gemm_widened){.args = *g};
    if (widen_matrix(context, &wide->args.a, g->batch, g->m, g->k, &wide->a_bytes) &&
        widen_matrix(context, &wide->args.b, g->batch, g->k, g->n, &wide->b_bytes))
        return true;
    cti_gemm_widened_end(context, wide);
    return false;
}

void cti_gemm_widened_end(ct_context *context, const cti_gemm_widened *wide) {
    if (wide->a_bytes) cti_give(context, wide->args.a.data, wide->a_bytes);
    if (wide->b_bytes) cti_give(context, wide->args.b.data, wide->b_bytes);
}
