/* Your file defines weights in int8: their scales, rounding, and products. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* A weight W of `rows` rows and `columns` columns. Each `block` columns of a row share a scale; the
 * last block of a row may be shorter, and a block may be larger than a row. So a row has blocks =
 * columns / block scales, rounded up, and scale[r * blocks + c / block] is that of W[r][c]. */
typedef struct {
    int64_t rows, columns, block;
} layout;

/* Sets the scales of a weight: rows * blocks of them. */
extern void find_scales(const layout *l, const float *w, float *scale);

/* Sets q to w in units of the scales, which may come from elsewhere. */
extern void quantise(const layout *l, const float *w, const float *scale, int8_t *q);
/* Sets w to what q stands for. */
extern void dequantise(const layout *l, const int8_t *q, const float *scale, float *w);

/* y = x W', for n rows of x: y[i][r] is the sum over c of x[i][c] q[r][c] scale. In both functions
 * everything is computed in f64, and y is rounded at the end. */
extern void multiply(const layout *l, const int8_t *q, const float *scale, int64_t n,
                     const double *x, double *y);
extern void multiply_f32(const layout *l, const int8_t *q, const float *scale, int64_t n,
                         const float *x, float *y);

/* Sets bound[i][r] to how far y[i][r] can be from what W itself would have given. */
extern void bound_error(const layout *l, const float *scale, int64_t n, const double *x,
                        double *bound);

#endif
