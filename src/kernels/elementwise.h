/* The kernels of elementwise.c: arrays of any number, moves and conversions of elements, and the
 * steps of optimisers. */
#ifndef CTI_KERNELS_ELEMENTWISE_H
#define CTI_KERNELS_ELEMENTWISE_H

#include "kernels.h"

/* One optimiser step's numbers. */
typedef struct {
    double lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale; /* bias: 1 - beta^t */
    /* AdamW's decay; else Adam's */
    bool decoupled;
} cti_adam_numbers;
typedef struct {
    double lr, momentum, dampening, weight_decay, grad_scale;
    bool nesterov, first;
} cti_sgd_numbers;

struct cti_elementwise_kernels {
    cti_binary *add, *sub, *mul, *div, *maximum, *minimum;
    /* a tie takes g / 2; NaN passes g */
    cti_binary_backward *maximum_backward, *minimum_backward;
    cti_binary *eq, *ne, *lt, *le, *gt, *ge;
    cti_binary *logical_and, *logical_or; /* bool's table only */
    void (*where)(int64_t n, const bool *cond, int64_t sc, const void *a, int64_t sa, const void *b,
                  int64_t sb, void *y);
    void (*fill)(int64_t n, double value, void *y);
    /* y[i] = start + (begin + i) step */
    void (*arange)(int64_t n, int64_t begin, double start, double step, void *y);
    void (*axpy)(int64_t n, double a, const void *x, void *y); /* y += a x */
    /* y[i] = x[i] + w (e[i] - x[i]), or where |w| >= 1/2 e[i] - (1 - w)(e[i] - x[i]), e[i] being
     * end[i se]; se is 0 or 1 */
    void (*lerp)(int64_t n, const void *x, const void *end, int64_t se, double w, void *y);
    /* y = x, or y += x; an m x n block, element (i, j) at i row + j col */
    void (*copy2d)(int64_t m, int64_t n, const void *x, int64_t x_row, int64_t x_col, void *y,
                   int64_t y_row, int64_t y_col, bool add);
    /* casts from this dtype to the ct_dtype of the index by C's rules; to bool: != 0, to bf16: to
     * nearest even. A table of blocks has none, and none casts to blocks (block_matrix.h does) */
    void (*cast[7])(int64_t n, const void *x, void *y);

    /* ---- optimisers, in place; g is multiplied by grad_scale first ---- */
    void (*adam)(int64_t n, void *p, const void *g, void *m, void *v, const cti_adam_numbers *);
    /* buffer may be NULL without momentum */
    void (*sgd)(int64_t n, void *p, const void *g, void *buffer, const cti_sgd_numbers *);
    /* y, which is bf16, = a state x after this step, rounded so that errors cancel over the steps;
     * x[0] is element `at` of the parameter */
    void (*round)(int64_t n, const void *x, int64_t at, int64_t step, void *y);
};

#endif
