/* This file copies matrices of bf16 or blocks to f32, and an A that is not dense along K, for the
 * few products that no kernel computes from the matrices themselves. */
#include "gemm_widened.h"
#include "../core/isa.h"
#include "../kernels/elementwise.h"

#include "../core/int_math.h"

/* A copy in the computed type and its source. A copy of a matrix of bf16 or blocks is dense along
 * the same dim as the source, because the product's plan (gemm_plan.h) depends on the dense dim,
 * and the plan fixes the order of sums. */
typedef struct {
    const cti_matrix *from;
    cti_matrix to;
    /* the number of lines of one matrix and the number of elements of a line; a line is a row, or a
     * column if by_columns is true */
    int64_t lines, length;
    bool by_columns; /* whether columns are dense and rows are not */
    void (*cast)(int64_t n, const void *x, void *y);
    const cti_gemm_kernels *blocks; /* kernels that widen a source of blocks; else NULL */
} matrix_widening;

static void widen_block_lines(void *arg, int64_t begin, int64_t end, int worker) {
    const matrix_widening *w = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = w->by_columns ? 0 : i, col = w->by_columns ? i : 0;
        w->blocks->widen(w->length, cti_line_at(w->from, row, col), 0, w->length,
                         cti_matrix_at(&w->to, 0, row, col));
    }
}

static void widen_lines(void *arg, int64_t begin, int64_t end, int worker) {
    const matrix_widening *w = arg;
    const int64_t step = w->by_columns ? w->from->row : w->from->col;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t matrix = i / w->lines, line = i % w->lines, row = w->by_columns ? 0 : line,
                      col = w->by_columns ? line : 0;
        const char *from = cti_matrix_at(w->from, matrix, row, col);
        char *to = cti_matrix_at(&w->to, matrix, row, col);
        const int64_t from_size = (int64_t)cti_dtype_size(w->from->dtype),
                      to_size = (int64_t)cti_dtype_size(w->to.dtype);
        if (step == 1) w->cast(w->length, from, to);
        for (int64_t j = 0; j < w->length && step != 1; j++)
            w->cast(1, from + j * step * from_size, to + j * to_size);
    }
}

/* Replaces *x, a batch of rows x cols matrices, by a copy in the computed type if it is of bf16 or
 * blocks, or if its rows shall be dense and are not. of_b are the kernels of B. Sets *bytes to the
 * size of the copy, or to 0 if no copy was made. */
static bool widen_matrix(ct_context *context, cti_matrix *x, int64_t batch, int64_t rows,
                         int64_t cols, bool dense_rows, const cti_gemm_kernels *of_b,
                         size_t *bytes) {
    *bytes = 0;
    const bool is_blocks = cti_is_blocks(x->dtype);
    if (x->dtype != CT_BF16 && !is_blocks && (!dense_rows || x->col == 1)) return true;
    CTI_ASSERT(!is_blocks || x->batch == 0);
    const ct_dtype type = cti_dtype_computed(x->dtype);
    const int64_t matrices = x->batch ? batch : 1;
    const cti_matrix from = *x;
    matrix_widening w = {.from = &from,
                         .by_columns = !dense_rows && x->col != 1 && x->row == 1,
                         .cast = context->isa->of[x->dtype]->elementwise->cast[type],
                         .blocks = is_blocks ? of_b : NULL};
    const ct_shape shape = CT_SHAPE(matrices, rows, cols);
    int64_t numel;
    if (!cti_shape_fits(context, "a product's copy of an operand", &shape, cti_dtype_size(type),
                        &numel))
        return false;
    if (numel == 0) {
        x->dtype = type;
        return true;
    }
    const size_t size = cti_bytes(numel, cti_dtype_size(type));
    void *data = cti_take(context, size);
    if (!data) return false;
    *bytes = size;
    w.lines = w.by_columns ? cols : rows;
    w.length = w.by_columns ? rows : cols;
    w.to = (cti_matrix){.data = data,
                        .row = w.by_columns ? 1 : cols,
                        .col = w.by_columns ? rows : 1,
                        .batch = x->batch ? rows * cols : 0,
                        .dtype = type};
    enum { ELEMENTS = 16384 }; /* the minimum number of elements of a task */
    cti_parallel(context, matrices * w.lines, cti_ceil_div(ELEMENTS, w.length),
                 is_blocks ? widen_block_lines : widen_lines, &w);
    *x = w.to;
    return true;
}

bool cti_gemm_widen(ct_context *context, const cti_gemm_args *g, bool dense_a,
                    cti_gemm_widened *wide) {
    *wide = (cti_gemm_widened){.args = *g};
    const cti_gemm_kernels *of_b = cti_gemm_kernels_of(context->isa, g);
    if (widen_matrix(context, &wide->args.a, g->batch, g->m, g->k, dense_a, of_b, &wide->a_bytes) &&
        widen_matrix(context, &wide->args.b, g->batch, g->k, g->n, false, of_b, &wide->b_bytes))
        return true;
    cti_gemm_widened_end(context, wide);
    return false;
}

void cti_gemm_widened_end(ct_context *context, const cti_gemm_widened *wide) {
    if (wide->a_bytes) cti_give(context, wide->args.a.data, wide->a_bytes);
    if (wide->b_bytes) cti_give(context, wide->args.b.data, wide->b_bytes);
}
