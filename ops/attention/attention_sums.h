/* Rows of dQ, dK or dV while a pair of attention's backward sums them. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_SUMS_H
#define CTI_OPS_ATTENTION_ATTENTION_SUMS_H

#include "attention_pair.h"
#include "../../src/kernels/elementwise.h"

/* The rows are summed in the gradient itself, or in the workspace, from which
 * cti_attention_sum_end copies or adds them to the gradient. */
typedef struct {
    char *data;
    int64_t stride; /* elements from one row to the next */
    char *gradient; /* the same rows of the gradient; NULL if not wanted */
    int64_t gradient_stride;
} cti_attention_sum;

/* Begins a sum of n rows of `cols` numbers, whose first is row `first` of head h of `to`. */
static inline cti_attention_sum cti_attention_sum_begin(const cti_attention_backward_call *f,
                                                        const cti_attention_operand *to, int64_t b,
                                                        int64_t h, int64_t first, int64_t n,
                                                        int64_t cols, char *buffer) {
    char *gradient = to->data ? cti_attention_at(&f->a, to, b, h, first, 0) : NULL;
    const bool in_place =
        gradient && !f->accumulate && cti_attention_in_place(&f->a, n, to->stride[2], cols);
    return (cti_attention_sum){.data = in_place ? gradient : buffer,
                               .stride = in_place ? to->stride[2] : cols,
                               .gradient = gradient,
                               .gradient_stride = to->stride[2]};
}

static inline char *cti_attention_sum_row(const cti_attention_backward_call *f,
                                          const cti_attention_sum *s, int64_t i) {
    return s->data + i * s->stride * f->a.size;
}

/* Sets rows [begin, end) to zeros. */
static inline void cti_attention_sum_clear(const cti_attention_backward_call *f,
                                           const cti_attention_sum *s, int64_t begin, int64_t end,
                                           int64_t cols) {
    for (int64_t i = begin; i < end; i++)
        f->a.kernels->elementwise->fill(cols, 0, cti_attention_sum_row(f, s, i));
}
/* Gives the n rows to the gradient. */
static inline void cti_attention_sum_end(const cti_attention_backward_call *f,
                                         const cti_attention_sum *s, int64_t n, int64_t cols) {
    if (!s->gradient || s->gradient == s->data) return;
    f->a.kernels->elementwise->copy2d(n, cols, s->data, s->stride, 1, s->gradient,
                                      s->gradient_stride, 1, f->accumulate);
}

#endif
