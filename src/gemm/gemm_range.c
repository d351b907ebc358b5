/* A number of 24 bits is the sum of three terms of 8 bits; the last term is at least 2^-23 of the
 * number, or 0. Tiles count a term, or a product of terms, below 2^-126 as 0. So each |a| and |b|
 * that is not 0 must be at least 2^-103, and so must each |a b|. K max |a| max |b| must stay below
 * 2^127, so that no order of summation overflows. Infinities and NaN are above every bound. */
#include "gemm_range.h"

#include "../core/int_math.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
    const cti_matrix *x;
    int64_t rows, cols;
    const cti_gemm_kernels *kernels;
    _Atomic uint32_t least, most; /* the bits of magnitudes */
} magnitude_scan;

static void scan_magnitudes(void *arg, int64_t begin, int64_t end, int worker) {
    magnitude_scan *s = arg;
    uint32_t least = UINT32_MAX, most = 0;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        s->kernels->magnitudes(s->cols, cti_matrix_at(s->x, i / s->rows, i % s->rows, 0), s->x->col,
                               &least, &most);
    for (uint32_t old = atomic_load(&s->least);
         least < old && !atomic_compare_exchange_weak(&s->least, &old, least);) {}
    for (uint32_t old = atomic_load(&s->most);
         most > old && !atomic_compare_exchange_weak(&s->most, &old, most);) {}
}

/* The least magnitude that is not 0 (infinite if all are 0), and the greatest. */
typedef struct {
    double least, most;
} magnitude_range;

static magnitude_range magnitude_range_of(ct_context *context, const cti_matrix *x, int64_t batch,
                                          int64_t rows, int64_t cols,
                                          const cti_gemm_kernels *kernels) {
    enum { TASK_ELEMENTS = 1 << 15 };
    const cti_matrix by_columns = cti_matrix_transposed(x);
    const bool dense = x->col == 1 || x->row != 1;
    magnitude_scan s = {.x = dense ? x : &by_columns,
                        .rows = dense ? rows : cols,
                        .cols = dense ? cols : rows,
                        .kernels = kernels};
    atomic_init(&s.least, UINT32_MAX);
    atomic_init(&s.most, 0);
    cti_parallel(context, (x->batch == 0 ? 1 : batch) * s.rows, cti_ceil_div(TASK_ELEMENTS, s.cols),
                 scan_magnitudes, &s);
    const uint32_t bits[2] = {atomic_load(&s.least), atomic_load(&s.most)};
    float magnitude[2];
    memcpy(magnitude, bits, sizeof magnitude);
    return (magnitude_range){.least = bits[0] == UINT32_MAX ? INFINITY : (double)magnitude[0],
                             .most = (double)magnitude[1]};
}

bool cti_gemm_in_range(ct_context *context, const cti_gemm_args *g,
                       const cti_gemm_kernels *kernels) {
    const magnitude_range a = magnitude_range_of(context, &g->a, g->batch, g->m, g->k, kernels);
    if (!(a.least >= 0x1p-103 && a.most < 0x1p127)) return false;
    const magnitude_range b = magnitude_range_of(context, &g->b, g->batch, g->k, g->n, kernels);
    return b.least >= 0x1p-103 && b.most < 0x1p127 && a.least * b.least >= 0x1p-103 &&
           a.most * b.most * (double)g->k < 0x1p127;
}
